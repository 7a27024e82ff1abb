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
from acer.learner.categorical import Categorical, MultiCategorical, Statistic
from acer.learner.distributions import Distribution
from acer.learner.gaussian import Gaussian, LearntGaussian
from acer.learner.memory import Recall
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
    f: Distribution
    seed: int
    k: int
    batch: int
    ends: tuple[tuple[str, ...], ...]  # [k][batch]: what each step does, if it is live
    starts_dead: tuple[bool, ...]  # [batch]: the episode ended on the last step of the trajectory before
    sharpness: float  # largest difference between the policy's logits at one x; means for a Gaussian
    off_policy: float  # 0: μ = π; 1: ρ up to 1e±6
    drift: float  # of π_a from π; 0: k = 0
    masked: bool = False
    burn_in: int = 0


@st.composite
def cases(
    draw: st.DrawFn,
    algo: str,
    continuous: bool,
    family: str = "",
    masked: bool = False,
    remembers: bool = False,
    **fixed: Any,
) -> Case:
    """family: what makes f of the settings and a drawn size, if it is not the paper's. remembers: whether the policy is
    recurrent."""
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
        "entropy_weight": 0.0
        if continuous and not (family or fixed.get("squashed"))
        else draw(st.sampled_from([0.0, 0.01, 1.0])),
        "statistic": draw(st.sampled_from(["logits", "probabilities"])),
        "sdn_samples": draw(st.integers(1, 5)),
        "activation": draw(st.sampled_from(["relu", "tanh"])),
        "hidden": draw(st.sampled_from([(5, 4), (4,), ()])),
        "shared_torso": draw(st.booleans()),
        "advantage_hidden": 4,
        **({"recurrent": "gru", "memory_size": draw(st.sampled_from([1, 4]))} if remembers else {}),
        **config.ALGORITHMS[algo].changes,
        **fixed,
    }
    chosen = replace(config.defaults("oracle", continuous, algo=algo), **settings)
    if family in ("listed", "sampled"):
        sizes = draw(st.sampled_from([(2, 2), (3, 2), (2, 4, 3), (3, 3, 3), (1, 3)]))
        f: Distribution = MultiCategorical(sizes, chosen.statistic, 36 if family == "listed" else 0)
    elif family:
        bounded = not chosen.squashed and draw(st.booleans())
        f = LearntGaussian(draw(st.integers(1, 3)), 0.3, family == "free", bounded, chosen.squashed)
    elif continuous:
        f = Gaussian(draw(st.integers(1, 4)), 0.3, chosen.bounded_mean, chosen.squashed)
    else:
        f = Categorical(draw(st.integers(2, 5)), chosen.statistic)
    return Case(
        config=chosen,
        f=f,
        masked=masked,
        burn_in=draw(st.integers(0, k - 1)) if remembers else 0,
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
    masks = legal(case, rng) if case.masked else None
    memory = torch.from_numpy(rng.normal(size=(1, case.batch, made.network.remembers)))
    remembered = memory if made.network.remembers else None
    recall = Recall.of(memory, live)
    with torch.no_grad():
        output = made.network.policy(x, recall)[0]
        spread = (output.amax(-1) - output.amin(-1)).max() if chooses(case.f) else output.abs().max()
        shrink = case.sharpness / float(spread) if chooses(case.f) else min(1.0, 2 / float(spread))
        for head in (made.network.policy.head, made.average.head):
            head.weight.mul_(shrink)
            head.bias.mul_(shrink)
        phi = case.f.statistics(made.network.policy(x, recall)[0], masks)[:-1]
        mu, actions = behaviour(case, rng, phi, noise, None if masks is None else masks[:-1])
    return made, method, Batch(x, actions, rewards, discounts, live, mu, masks, remembered), noise


def chooses(f: Distribution) -> bool:
    return isinstance(f, Categorical | MultiCategorical)


def sizes_of(f: Distribution) -> tuple[int, ...]:
    return (f.actions,) if isinstance(f, Categorical) else f.sizes if isinstance(f, MultiCategorical) else ()


def legal(case: Case, rng: np.random.Generator) -> Tensor:
    """Masks [k+1, batch, n], with one legal choice or more in each part of an action."""
    parts = []
    for size in sizes_of(case.f):
        allowed = rng.random((case.k + 1, case.batch, size)) < 0.6
        np.put_along_axis(allowed, rng.integers(size, size=(case.k + 1, case.batch, 1)), True, axis=-1)
        parts.append(allowed)
    return torch.from_numpy(np.concatenate(parts, axis=-1))


def behaviour(
    case: Case, rng: np.random.Generator, phi: Tensor, noise: Tensor, masks: Tensor | None
) -> tuple[Tensor, Tensor]:
    """μ, and actions that need not be probable under it, such that every ρ in the update lies within 1e±6."""
    f = case.f
    if chooses(f):
        # log ρ(a) = log Σ_b π(b) exp(e_b − e_a) lies within the range of the differences of e: mostly near its ends.
        e = (rng.beta(0.3, 0.3, phi.shape) - 0.5) * LARGEST_LOG_RHO * case.off_policy / len(sizes_of(f))
        anything = f.statistics(torch.zeros_like(phi), masks)
        actions = f.sample(anything, f.noise(rng, tuple(phi.shape[:-1])).double())
        return f.statistics(phi + torch.from_numpy(e), masks), actions
    assert isinstance(f, Gaussian | LearntGaussian)
    away = torch.from_numpy(rng.normal(size=phi.shape)) * f.sigma * 4 * case.off_policy
    offset = torch.from_numpy(rng.normal(size=(*phi.shape[:-1], f.dimensions))) * f.sigma * 2
    sampled = f.sample(phi, noise[:1]) if noise.numel() else f.mode(phi).unsqueeze(0)
    while True:
        mu, actions = phi + away, f.mode(phi + away) + offset
        looked_at = torch.cat((actions.unsqueeze(0), sampled))
        log_rho = (f.log_prob(phi, looked_at) - f.log_prob(mu, looked_at)).abs().amax(0)
        if (log_rho <= LARGEST_LOG_RHO).all():
            return mu, actions
        away = torch.where((log_rho <= LARGEST_LOG_RHO).unsqueeze(-1), away, 0.8 * away)


def transcribed(case: Case, made: Learner, batch: Batch, noise: Tensor, settings: Config) -> Arrays:
    """What the oracle says of the same batch, for descent."""
    numbers = {name: value.numpy() for name, value in vars(batch).items() if value is not None}
    mu = np.exp(numbers["mu"]) if chooses(case.f) else numbers["mu"]
    allowed = np.ones((case.k + 1, case.batch, case.f.outputs), bool) if batch.masks is None else numbers["masks"]
    taus = [
        oracle.Trajectory(
            x=numbers["observations"][:, b],
            a=numbers["actions"][:, b],
            r=numbers["rewards"][:, b],
            discount=numbers["discounts"][:, b],
            live=numbers["live"][:, b],
            mu=mu[:, b],
            noise=noise.numpy()[:, :, b] if noise.numel() else np.zeros((0, case.k, 0)),
            legal=allowed[:, b],
            memory=None if batch.memory is None else numbers["memory"][0, b],
            burn_in=case.burn_in,
        )
        for b in range(case.batch)
    ]
    f = policy(case.f)
    listed = bool(case.f.choices)
    ascent = oracle.mean_gradient(made.parameters(), made.average_parameters(), settings, f, listed, taus)
    return {name: -value for name, value in ascent.items()}


def policy(f: Distribution) -> oracle.Policy:
    """The same f in the oracle."""
    if isinstance(f, Gaussian):
        return oracle.FixedGaussian(f.sigma, f.bounded, f.squashed)
    if isinstance(f, LearntGaussian):
        return oracle.LearntGaussian(f.sigma, f.bounded, f.squashed)
    assert isinstance(f, Categorical | MultiCategorical)
    return oracle.Choices(sizes_of(f), f.statistic)


def check(case: Case) -> None:
    made, method, batch, noise = build(case)
    found = made.gradients(batch, method, noise, case.burn_in)
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


CHOICES = [
    ({"policy_returns": "retrace"}, True),
    ({"policy_returns": "off-policy-corrected"}, False),
    ({"trace_weight": "plain"}, True),
    ({"correction_gradient": "reparametrised", "truncation": 0.0}, True),
]


@pytest.mark.parametrize(("fixed", "continuous"), CHOICES, ids=[next(iter(fixed)) for fixed, _ in CHOICES])
@settings(max_examples=25, deadline=None, derandomize=True)
@given(data=st.data())
def test_choices_that_the_paper_mentions(fixed: dict[str, Any], continuous: bool, data: st.DataObject) -> None:
    check(data.draw(cases("acer", continuous, **fixed)))


@pytest.mark.parametrize("algo", ["acer", "tis"])
@pytest.mark.parametrize("family", ["", "listed", "sampled"])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_masks(family: str, algo: str, data: st.DataObject) -> None:
    """Illegal choices are no part of π, of V, of the correction's sum and of the trust region."""
    check(data.draw(cases(algo, continuous=False, family=family, masked=True)))


@pytest.mark.parametrize("family", ["listed", "sampled"])
@pytest.mark.parametrize("algo", ["acer", "a3c", "trust-tis", "no-retrace", "no-sdn"])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_several_choices_at_once(family: str, algo: str, data: st.DataObject) -> None:
    """ρ is joint and so is the trust region; the correction is exact where actions are listed, else of one sample."""
    if (family, algo) != ("listed", "no-sdn"):
        check(data.draw(cases(algo, continuous=False, family=family)))


@pytest.mark.parametrize(
    ("algo", "continuous"),
    [("acer", False), ("acer", True), ("trust-a3c", False), ("tis", True), ("no-sdn", True), ("no-retrace", False)],
)
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_recurrent_policy(algo: str, continuous: bool, data: st.DataObject) -> None:
    """Through time, from what was remembered before x_0 and from where episodes begin; for θ, θ_a and every critic."""
    check(data.draw(cases(algo, continuous, remembers=True)))


@pytest.mark.parametrize("family", ["free", "state"])
@pytest.mark.parametrize("algo", ["acer", "trust-a3c", "tis", "no-sdn", "no-retrace"])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(data=st.data())
def test_learnt_deviation(family: str, algo: str, data: st.DataObject) -> None:
    """φ has the deviations too: their score, the divergence by them, and their entropy."""
    check(data.draw(cases(algo, continuous=True, family=family)))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(cases("acer", continuous=True, bounded_mean=True))
def test_bounded_mean(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("gradient", ["score", "reparametrised"])
@pytest.mark.parametrize("family", ["", "free", "state"])
@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data())
def test_squashed(family: str, gradient: str, data: st.DataObject) -> None:
    """f and the trust region know what comes before tanh; critic and entropy know tanh of it."""
    c = {"truncation": 0.0} if gradient == "reparametrised" else {}
    check(data.draw(cases("acer", continuous=True, family=family, squashed=True, correction_gradient=gradient, **c)))


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


def extremes(algo: str, f: Distribution, c: float, **changes: Any) -> tuple[Learner, Method, Batch, Tensor]:
    """Float32, with π, μ and π_a at ±200 in every coordinate; any action is taken, even where no policy would."""
    continuous = not chooses(f)
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
    anything = f.statistics(torch.zeros_like(mu)) if chooses(f) else mu
    actions = f.sample(anything, f.noise(rng, (k, batch)))
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


@pytest.mark.parametrize("most_listed", [36, 0])
@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
def test_extreme_logits_of_several_choices_stay_finite(statistic: Statistic, most_listed: int) -> None:
    assert_finite(*extremes("acer", MultiCategorical((2, 4), statistic, most_listed), 10.0, statistic=statistic))


@pytest.mark.parametrize("bounded", [False, True])
def test_extreme_outputs_of_a_learnt_deviation_stay_finite(bounded: bool) -> None:
    assert_finite(*extremes("acer", LearntGaussian(2, free=False, bounded=bounded), 5.0))
