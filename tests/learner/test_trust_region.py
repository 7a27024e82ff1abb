"""The projection as the solution of its quadratic program, and as something that holds the policy back."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch import Tensor

from acer import config
from acer.learner import actor_learner, algorithms
from acer.learner.categorical import Categorical, Statistic
from acer.learner.gaussian import Gaussian
from acer.learner.normalizer import RunningSize
from acer.learner.trust_region import constrained, free, penalty, projection
from acer.learner.update import Batch, Outcome, diagnostics, update
from acer.run.training import Training
from helpers import architecture, learner, random_batch

FLOATS = st.floats(-100, 100, allow_subnormal=False)
VECTORS = arrays.arrays(np.float64, st.shared(st.integers(1, 5), key="size"), elements=FLOATS)


def project(g: Tensor, k: Tensor, delta: float) -> Tensor:
    """z = g − λ k."""
    return constrained(g, k, projection(g, k, delta))


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_projection_by_hand() -> None:
    """k = (3, 4), g = (5, 5), δ = 10: kᵀg = 35, so z = g − (35 − 10)/25 k = (2, 1), where kᵀz = 10."""
    torch.testing.assert_close(project(tensor(5, 5), tensor(3, 4), 10.0), tensor(2, 1))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(g=VECTORS, k=VECTORS, delta=st.floats(0, 10))
def test_conditions_of_karush_kuhn_and_tucker(g: np.ndarray, k: np.ndarray, delta: float) -> None:
    """min ½‖g − z‖² with kᵀz ≤ δ: stationary (z = g − λ k), feasible, λ ≥ 0, and λ (kᵀz − δ) = 0."""
    assume(np.linalg.norm(k) > 1e-3)
    z = project(torch.from_numpy(g), torch.from_numpy(k), delta).numpy()
    multiplier = float((g - z) @ k / (k @ k))
    size = 1e-9 * (1 + np.linalg.norm(g) * np.linalg.norm(k))
    np.testing.assert_allclose(z, g - multiplier * k, atol=size)
    assert k @ z <= delta + size
    assert multiplier * (k @ k) >= -size
    assert abs(multiplier * (k @ z - delta)) <= size * (1 + abs(multiplier))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(g=VECTORS, k=VECTORS, other=VECTORS, delta=st.floats(0, 10))
def test_no_feasible_point_is_nearer(g: np.ndarray, k: np.ndarray, other: np.ndarray, delta: float) -> None:
    assume(np.linalg.norm(k) > 1e-3)
    z = project(torch.from_numpy(g), torch.from_numpy(k), delta).numpy()
    if k @ other > delta:
        other = other - (k @ other - delta) / (k @ k) * k  # feasible now
    assert np.linalg.norm(g - z) <= np.linalg.norm(g - other) + 1e-9 * (1 + np.linalg.norm(g))


@settings(max_examples=50, deadline=None, derandomize=True)
@given(g=VECTORS, k=VECTORS)
def test_a_gradient_within_the_bound_is_left_alone(g: np.ndarray, k: np.ndarray) -> None:
    delta = max(0.0, float(k @ g)) * (1 + 1e-9) + 1e-9
    assert project(torch.from_numpy(g), torch.from_numpy(k), delta).tolist() == g.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("delta", [0.0, 1.0, math.inf])
def test_no_divergence_means_no_constraint(dtype: torch.dtype, delta: float) -> None:
    """k = 0, where π = π_a: the constraint is 0 ≤ δ."""
    g = torch.tensor([1e6, -3.0, 0.0], dtype=dtype)
    assert project(g, torch.zeros(3, dtype=dtype), delta).tolist() == g.tolist()


def test_steps_are_projected_one_by_one() -> None:
    """[T, B, n]: each step has a multiplier of its own, and the ones that are free stay as they are."""
    generator = torch.Generator().manual_seed(0)
    g, k = (torch.randn(4, 3, 5, generator=generator, dtype=torch.float64) * 3 for _ in range(2))
    found = project(g, k, 1.0)
    alone = [[project(g[t, b], k[t, b], 1.0) for b in range(3)] for t in range(4)]
    torch.testing.assert_close(found, torch.stack([torch.stack(row) for row in alone]))
    moved = (found != g).any(-1)
    assert moved.any() and not moved.all()


def test_penalty_is_the_gradient_of_the_penalised_objective() -> None:
    """g − w k, where k is the gradient of the divergence: ∇_φ (gᵀφ − w D_KL) by automatic differentiation."""
    f = Categorical(4)
    phi = torch.randn(4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    phi_a = f.statistics(torch.randn(4, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    g = tensor(1, -2, 0.5, 3)
    (g @ phi - 0.7 * f.kl(phi_a, f.statistics(phi))).backward()
    k = f.kl_gradient(phi_a, f.statistics(phi.detach()))
    torch.testing.assert_close(constrained(g, k, penalty(g, k, weight=0.7)), phi.grad)


def test_free_is_free() -> None:
    g, k = tensor(1, 2), tensor(3, 4)
    assert constrained(g, k, free(g, k)).tolist() == [1, 2]


@pytest.mark.parametrize("f", [Categorical(3), Categorical(3, "probabilities"), Gaussian(2)])
def test_a_small_step_along_z_raises_the_divergence_by_at_most_delta(f: Categorical | Gaussian) -> None:
    """What δ bounds: the rate at which D_KL grows as φ moves along z. Along g it grows faster."""
    generator = torch.Generator().manual_seed(3)
    outputs = torch.randn(2, f.outputs, generator=generator, dtype=torch.float64)
    phi_a, phi = f.statistics(outputs)
    k = f.kl_gradient(phi_a, phi)
    g, delta, step = 50 * k + tensor(1, -1, 0)[: f.outputs], 0.5, 1e-7

    def growth(direction: Tensor) -> float:
        if isinstance(f, Categorical) and f.statistic == "probabilities":
            moved = (phi.exp() + step * direction).log()  # φ itself moves, off the simplex if need be
        else:
            moved = f.statistics(phi + step * direction)
        return float((f.kl(phi_a, moved) - f.kl(phi_a, phi)) / step)

    assert growth(project(g, k, delta)) == pytest.approx(delta, abs=1e-3)
    assert growth(g) > 2 * delta


def one_step(
    statistic: Statistic, logits: list[float], logits_a: list[float], reward: float
) -> tuple[float, dict[str, Tensor]]:
    """One step with Q = 0 and δ = 1: the share of active steps, the logits' gradient with projection and without."""
    f = Categorical(len(logits), statistic)
    chosen = config.defaults("one", continuous=False, statistic=statistic, hidden=(), entropy_weight=0.0)
    made = learner(architecture(chosen, f, observation=1), seed=0)
    for head, values in ((made.network.policy.head, logits), (made.average.head, logits_a)):
        head.weight.data.zero_()
        head.bias.data.copy_(tensor(*values))
    assert made.network.q_head is not None
    made.network.q_head.weight.data.zero_()
    made.network.q_head.bias.data.zero_()
    mu = f.statistics(tensor(*logits)).reshape(1, 1, -1)
    one = torch.ones(1, 1, dtype=torch.float64)
    batch = Batch(one.expand(2, 1).unsqueeze(-1), (0 * one).long(), reward * one, 0 * one, one.bool(), mu)
    method = algorithms.method(chosen, f)
    outcome = update(made.network, made.average, batch, method, torch.empty(0))
    grads = {"projected": made.network.policy.head.bias.grad.clone()}
    made.home.gradient.zero_()
    update(made.network, made.average, batch, replace(method, constrain=free), torch.empty(0))
    grads["free"] = made.network.policy.head.bias.grad.clone()
    return float(diagnostics(method, outcome)["trust_region_active"]), grads


def test_active_means_that_the_parameters_gradient_changed() -> None:
    """Probabilities at π = π_a: k = −1 binds, but softmax takes a common shift of all φ away. That is not activity."""
    active, grads = one_step("probabilities", [0.0, 1.0, -1.0], [0.0, 1.0, -1.0], reward=-20.0)
    torch.testing.assert_close(grads["projected"], grads["free"])
    assert active == 0


@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
def test_active_where_the_projection_holds_back(statistic: Statistic) -> None:
    """π is away from π_a. With logits a reward that pulls it further is held back; probabilities bind on a penalty."""
    reward = 20.0 if statistic == "logits" else -20.0
    active, grads = one_step(statistic, [2.0, 0.0, 0.0], [0.0, 0.0, 0.0], reward)
    assert active == 1
    assert (grads["projected"] - grads["free"]).norm() > 0.01 * grads["free"].norm()
    if statistic == "logits":
        assert grads["projected"].norm() < 0.9 * grads["free"].norm()


def test_a_pull_back_towards_the_average_is_free() -> None:
    active, grads = one_step("logits", [2.0, 0.0, 0.0], [0.0, 0.0, 0.0], reward=-20.0)
    assert active == 0
    torch.testing.assert_close(grads["projected"], grads["free"])


@pytest.mark.parametrize("continuous", [False, True])
def test_in_units_of_the_critics_errors_the_size_of_rewards_does_not_matter(continuous: bool) -> None:
    """Rewards and critic 64 times as large: z is 64 times g's projection if the unit is, too, and not if it stays."""
    f = Gaussian(2) if continuous else Categorical(3)
    chosen = config.defaults("one", continuous=continuous, preset="control", hidden=(8,), entropy_weight=0.0, delta=0.1)
    method = algorithms.method(chosen, f)
    batch = random_batch(f, seed=1, steps=6, count=2)
    noise = method.noise(np.random.default_rng(2), 6, 2).double()

    def z(size: float, unit: float) -> Tensor:
        made = learner(architecture(chosen, f), seed=3)
        for name, p in made.network.named_parameters():
            if name.startswith(("q_head", "v_head", "advantage_head.output")):
                p.data.mul_(size)
        scaled = replace(batch, rewards=size * batch.rewards)
        return update(made.network, made.average, scaled, method, noise, unit).z

    torch.testing.assert_close(z(64.0, 64.0), 64 * z(1.0, 1.0), rtol=1e-12, atol=0)
    assert not torch.allclose(z(64.0, 1.0), 64 * z(1.0, 1.0), rtol=0.01)


def test_the_entropys_weight_can_have_the_same_unit() -> None:
    f = Gaussian(2, squashed=True)
    chosen = config.defaults("one", True, preset="control", hidden=(8,), squashed=True, entropy_weight=0.1)
    batch = random_batch(f, seed=1, steps=6, count=2)

    def g(weight: float, unit: str) -> Tensor:
        method = algorithms.method(replace(chosen, entropy_weight=weight, entropy_unit=unit), f)
        noise = method.noise(np.random.default_rng(2), 6, 2).double()
        made = learner(architecture(chosen, f), seed=3)
        return update(made.network, made.average, batch, method, noise, 64.0).g

    torch.testing.assert_close(g(0.1, "errors"), g(6.4, "rewards"), rtol=1e-12, atol=0)
    assert not torch.allclose(g(0.1, "errors"), g(0.1, "rewards"), rtol=0.01)


def test_the_unit_is_the_running_size_of_the_critics_errors() -> None:
    size = RunningSize(decay=0.9)
    assert size.value == 1  # nothing was seen
    size.add(4.0)
    assert size.value == pytest.approx(2)  # of one thing it is that thing's
    size.add(0.0)
    assert size.value == pytest.approx(math.sqrt(4 * 0.9 / 1.9))
    other = RunningSize(decay=0.9)
    other.restore(size.state())
    assert other.value == size.value

    other.add(math.inf)  # an error whose square overflowed
    assert other.value == size.value
    with pytest.raises(ValueError, match="running size"):
        other.restore(np.array([math.inf, 0.5]))


@pytest.mark.parametrize(
    ("algo", "unit", "follows"),
    [
        ("acer", "rewards", False),
        ("acer", "errors", True),
        ("no-retrace", "errors", True),
        ("trust-tis", "errors", True),
        ("no-trust-region", None, False),
        ("no-trust-region", "of the entropy", True),
    ],
)
def test_updates_get_the_unit_that_was_asked_for(algo: str, unit: str | None, follows: bool, monkeypatch: Any) -> None:
    """Every update has the errors of those before it, times √d: by Retrace, or weighted as TIS weights them."""
    given, sizes, plain = [], [], []

    def spy(*args: Any) -> Outcome:
        given.append(args[5])
        outcome = update(*args)
        estimate = outcome.estimate
        sizes.append(3 * float(outcome.mean_square(estimate.errors)))  # three joints
        plain.append(torch.equal(estimate.errors, estimate.target - estimate.predicted))
        return outcome

    monkeypatch.setattr(actor_learner, "update", spy)
    chosen: dict[str, Any] = {"delta_unit": unit} if unit else {}
    if unit == "of the entropy":
        chosen = {"entropy_unit": "errors", "squashed": True, "entropy_weight": 0.01}
    training = Training(config.defaults("reacher3", continuous=True, preset="control", algo=algo, **chosen))
    while len(given) < 8:
        training.learner.iterate()
    training.close()
    assert all(plain) if algo in ("acer", "no-trust-region") else not any(plain[-4:])
    wanted = RunningSize()
    for unit_given, size in zip(given, sizes, strict=True):
        assert unit_given == (wanted.value if follows else 1)
        wanted.add(size)


@pytest.mark.parametrize("algo", ["no-trust-region", "tis", "acer"])
def test_the_average_policy_is_asked_only_by_a_trust_region_or_diagnostics(algo: str, monkeypatch: Any) -> None:
    """Without a trust region the others learn the same without it, and the KL is still measured."""
    asked = []

    def ended(always: bool) -> tuple[Tensor, float]:
        chosen = {"replay_ratio": 0, "on_policy": True}
        training = Training(config.defaults("reacher3", continuous=True, preset="control", algo=algo, **chosen))
        agent = training.learner.agent

        def spy(network: Any, average: Any, *args: Any) -> Outcome:
            asked.append(average is not None)
            return update(network, agent.average if always else average, *args)

        monkeypatch.setattr(actor_learner, "update", spy)
        reports = [training.learner.iterate() for _ in range(2)]
        theta = torch.cat([p.detach().flatten() for p in agent.network.parameters()])
        training.close()
        return theta, reports[-1].diagnostics["kl"]

    theta, kl = ended(always=False)
    count = len(asked)
    assert asked == ([True] * count if algo == "acer" else [number % (count // 2) == 0 for number in range(count)])
    assert kl > 0
    whole, measured = ended(always=True)
    assert torch.equal(theta, whole) and kl == measured


@pytest.mark.parametrize("delta", [1.0, 0.01])
@pytest.mark.parametrize("entropy", [1.0, 0.3, 0.1, 0.03, 0.01])
def test_float32_has_the_digits_for_nearly_deterministic_policies(entropy: float, delta: float) -> None:
    """What goes back to the network from each of 1,000 steps, against float64 from the same numbers. π is as sharp as
    gives the entropy, π_a is 0.3 away in every logit; the scores have any weights."""
    generator = torch.Generator().manual_seed(0)
    count, f = 1_000, Categorical(4, "probabilities")
    logits, away, weights = (torch.randn(count, 4, generator=generator) for _ in range(3))
    least, most = torch.zeros(count, 1), torch.full((count, 1), 20.0)  # logits of a hundred at the most
    for _ in range(60):
        phi = f.statistics((least + most) / 2 * logits)
        softer = f.entropy(phi).unsqueeze(-1) > entropy
        least, most = torch.where(softer, (least + most) / 2, least), torch.where(softer, most, (least + most) / 2)
    outputs = least * logits, least * logits + 0.3 * away

    def sent_back(dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        phi, phi_a = (f.statistics(output.to(dtype)) for output in outputs)
        g = f.score(phi, f.every(phi), (f.probabilities(phi) * weights.to(dtype)).movedim(-1, 0))
        g = g + 0.01 * f.entropy_gradient(phi)
        k = f.kl_gradient(phi_a, phi)
        free_g = f.pullback(phi, g)
        return free_g, constrained(free_g, f.pullback(phi, k), projection(g, k, delta))

    (_, found), (before, exact) = sent_back(torch.float32), sent_back(torch.float64)
    size = torch.maximum(before.norm(dim=-1), exact.norm(dim=-1))
    assert ((found - exact).norm(dim=-1) <= 1e-4 * size).all()
    assert (before != exact).any(-1).double().mean() > 0.2  # the projection is at work
