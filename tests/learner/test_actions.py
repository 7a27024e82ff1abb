"""Actions beyond one choice or a vector: several choices at once, illegal choices, learnt deviations."""

import functools
import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from acer import ACER
from acer.config import defaults
from acer.envs import EnvBatch
from acer.envs.spaces import ActionSpec
from acer.errors import EnvironmentFault, SettingsError
from acer.learner.categorical import ILLEGAL, Categorical, MultiCategorical, Statistic
from acer.learner.gaussian import Gaussian, LearntGaussian
from environments import Dials, Market, Target

SMALL: dict[str, Any] = {"environments": 4, "replay_start": 100, "eval_episodes": 2}


def normal(seed: int, *shape: int) -> Tensor:
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_masks(seed: int, sizes: tuple[int, ...], count: int) -> Tensor:
    rng = np.random.default_rng(seed)
    parts = []
    for size in sizes:
        part = rng.random((count, size)) < 0.5
        part[np.arange(count), rng.integers(size, size=count)] = True
        parts.append(part)
    return torch.from_numpy(np.concatenate(parts, axis=1))


# ------------------------------------------------------------------ spaces


def test_several_choices_become_actions_of_the_space() -> None:
    spec = ActionSpec(spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 0], [-2, 7]]))
    assert spec.parts == (2, 3, 4, 5) and spec.size == 14 and spec.shape == (4,) and not spec.continuous
    decoded = spec.decode(np.array([[1, 2, 0, 4], [0, 0, 3, 0]]))
    assert decoded.tolist() == [[[2, 2], [-2, 11]], [[1, 0], [1, 7]]]
    assert spec.takes(decoded) and not spec.takes(decoded + 9) and not spec.takes(decoded[:, 0])
    assert spec.describe() == "2 × 3 × 4 × 5 choices"


def test_bits_become_actions_of_the_space() -> None:
    spec = ActionSpec(spaces.MultiBinary([2, 2]))
    assert spec.parts == (2, 2, 2, 2)
    decoded = spec.decode(np.array([[1, 0, 0, 1]]))
    assert decoded.tolist() == [[[1, 0], [0, 1]]] and all(spec.space.contains(one) for one in decoded)


# ------------------------------------------------------------------ several choices at once


SIZES = [(3,), (2, 2), (3, 2), (2, 4, 3)]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31))
def test_several_choices_are_a_product_of_categoricals(sizes: tuple[int, ...], masked: bool, seed: int) -> None:
    f, count = MultiCategorical(sizes), 6
    masks = random_masks(seed, sizes, count) if masked else None
    output, output_a = normal(seed, count, sum(sizes)), normal(seed + 1, count, sum(sizes))
    phi, phi_a = f.statistics(output, masks), f.statistics(output_a, masks)

    def parts(y: Tensor) -> list[torch.distributions.Categorical]:
        blocked = y if masks is None else y.masked_fill(~masks, -1e9)
        return [torch.distributions.Categorical(logits=part) for part in blocked.split(sizes, -1)]

    p, p_a = parts(output), parts(output_a)
    listed = list(itertools.product(*(range(size) for size in sizes)))
    assert f.every(phi)[:, 0].tolist() == [list(action) for action in listed]
    for index, action in enumerate(listed):
        taken = torch.tensor(action).expand(count, -1)
        expected = torch.stack([q.log_prob(torch.tensor(a)) for q, a in zip(p, action, strict=True)]).sum(0)
        possible = expected > ILLEGAL / 2
        torch.testing.assert_close(f.log_prob(phi, taken)[possible], expected[possible])
        torch.testing.assert_close(f.log_probs(phi)[possible, index], expected[possible])
        assert (f.log_prob(phi, taken)[~possible] < ILLEGAL / 2).all()
        assert f.index(taken).tolist() == [index] * count
    torch.testing.assert_close(f.probabilities(phi).sum(-1), torch.ones(count, dtype=torch.float64))
    torch.testing.assert_close(f.entropy(phi), torch.stack([q.entropy() for q in p]).sum(0))
    divergence = torch.stack([torch.distributions.kl_divergence(a, b) for a, b in zip(p_a, p, strict=True)])
    torch.testing.assert_close(f.kl(phi_a, phi), divergence.sum(0))
    assert f.mode(phi).tolist() == torch.stack([q.probs.argmax(-1) for q in p], -1).tolist()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
@pytest.mark.parametrize("sizes", SIZES)
def test_gradients_of_several_choices_are_those_of_autograd(
    sizes: tuple[int, ...], statistic: Statistic, masked: bool
) -> None:
    """Pulled back to the network's output, in either coordinates; nothing reaches what is illegal."""
    f, count = MultiCategorical(sizes, statistic), 6
    masks = random_masks(0, sizes, count) if masked else None
    output, phi_a = normal(1, count, sum(sizes)).requires_grad_(), f.statistics(normal(2, count, sum(sizes)), masks)
    phi = f.statistics(output.detach(), masks)
    actions = f.sample(f.statistics(torch.zeros_like(phi), masks), f.noise(np.random.default_rng(0), (3, count)))
    weights = normal(3, 3, count)

    def gradient(of: Tensor) -> Tensor:
        return torch.autograd.grad(of.sum(), output, retain_graph=True)[0]

    live = f.statistics(output, masks)
    pairs = [
        (f.score(phi, actions, weights), weights * f.log_prob(live, actions)),
        (f.kl_gradient(phi_a, phi), f.kl(phi_a, live)),
        (f.entropy_gradient(phi), f.entropy(live)),
    ]
    for found, expected in pairs:
        torch.testing.assert_close(f.pullback(phi, found), gradient(expected))
        if masks is not None:
            assert not f.pullback(phi, found)[~masks].any()


@pytest.mark.parametrize("noise", [0.0, 0.5, 1 - 2**-24])
def test_no_illegal_choice_is_ever_sampled(noise: float) -> None:
    """Not even where rounding leaves the sum of the probabilities below the noise, or where the noise is 0."""
    f, masks = Categorical(40), random_masks(0, (40,), 2_000)
    phi = f.statistics(30 * normal(1, 2_000, 40).float(), masks)
    for at in (noise, float(phi.exp().cumsum(-1)[..., -1].max())):
        sampled = f.sample(phi, torch.full((2_000, 1), at))
        assert masks.gather(-1, sampled.unsqueeze(-1)).all()
    assert masks.gather(-1, f.mode(phi).unsqueeze(-1)).all()


# ------------------------------------------------------------------ learnt deviations


@pytest.mark.parametrize("bounded", [False, True])
def test_learnt_deviation_agrees_with_torch_and_autograd(bounded: bool) -> None:
    f = LearntGaussian(3, 0.4, bounded=bounded)
    output, phi_a = normal(0, 5, 6).requires_grad_(), f.statistics(normal(1, 5, 6))
    phi = f.statistics(output)
    mean, s = phi.chunk(2, -1)
    assert ((s.exp() / 0.4 < 10) & (s.exp() / 0.4 > 0.1)).all()
    assert float(f.statistics(torch.zeros(6))[3:].exp().mean()) == pytest.approx(0.4)  # what it begins with
    reference = torch.distributions.Independent(torch.distributions.Normal(mean, s.exp()), 1)
    mean_a, s_a = phi_a.chunk(2, -1)
    reference_a = torch.distributions.Independent(torch.distributions.Normal(mean_a, s_a.exp()), 1)
    divergence = torch.distributions.kl_divergence(reference_a, reference)
    action = normal(2, 5, 3)
    constant = phi.detach()
    torch.testing.assert_close(f.log_prob(constant, action), reference.log_prob(action).detach())
    torch.testing.assert_close(f.kl(phi_a, constant), divergence.detach())
    torch.testing.assert_close(f.entropy(constant), reference.entropy().detach())
    pairs = [
        (f.score(constant, action.unsqueeze(0), torch.ones(1, 5)), reference.log_prob(action)),
        (f.kl_gradient(phi_a, constant), divergence),
        (f.entropy_gradient(constant), reference.entropy()),
    ]
    for found, expected in pairs:
        torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), phi, retain_graph=True)[0])
        by_output = torch.autograd.grad(expected.sum(), output, retain_graph=True)[0]
        torch.testing.assert_close(f.pullback(constant, found), by_output)


@pytest.mark.parametrize("learn_sigma", ["free", "state"])
def test_a_learnt_deviation_moves_and_is_saved(learn_sigma: str, tmp_path: Any) -> None:
    model = ACER(Target, learn_sigma=learn_sigma, bounded_mean=True, entropy_weight=0.01, seed=1, **SMALL).learn(2_000)
    x = np.zeros((1, 2), np.float32)
    _, phi = model.agent.act(x, None)
    assert (np.abs(phi[0, 2:] - math.log(0.3)) > 0.01).all()
    free = model.agent.network.policy.free
    assert (free is not None) == (learn_sigma == "free")
    model.save(tmp_path / "model")
    again = ACER.load(tmp_path / "model", env=Target)
    assert np.array_equal(again.agent.act(x, None)[1], phi)
    model.close()
    again.close()


def test_a_learnt_deviation_is_for_continuous_actions() -> None:
    with pytest.raises(SettingsError, match="learn-sigma has no meaning here"):
        defaults("CartPole-v1", False, learn_sigma="free")
    with pytest.raises(SettingsError, match="fixed σ has no entropy gradient"):
        ACER(Target, entropy_weight=0.1)


# ------------------------------------------------------------------ squashed


@pytest.mark.parametrize("make", [Gaussian, LearntGaussian])
def test_a_squashed_gaussian_has_the_entropy_of_what_is_applied(make: Any) -> None:
    """By a fine sum over actions; its gradient is that of autograd; density and KL are of what comes before tanh."""
    f, plain = make(2, 0.5, squashed=True), make(2, 0.5)
    phi = f.statistics(normal(0, 5, f.outputs)).requires_grad_()
    u = torch.linspace(-30, 30, 60_001, dtype=torch.float64).view(-1, 1, 1)
    deviation = phi[..., 2:].exp() if phi.shape[-1] > 2 else torch.full_like(phi, 0.5)
    log_density = torch.distributions.Normal(phi[..., :2], deviation).log_prob(u)
    log_slope = torch.log1p(-u.tanh().square().clamp(max=1 - 1e-15)).clamp(min=-60)  # of tanh
    exact = -(log_density.exp() * (log_density - log_slope) * 1e-3).sum((0, -1))
    found = f.entropy(phi)
    torch.testing.assert_close(found, exact, rtol=0, atol=0.02)
    gradient = torch.autograd.grad(found.sum(), phi)[0]
    torch.testing.assert_close(f.entropy_gradient(phi.detach()), gradient)
    action = normal(1, 5, 2)
    torch.testing.assert_close(f.log_prob(phi, action), plain.log_prob(phi, action))
    assert f.encode(action).equal(action.tanh()) and np.array_equal(f.applied(action.numpy()), np.tanh(action.numpy()))


def test_the_environment_gets_squashed_actions_of_its_range_and_the_memory_those_before(tmp_path: Any) -> None:
    model = ACER(Target, squashed=True, sigma=3.0, seed=1, **SMALL).learn(200)
    memory = model._training.learner.replay
    stored = memory.sample(np.random.default_rng(0), 20).actions
    assert np.abs(stored).max() > 2  # Target asserts that what it gets is within its bounds
    x = np.zeros((1, 2), np.float32)
    (mode, mean), (before, _) = model.agent.act(x, None), model.agent.choose(x, None)
    assert np.array_equal(before, mean) and np.array_equal(mode, np.tanh(mean))
    model.save(tmp_path / "model")
    again = ACER.load(tmp_path / "model", env=Target)
    assert np.array_equal(again.predict(np.zeros(2), deterministic=True)[0],
                          model.predict(np.zeros(2), deterministic=True)[0])  # fmt: skip
    model.close()
    again.close()


def test_squashed_is_refused_where_it_means_nothing() -> None:
    with pytest.raises(SettingsError, match="squashed has no meaning here"):
        defaults("CartPole-v1", False, squashed=True)
    with pytest.raises(SettingsError, match="leave out --bounded-mean"):
        defaults("cheetah", True, "control", squashed=True, bounded_mean=True)


# ------------------------------------------------------------------ runs


@pytest.mark.parametrize("algo", ["acer", "a3c", "trust-tis", "no-retrace"])
@pytest.mark.parametrize(
    "make", [Dials, functools.partial(Dials, (2,) * 7, True)], ids=["few are listed", "many are sampled"]
)
def test_every_kind_of_algorithm_takes_several_choices(make: Any, algo: str) -> None:
    """The environment asserts that it gets actions of its space."""

    def env() -> Any:
        return make()

    model = ACER(env, algo=algo, **SMALL).learn(800)
    observation, _ = env().reset(seed=0)
    action, _ = model.predict(observation, deterministic=True)
    assert env().action_space.contains(action)
    assert model.evaluate(2).lengths == [10, 10]
    model.close()


@pytest.mark.parametrize(("stalls", "workers"), [((5,), False), ((3, 4), True), ((5, 5, 5), False)])
def test_no_illegal_action_is_ever_taken(stalls: tuple[int, ...], workers: bool, tmp_path: Any) -> None:
    """Not in training, in evaluation, by `predict` or after a resume: the environment would fail."""

    def env() -> Any:
        return Market(stalls)

    model = ACER(env, workers=workers, **SMALL)
    model.learn(1_200, out=tmp_path / "run")
    assert model.evaluate(5, deterministic=False).lengths == [10] * 5
    model.close()
    model = ACER.load(tmp_path / "run", env=env, resume=True, **({"workers": True} if workers else {}))
    model.learn(400)

    market = env()
    observation, _ = market.reset(seed=1)
    for step in range(30):
        action, _ = model.predict(observation, deterministic=bool(step % 2), action_masks=market.action_masks())
        observation, *_ = market.step(action)
    batch = np.stack([observation] * 3)
    masks = np.stack([market.action_masks()] * 3)
    assert len(model.predict(batch, action_masks=masks)[0]) == 3
    model.close()


def test_no_illegal_action_is_ever_taken_by_many_processes() -> None:
    """An actor-learner's environment that fails ends the run at once."""
    model = ACER(Market, home="shared", actors=2, most_deaths=1, **SMALL).learn(1_200)
    assert all("masks" in part.replay for part in model._training.state.actors)
    assert model.evaluate(5, deterministic=False).lengths == [10] * 5
    model.close()


@pytest.mark.parametrize("policy", ["mode", "sampled"])
def test_no_illegal_action_is_ever_filmed(policy: str, call: Any, tmp_path: Any) -> None:
    ACER(Market, **SMALL).save(tmp_path / "model")
    flags = ("--env", "environments:Market", "--policy", policy, "--episodes", 3, "--output", tmp_path / "film.png")
    code, out, err = call("record", tmp_path / "model", *flags)
    assert code == 0, err
    assert (tmp_path / "film.png").exists() and len(out.split(",")) == 3


def test_masks_are_stored_with_their_trajectory() -> None:
    model = ACER(Market, **SMALL)
    learner = model._training.learner
    learner.iterate()
    stored = learner.replay.sample(np.random.default_rng(0), 8)
    assert stored.masks is not None and stored.masks.shape == (21, 8, 5)
    live, masks = stored.live, stored.masks
    assert np.take_along_axis(masks[:-1], stored.actions[..., None], axis=-1)[live].all()
    assert ((stored.mu > ILLEGAL / 2) == masks[:-1])[live].all()
    shown = stored.observations[..., 5:] > 0.5  # what the market itself shows
    assert np.array_equal(masks, shown)
    model.close()


class Closed(Market):
    """Nothing is ever sold."""

    def action_masks(self) -> Any:
        return np.zeros(5, bool)


class ClosesAtNight(Market):
    """Nothing is left of the second stall when the episode is over."""

    def __init__(self) -> None:
        super().__init__((3, 2))

    def action_masks(self) -> Any:
        return np.concatenate((self.there[:3], self.there[3:] & (self.steps < 10)))


def test_an_episode_that_is_over_need_not_leave_a_legal_action() -> None:
    model = ACER(ClosesAtNight, **SMALL).learn(300)
    assert model.evaluate(2).lengths == [10, 10]
    model.close()


class Narrow(Market):
    def action_masks(self) -> Any:
        return np.ones(3, bool)


@pytest.mark.parametrize(("env", "said"), [(Closed, "leaves no legal action"), (Narrow, "masks 3 choices, but has 5")])
def test_masks_that_cannot_be_meant_are_refused(env: Any, said: str) -> None:
    with pytest.raises(EnvironmentFault, match=said):
        ACER(env, **SMALL).learn(100)


def test_masks_are_for_choices() -> None:
    class Masked(Target):
        def action_masks(self) -> Any:
            return np.ones(2, bool)

    with pytest.raises(EnvironmentFault, match="masks are for choices"):
        EnvBatch.of([Masked], "masked", workers=False)
    model = ACER(Target, **SMALL)
    with pytest.raises(SettingsError, match="expected none"):
        model.predict(np.zeros(2), action_masks=np.ones(2, bool))
    model.close()
    model = ACER(Market, **SMALL)
    with pytest.raises(SettingsError, match=r"shape \(3,\), expected \(1, 5\)"):
        model.predict(np.zeros(10, np.float32), action_masks=np.ones(3, bool))
    with pytest.raises(SettingsError, match="no legal action"):
        model.predict(np.zeros(10, np.float32), action_masks=np.zeros(5, bool))
    model.close()
