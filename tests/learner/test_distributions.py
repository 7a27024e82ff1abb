"""Distributions against torch.distributions, automatic differentiation and frequencies."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from acer.learner.categorical import Categorical, Statistic
from acer.learner.gaussian import Gaussian

STATISTICS: list[Statistic] = ["logits", "probabilities"]


def normal(seed: int, *shape: int, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def coordinates(f: Categorical, output: Tensor) -> Tensor:
    """φ in the coordinates of `f.statistic`, as a leaf to differentiate by."""
    phi = output if f.statistic == "logits" else output.softmax(-1)
    return phi.detach().clone().requires_grad_()


def log_probabilities(f: Categorical, phi: Tensor) -> Tensor:
    """log f(·|φ) as a function of φ: softmax of logits; of probabilities the logarithm, each entry by itself."""
    return phi.log_softmax(-1) if f.statistic == "logits" else phi.log()


def score_of_all(f: Categorical, phi: Tensor, weights: Tensor) -> Tensor:
    """Σ_a w(a) ∇_φ log f(a|φ), over all actions. weights: […, actions]."""
    return f.score(phi, f.every(phi), weights.movedim(-1, 0))


@pytest.mark.parametrize("statistic", STATISTICS)
@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), actions=st.integers(2, 6))
def test_categorical_gradients_are_those_of_autograd(statistic: Statistic, seed: int, actions: int) -> None:
    f = Categorical(actions, statistic)
    output, weights = normal(seed, 3, actions), normal(seed + 1, 3, actions)
    stored, stored_a = f.statistics(output), f.statistics(normal(seed + 2, 3, actions))

    phi = coordinates(f, output)
    (weights * log_probabilities(f, phi)).sum().backward()
    torch.testing.assert_close(score_of_all(f, stored, weights), phi.grad)

    phi = coordinates(f, output)
    f.kl(stored_a, log_probabilities(f, phi)).sum().backward()
    torch.testing.assert_close(f.kl_gradient(stored_a, stored), phi.grad)

    phi = coordinates(f, output)
    logs = log_probabilities(f, phi)
    entropy = -(logs.exp() * logs).sum(-1)
    entropy.sum().backward()
    torch.testing.assert_close(f.entropy(stored), entropy.detach())
    torch.testing.assert_close(f.entropy_gradient(stored), phi.grad)

    leaf = output.clone().requires_grad_()
    (weights * (leaf if statistic == "logits" else leaf.softmax(-1))).sum().backward()
    torch.testing.assert_close(f.pullback(stored, weights), leaf.grad)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), actions=st.integers(2, 6))
def test_both_statistics_are_one_policy(seed: int, actions: int) -> None:
    """Pulled back to the network's output, gradients do not depend on the coordinates in which they were taken."""
    logits, probabilities = Categorical(actions), Categorical(actions, "probabilities")
    phi, phi_a = logits.statistics(normal(seed, actions)), logits.statistics(normal(seed + 1, actions))
    weights = normal(seed + 2, actions)
    for pulled in (
        lambda f: f.pullback(phi, score_of_all(f, phi, weights)),
        lambda f: f.pullback(phi, f.kl_gradient(phi_a, phi)),
        lambda f: f.pullback(phi, f.entropy_gradient(phi)),
    ):
        torch.testing.assert_close(pulled(probabilities), pulled(logits))


@pytest.mark.parametrize("statistic", STATISTICS)
def test_categorical_agrees_with_torch(statistic: Statistic) -> None:
    f, output = Categorical(5, statistic), normal(0, 4, 3, 5)
    phi = f.statistics(output)
    reference = torch.distributions.Categorical(logits=output)
    output_a = normal(1, 4, 3, 5)
    divergence = torch.distributions.kl_divergence(torch.distributions.Categorical(logits=output_a), reference)
    actions = torch.arange(12).reshape(4, 3) % 5
    torch.testing.assert_close(f.log_prob(phi, actions), reference.log_prob(actions))
    torch.testing.assert_close(f.entropy(phi), reference.entropy())
    torch.testing.assert_close(f.kl(f.statistics(output_a), phi), divergence)
    assert f.mode(phi).equal(output.argmax(-1))


def test_kl_gradient_vanishes_at_equality_for_logits_but_not_for_probabilities() -> None:
    """With probabilities k = −1 in every entry, which softmax takes away again."""
    phi = Categorical(4).statistics(normal(0, 4))
    assert not Categorical(4).kl_gradient(phi, phi).any()
    probabilities = Categorical(4, "probabilities")
    k = probabilities.kl_gradient(phi, phi)
    torch.testing.assert_close(k, -torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(probabilities.pullback(phi, k), torch.zeros(4, dtype=torch.float64))


def test_categorical_samples_have_its_frequencies() -> None:
    f = Categorical(4)
    pi = torch.tensor([0.05, 0.6, 0.0, 0.35])
    count = 100_000
    actions = f.sample(pi.log().expand(count, 4), f.noise(np.random.default_rng(0), (count,)))
    frequencies = torch.bincount(actions, minlength=4) / count
    assert frequencies[2] == 0
    # Five standard deviations of a frequency.
    assert ((frequencies - pi).abs() <= 5 * (pi * (1 - pi) / count).sqrt()).all()


@pytest.mark.parametrize(("noise", "expected"), [(0.0, 0), (0.2499, 0), (0.25, 1), (0.9999, 2), (1.0, 2)])
def test_categorical_sample_inverts_the_cumulative_distribution(noise: float, expected: int) -> None:
    """Noise at 1, which rounding of the sum may also reach, still gives an action."""
    phi = torch.tensor([0.25, 0.25, 0.5]).log()
    assert int(Categorical(3).sample(phi, torch.tensor([noise]))) == expected


def test_categorical_never_samples_the_impossible_first_action() -> None:
    phi = torch.tensor([-400.0, 0.0])
    assert int(Categorical(2).sample(phi, torch.tensor([0.0]))) == 1


@pytest.mark.parametrize("statistic", STATISTICS)
def test_categorical_is_finite_at_extreme_logits(statistic: Statistic) -> None:
    f = Categorical(3, statistic)
    phi = f.statistics(torch.tensor([[200.0, -200.0, -200.0], [-200.0, 200.0, 200.0]]))
    phi_a = phi.flip(0)
    results = [
        phi,
        score_of_all(f, phi, torch.ones_like(phi)),
        f.kl(phi_a, phi),
        f.kl_gradient(phi_a, phi),
        f.entropy(phi),
        f.entropy_gradient(phi),
        f.pullback(phi, f.kl_gradient(phi_a, phi)),
    ]
    assert all(result.isfinite().all() for result in results)
    torch.testing.assert_close(f.pullback(phi, f.kl_gradient(phi, phi)), torch.zeros_like(phi))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), dimensions=st.integers(1, 5), sigma=st.sampled_from([0.1, 0.3, 2.0]))
def test_gaussian_agrees_with_torch_and_autograd(seed: int, dimensions: int, sigma: float) -> None:
    f = Gaussian(dimensions, sigma)
    output, output_a, actions = (normal(seed + i, 4, dimensions) for i in range(3))
    mean = output.clone().requires_grad_()
    reference = torch.distributions.Independent(torch.distributions.Normal(mean, sigma), 1)
    reference_a = torch.distributions.Independent(torch.distributions.Normal(output_a, sigma), 1)
    assert f.statistics(output).equal(output)

    log_prob = reference.log_prob(actions)
    assert log_prob.shape == (4,)  # joint over dimensions
    torch.testing.assert_close(f.log_prob(output, actions), log_prob.detach())
    torch.testing.assert_close(
        f.score(output, actions.unsqueeze(0), torch.ones(1, 4)), torch.autograd.grad(log_prob.sum(), mean)[0]
    )

    divergence = torch.distributions.kl_divergence(reference_a, reference)
    torch.testing.assert_close(f.kl(output_a, output), divergence.detach())
    torch.testing.assert_close(f.kl_gradient(output_a, output), torch.autograd.grad(divergence.sum(), mean)[0])

    torch.testing.assert_close(f.entropy(output), reference.entropy().detach())
    assert not f.entropy_gradient(output).any()
    assert f.pullback(output, actions).equal(actions)
    assert f.mode(output).equal(output)


def test_gaussian_samples_have_its_moments() -> None:
    f = Gaussian(2, sigma=0.3)
    count = 100_000
    phi = torch.tensor([1.0, -2.0])
    actions = f.sample(phi.expand(count, 2), f.noise(np.random.default_rng(0), (count,)))
    assert actions.shape == (count, 2)
    # Five standard errors of a mean, of a deviation and of a correlation.
    assert (actions.mean(0) - phi).abs().max() <= 5 * 0.3 / count**0.5
    assert (actions.std(0) - 0.3).abs().max() <= 5 * 0.3 / (2 * count) ** 0.5
    assert float(torch.corrcoef(actions.T)[0, 1].abs()) <= 5 / count**0.5


def test_noise_belongs_to_its_stream() -> None:
    for f in (Categorical(3), Gaussian(2)):
        first, again, other = (f.noise(np.random.default_rng(seed), (4, 5)) for seed in (1, 1, 2))
        assert first.shape[:2] == (4, 5)
        assert first.equal(again) and not first.equal(other)
