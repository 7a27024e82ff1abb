"""The theory experiment: moments of gradient estimates against samples of them."""

import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from acer.experiments import theory
from acer.learner.theory import state_action_values
from acer.run.tables import read


def sampled_estimates(p, state, samples, rng):
    """Estimates of the gradient at a state, from trajectories, as the paper writes them down: [samples, A] each."""
    states, actions = theory.trajectories(p, np.full(samples, state), rng)
    rho, v = p.pi / p.mu, (p.pi * p.q).sum(1)
    q_ret = k_step = v[states[-1]]
    for t in reversed(range(theory.LENGTH)):  # Algorithm 2
        x, a = states[t], actions[t]
        q_ret, k_step = (p.mdp.rewards[x, a] + p.mdp.gamma * of for of in (q_ret, k_step))
        if t:
            q_ret = np.minimum(1, rho[x, a]) * (q_ret - p.q[x, a]) + v[x]
    weights = rho[states[:-1], actions]
    score = np.eye(theory.ACTIONS) - p.pi[state]  # of each action
    taken = score[actions[0]]

    def acer(c, corrected=True):
        missing = sum(
            max(0, 1 - c / rho[state, b]) * p.pi[state, b] * (p.q[state, b] - v[state]) * score[b] * corrected
            for b in range(theory.ACTIONS)
        )
        return (np.minimum(c, weights[0]) * (q_ret - v[state]))[:, None] * taken + missing

    return {
        "product of ρ": (weights.prod(0) * (k_step - v[state]))[:, None] * taken,
        "ACER, c = ∞": acer(math.inf),
        "ACER, c = 10": acer(10),
        "ACER, c = 1": acer(1),
        "c = 1 without correction": acer(1, corrected=False),
    }


def test_the_moments_of_gradient_estimates_are_those_of_samples():
    p, samples = theory._drifted(0, 0.3), 100_000
    estimates = sampled_estimates(p, 1, samples, np.random.default_rng(0))
    exact = theory.exact_moments(p)
    assert list(exact) == list(estimates)
    for name, of in estimates.items():
        error = np.abs(of.mean(0) - exact[name].mean[1]) / (of.std(0) / math.sqrt(samples))
        assert error.max() < 4.5, name
        tolerance = 0.3 if name == "product of ρ" else 0.03  # its tail is heavy
        assert of.var(0).sum() == pytest.approx(exact[name].variance[1], rel=tolerance), name


def test_truncation_with_correction_has_no_bias_with_a_perfect_critic_and_without_it_has():
    p = theory._drifted(0, 1.0)
    perfect = theory.Problem(p.mdp, p.pi, p.mu, state_action_values(p.mdp, p.pi))
    truth, moments = theory.true_gradient(perfect), theory.exact_moments(perfect)
    for name, of in moments.items():
        assert np.allclose(of.mean, truth, atol=1e-12) == (name != "c = 1 without correction"), name
    spread = {name: of.variance.mean() for name, of in moments.items()}
    assert spread["ACER, c = 1"] < spread["ACER, c = 10"] < spread["ACER, c = ∞"] < spread["product of ρ"]


def test_on_policy_every_weight_is_one():
    p = theory._drifted(1, 0.0)
    moments = theory.exact_moments(p)
    for c in ("∞", "10"):
        np.testing.assert_allclose(moments[f"ACER, c = {c}"].mean, moments["ACER, c = 1"].mean)
        np.testing.assert_allclose(moments[f"ACER, c = {c}"].variance, moments["ACER, c = 1"].variance)
    tis = theory.tis_moments(p, 50_000, np.random.default_rng(0))
    np.testing.assert_allclose(tis.variance, moments["product of ρ"].variance, rtol=0.05)


def test_theory_from_the_command_line(call):
    code, out, _ = call("experiment", "theory", "--out", "t")
    assert code == 0
    assert out.split() == ["t/theory.png", "t/theory.svg", "t/theory.csv"]
    assert Path("t/theory.png").stat().st_size > 20_000
    assert "scale: smoke" in Path("t/theory.svg").read_text()
    rows = read(Path("t/theory.csv"))
    factors = {float(row["x"]): float(row["value"]) for row in rows if row["panel"] == "contraction"}
    assert factors[0] == pytest.approx(0.9) and factors[math.inf] == pytest.approx(0, abs=1e-9)
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(factors.values()))
    retrace = [float(row["high"]) for row in rows if (row["panel"], row["series"]) == ("limits", "Retrace")]
    assert max(retrace) < 1e-9
