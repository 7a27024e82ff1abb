"""One update of the package against the loops of `oracle.py`: every parameter's gradient, over drawn trajectories."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import oracle
from acer import config
from acer.config import Config
from acer.learner import algorithms
from acer.learner.distributions import Categorical, Gaussian, Statistic
from acer.learner.update import Batch, Method, diagnostics, update
from helpers import Arrays, Learner, architecture, learner

RELATIVE = 1e-8
LARGEST_LOG_RHO = math.log(1e6)

DISCRETE = [name for name in config.ALGORITHMS if name != "no-sdn"]
CONTINUOUS = list(config.ALGORITHMS)


@dataclass(frozen=True)
class Case:
    """Everything that decides one comparison; the arrays' entries come from `seed`."""

    config: Config
    f: Categorical | Gaussian
    seed: int
    k: int
    batch: int
    ends: tuple[tuple[str, ...], ...]  # [k][batch]: what each step does, if it is live
    starts_dead: tuple[bool, ...]  # [batch]: the episode ended on the last step of the trajectory before
    sharpness: float  # largest difference between the policy's logits at one x; means for a Gaussian
    off_policy: float  # 0: μ = π; 1: ρ up to 1e±6
    drift: float  # of π_a from π; 0: k = 0


@st.composite
def cases(draw: st.DrawFn, algo: str, continuous: bool, **fixed: Any) -> Case:
    k, batch = draw(st.integers(1, 7)), draw(st.sampled_from([1, 2, 4]))
    drift = draw(st.sampled_from([0.0, 0.1, 1.0]))
    kinds = st.sampled_from(["goes on"] * 3 + ["terminates", "truncates", "loses a life"])
    settings: dict[str, Any] = {
        "gamma": draw(st.sampled_from([0.99, 0.5])),
        "trust_region": draw(st.sampled_from(["projection", "projection", "penalty", "none"])),
        # Without drift k is 0, or rounding about 0, which only δ > 0 tells apart from a direction.
        "delta": draw(st.sampled_from([0.0 if drift else 0.01, 0.01, 0.3, 1.0])),
        "kl_weight": draw(st.sampled_from([0.1, 2.0])),
        "trace_lambda": draw(st.sampled_from([1.0, 0.7])),
        "truncation": draw(st.sampled_from([0.0, 0.5, 1.0, 10.0, math.inf])),
        "critic_weight": draw(st.sampled_from([0.5, 1.0, 2.0])),
        "entropy_weight": 0.0 if continuous else draw(st.sampled_from([0.0, 0.01, 1.0])),
        "statistic": draw(st.sampled_from(["logits", "probabilities"])),
        "sdn_samples": draw(st.integers(1, 5)),
        "activation": draw(st.sampled_from(["relu", "tanh"])),
        "hidden": draw(st.sampled_from([(5, 4), (4,), ()])),
        "shared_torso": draw(st.booleans()),
        "advantage_hidden": 4,
        **config.ALGORITHMS[algo].changes,
        **fixed,
    }
    chosen = replace(config.defaults("oracle", continuous, algo=algo), **settings)
    size = draw(st.integers(1, 4))
    return Case(
        config=chosen,
        f=Gaussian(size, 0.3) if continuous else Categorical(size + 1, chosen.statistic),
        seed=draw(st.integers(0, 2**31)),
        k=k,
        batch=batch,
        ends=tuple(tuple(draw(kinds) for _ in range(batch)) for _ in range(k)),
        starts_dead=tuple(draw(st.booleans()) for _ in range(batch)),
        sharpness=draw(st.sampled_from([0.1, 2.0, 14.0])),
        off_policy=draw(st.sampled_from([0.0, 0.2, 1.0])),
        drift=drift,
    )


def boundaries(case: Case) -> tuple[Tensor, Tensor]:
    """discounts and live [k, batch], by the NEXT_STEP rule."""
    discounts, live = torch.zeros(case.k, case.batch, dtype=torch.float64), torch.zeros(case.k, case.batch, dtype=bool)
    for b in range(case.batch):
        alive = not case.starts_dead[b]
        for t in range(case.k):
            live[t, b] = alive
            if alive:
                discounts[t, b] = case.config.gamma if case.ends[t][b] in ("goes on", "truncates") else 0.0
                alive = case.ends[t][b] not in ("terminates", "truncates")
            else:
                alive = True
    return discounts, live


def build(case: Case) -> tuple[Learner, Method, Batch, Tensor]:
    """A learner and a batch. Dead steps hold any action, μ and noise: nothing may look at them."""
    rng = np.random.default_rng(case.seed)
    made = learner(architecture(case.config, case.f), case.seed, drift=case.drift)
    method = algorithms.method(case.config, case.f)
    x = torch.from_numpy(rng.normal(size=(case.k + 1, case.batch, 3)))
    discounts, live = boundaries(case)
    rewards = torch.from_numpy(rng.normal(size=(case.k, case.batch))) * live
    noise = method.noise(rng, case.k, case.batch).double()
    with torch.no_grad():
        output = made.network.policy(x)[0]
        spread = (output.amax(-1) - output.amin(-1)).max() if isinstance(case.f, Categorical) else output.abs().max()
        shrink = case.sharpness / float(spread) if isinstance(case.f, Categorical) else min(1.0, 2 / float(spread))
        for head in (made.network.policy.head, made.average.head):
            head.weight.mul_(shrink)
            head.bias.mul_(shrink)
        phi = case.f.statistics(made.network.policy(x)[0])[:-1]
        mu, actions = behaviour(case, rng, phi, noise)
    return made, method, Batch(x, actions, rewards, discounts, live, mu), noise


def behaviour(case: Case, rng: np.random.Generator, phi: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """μ, and actions that need not be probable under it, such that every ρ in the update lies within 1e±6."""
    if isinstance(case.f, Categorical):
        # log ρ(a) = log Σ_b π(b) exp(e_b − e_a) lies within the range of the differences of e: mostly near its ends.
        e = (rng.beta(0.3, 0.3, phi.shape) - 0.5) * LARGEST_LOG_RHO * case.off_policy
        actions = torch.from_numpy(rng.integers(case.f.actions, size=phi.shape[:-1]))
        return (phi + torch.from_numpy(e)).log_softmax(-1), actions
    f = case.f
    away = torch.from_numpy(rng.normal(size=phi.shape)) * f.sigma * 4 * case.off_policy
    offset = torch.from_numpy(rng.normal(size=phi.shape)) * f.sigma * 2
    sampled = f.sample(phi, noise[:1]) if noise.numel() else phi.unsqueeze(0)
    while True:
        mu, actions = phi + away, phi + away + offset
        looked_at = torch.cat((actions.unsqueeze(0), sampled))
        log_rho = (f.log_prob(phi, looked_at) - f.log_prob(mu, looked_at)).abs().amax(0)
        if (log_rho <= LARGEST_LOG_RHO).all():
            return mu, actions
        away = torch.where((log_rho <= LARGEST_LOG_RHO).unsqueeze(-1), away, 0.8 * away)


def transcribed(case: Case, made: Learner, batch: Batch, noise: Tensor, settings: Config) -> Arrays:
    """What the oracle says of the same batch, for descent."""
    numbers = {name: value.numpy() for name, value in vars(batch).items()}
    mu = np.exp(numbers["mu"]) if isinstance(case.f, Categorical) else numbers["mu"]
    taus = [
        oracle.Trajectory(
            x=numbers["observations"][:, b],
            a=numbers["actions"][:, b],
            r=numbers["rewards"][:, b],
            discount=numbers["discounts"][:, b],
            live=numbers["live"][:, b],
            mu=mu[:, b],
            noise=noise.numpy()[:, :, b] if noise.numel() else np.zeros((0, case.k, 0)),
        )
        for b in range(case.batch)
    ]
    ascent = oracle.mean_gradient(made.parameters(), made.average_parameters(), settings, taus)
    return {name: -value for name, value in ascent.items()}


def check(case: Case) -> None:
    made, method, batch, noise = build(case)
    found = made.gradients(batch, method, noise)
    expected = transcribed(case, made, batch, noise, case.config)
    # The projection may take away all but a millionth of a gradient: rounding is then that of what it was taken from.
    free = transcribed(case, made, batch, noise, replace(case.config, trust_region="none"))
    # A gradient that cancels exactly (the bias of A, for Q̃ has it once with either sign) leaves rounding behind.
    rounding = 1e-14 * max(np.abs(value).max() for value in free.values())
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        scale = max(np.abs(value).max(), np.abs(free[name]).max())
        error = np.abs(found[name] - value).max()
        assert error <= max(RELATIVE * scale, rounding), f"{name}: off by {error:.2e} at scale {scale:.2e}"


@settings(max_examples=100, deadline=None, derandomize=True)
@given(cases("acer", continuous=False))
def test_algorithm_2(case: Case) -> None:
    check(case)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(cases("acer", continuous=True))
def test_algorithm_3(case: Case) -> None:
    check(case)


@pytest.mark.parametrize(
    ("algo", "continuous"),
    [(name, False) for name in DISCRETE if name != "acer"] + [(name, True) for name in CONTINUOUS if name != "acer"],
)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_comparison_set(algo: str, continuous: bool, data: st.DataObject) -> None:
    """Baselines and ablations: other returns, weights and critics in the same loops."""
    check(data.draw(cases(algo, continuous)))


@pytest.mark.parametrize(
    ("returns", "continuous"), [("tree-backup", False), ("degris", False), ("degris", True), ("importance", False)]
)
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_other_returns(returns: str, continuous: bool, data: st.DataObject) -> None:
    check(data.draw(cases("acer", continuous, returns=returns)))


@pytest.mark.parametrize("trust_region", ["projection", "penalty", "none"])
@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_nearly_deterministic_policy(statistic: Statistic, trust_region: str, data: st.DataObject) -> None:
    """Logits 60 apart: the rarest action has π = 1e-26, and float64 has no number 1 − 1e-26. Errors are measured by
    the whole gradient, or by a parameter's own where the projection made that larger."""
    fixed = {"statistic": statistic, "trust_region": trust_region}
    case = replace(data.draw(cases("acer", continuous=False, **fixed)), sharpness=60.0)
    made, method, batch, noise = build(case)
    found = made.gradients(batch, method, noise)
    expected = transcribed(case, made, batch, noise, case.config)
    free = transcribed(case, made, batch, noise, replace(case.config, trust_region="none"))
    whole = max(np.abs(value).max() for value in free.values())
    for name, value in expected.items():
        assert np.abs(found[name] - value).max() <= RELATIVE * max(whole, np.abs(value).max()), name


def test_three_trajectories_with_an_odd_weight() -> None:
    """1/3 and 0.3 are not float32 numbers: what is rounded to float32 on the way to a float64 gradient shows here."""
    settings = config.defaults("oracle", continuous=False, critic_weight=0.3, hidden=(4,))
    goes_on = (("goes on",) * 3,) * 4
    check(Case(settings, Categorical(3), 1, 4, 3, goes_on, (False,) * 3, sharpness=2.0, off_policy=0.2, drift=0.1))


def extremes(algo: str, f: Categorical | Gaussian, c: float, **changes: Any) -> tuple[Learner, Method, Batch, Tensor]:
    """Float32, with π, μ and π_a at ±200 in every coordinate; any action is taken, even where no policy would."""
    continuous = isinstance(f, Gaussian)
    settings = {"hidden": (), "shared_torso": False, "entropy_weight": 0.0 if continuous else 0.01, **changes}
    if algo != "no-truncation":
        settings["truncation"] = c
    chosen = replace(config.defaults("extremes", continuous, algo=algo), **settings)
    made = learner(architecture(chosen, f, observation=2 * f.outputs), seed=0, dtype=torch.float32)
    k, batch = 12, 16
    rng = np.random.default_rng(0)
    x = 200 * torch.from_numpy(rng.choice([-1.0, 1.0], (k + 1, batch, 2 * f.outputs))).float()
    with torch.no_grad():
        made.home.theta.mul_(0.01)  # a critic that is not extreme itself
        for policy, half in ((made.network.policy, 0), (made.average, 1)):  # output = half of x
            policy.head.bias.zero_()
            policy.head.weight.copy_(torch.eye(2 * f.outputs)[half * f.outputs : (half + 1) * f.outputs])
    mu = f.statistics(200 * torch.from_numpy(rng.choice([-1.0, 1.0], (k, batch, f.outputs))).float())
    if isinstance(f, Categorical):
        actions = torch.from_numpy(rng.integers(f.actions, size=(k, batch)))
    else:
        actions = f.sample(mu, f.noise(rng, (k, batch)))
    live = torch.from_numpy(rng.random((k, batch)) < 0.9)
    discounts = torch.where(live & torch.from_numpy(rng.random((k, batch)) < 0.9), 0.99, 0.0)
    method = algorithms.method(chosen, f)
    rewards = torch.from_numpy(rng.normal(size=(k, batch))).float() * live
    return made, method, Batch(x, actions, rewards, discounts, live, mu), method.noise(rng, k, batch)


def assert_finite(made: Learner, method: Method, batch: Batch, noise: Tensor) -> None:
    made.home.gradient.zero_()
    outcome = update(made.network, made.average, batch, method, noise)
    assert made.home.gradient.dtype == torch.float32
    assert made.home.gradient.isfinite().all()
    assert made.home.gradient.any()
    assert [name for name, value in diagnostics(method, outcome).items() if not value.isfinite()] == []


@pytest.mark.parametrize("c", [0.0, 10.0, math.inf])
@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
@pytest.mark.parametrize("algo", DISCRETE)
def test_extreme_logits_stay_finite(algo: str, statistic: Statistic, c: float) -> None:
    assert_finite(*extremes(algo, Categorical(4, statistic), c, statistic=statistic))


@pytest.mark.parametrize("returns", ["tree-backup", "degris", "importance"])
@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
def test_extreme_logits_stay_finite_with_other_returns(returns: str, statistic: Statistic) -> None:
    assert_finite(*extremes("acer", Categorical(4, statistic), 10.0, statistic=statistic, returns=returns))


@pytest.mark.parametrize("c", [0.0, 10.0, math.inf])
@pytest.mark.parametrize("algo", CONTINUOUS)
def test_extreme_means_stay_finite(algo: str, c: float) -> None:
    assert_finite(*extremes(algo, Gaussian(3), c))
