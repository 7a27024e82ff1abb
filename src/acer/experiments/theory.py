"""The theory experiment: what Section 7 claims, on random MDPs, and what the truncation is for.

Rows of numbers come out; `figures` draws them. Shapes as in `acer.theory`.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acer import theory
from acer.theory import MDP, Array

STATES, ACTIONS, GAMMA = 6, 4, 0.9
LENGTH = 20  # k, steps of a trajectory
TRUNCATIONS = (0.0, *np.round(np.logspace(-2, 3, 21), 6).tolist(), math.inf)
ITERATED = (0.0, 1.0, 10.0, math.inf)  # truncations whose operators are applied again and again
ITERATIONS = 30
DRIFTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)  # deviation of the logits of μ from those of π
CRITIC_ERROR = 0.3  # deviation of the critic's error, over that of Q^π

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Problem:
    """An MDP, a policy to learn about, one that acted, and an estimate of Q^π."""

    mdp: MDP
    pi: Array
    mu: Array
    q: Array


def rows(mdps: int, samples: int) -> Rows:
    """All of it, as rows with panel, series, x, value, low, high: the median over MDPs and 90 % of them."""
    problems = [_far_apart(seed) for seed in range(mdps)]
    return [*contraction(problems), *limits(problems), *convergence(problems), *gradient_errors(mdps, samples)]


def contraction(problems: list[Problem]) -> Rows:
    """How much B brings two estimates together, for each c: γ at c = 0 (Bellman), 0 at c = ∞ (importance sampling)."""
    found = []
    for c in TRUNCATIONS:
        factors = [theory.contraction(partial(theory.operator_b, p.mdp, p.pi, p.mu, c=c), p.q.shape) for p in problems]
        found.append(_row("contraction", "operator B", c, factors))
    return found


def limits(problems: list[Problem]) -> Rows:
    """Largest difference between B Q and the operators that it is or tends to."""
    found = []
    for c in TRUNCATIONS:
        values: dict[str, list[float]] = {"Bellman": [], "importance sampling": [], "Retrace": []}
        for p in problems:
            b = theory.operator_b(p.mdp, p.pi, p.mu, p.q, c)
            values["Bellman"].append(_distance(b, theory.bellman(p.mdp, p.pi, p.q)))
            values["importance sampling"].append(_distance(b, theory.importance_sampling(p.mdp, p.pi, p.mu)))
            values["Retrace"].append(_distance(b, theory.retrace(p.mdp, p.pi, p.mu, p.q, c)))
        found += [_row("limits", series, c, of) for series, of in values.items()]
    return found


def convergence(problems: list[Problem]) -> Rows:
    """‖B^i Q − Q^π‖_∞ over ‖Q − Q^π‖_∞ after i applications."""
    found = []
    for c in ITERATED:
        distances = np.zeros((len(problems), ITERATIONS + 1))
        for p, of in zip(problems, distances, strict=True):
            q, q_pi = p.q, theory.state_action_values(p.mdp, p.pi)
            for i in range(ITERATIONS + 1):
                of[i] = _distance(q, q_pi)
                q = theory.operator_b(p.mdp, p.pi, p.mu, q, c)
            of /= of[0]
        found += [_row("convergence", f"c = {_shown(c)}", i, distances[:, i].tolist()) for i in range(ITERATIONS + 1)]
    return found


# ------------------------------------------------------------------ gradients


def gradient_errors(mdps: int, samples: int) -> Rows:
    """Variance and squared bias of estimates of the policy gradient at a state, over the squared gradient, as μ drifts
    away from π; the critic is wrong by CRITIC_ERROR. x is the mean KL(π‖μ). Means over states and MDPs."""
    found = []
    for drift in DRIFTS:
        problems = [_drifted(seed, drift) for seed in range(mdps)]
        divergence = float(np.mean([(p.pi * np.log(p.pi / p.mu)).sum(1).mean() for p in problems]))
        sums: dict[str, list[tuple[float, float]]] = {}
        size = 0.0
        for seed, p in enumerate(problems):
            rng = np.random.default_rng([seed, round(100 * drift)])
            for state in range(STATES):
                truth = true_gradient(p, state)
                size += float(truth @ truth) / (STATES * mdps)
                for name, estimates in gradient_estimates(p, state, samples, rng).items():
                    variance = float(estimates.var(0, ddof=1).sum())
                    off = estimates.mean(0) - truth
                    # The mean of n samples is itself off by variance / n.
                    sums.setdefault(name, []).append((variance, float(off @ off) - variance / samples))
        for name, pairs in sums.items():
            variance, squared_bias = np.mean(pairs, axis=0)
            for panel, value in (("variance", variance), ("squared bias", squared_bias)):
                found.append({"panel": panel, "series": name, "x": divergence, "value": float(value) / size})
    return found


def true_gradient(p: Problem, state: int) -> Array:
    """Σ_a π(a|x) ∇log π(a|x) Q^π(x, a) with respect to the logits at x: [A]."""
    pi, q = p.pi[state], theory.state_action_values(p.mdp, p.pi)[state]
    gradient: Array = pi * (q - pi @ q)
    return gradient


def gradient_estimates(p: Problem, state: int, samples: int, rng: np.random.Generator) -> dict[str, Array]:
    """Estimates from `samples` trajectories of μ that begin at `state`, by estimator: [samples, A] each.

    Q^ret is Algorithm 2's, from the critic p.q; R is the k-step return; both bootstrap with the critic's V.
    """
    states, actions = trajectories(p, state, samples, rng)
    rho = p.pi / p.mu
    v = (p.pi * p.q).sum(1)
    rewards, weights, q = (of[states[:-1], actions] for of in (p.mdp.rewards, rho, p.q))
    q_ret, k_step = v[states[-1]], v[states[-1]]
    for t in range(LENGTH - 1, -1, -1):
        q_ret = rewards[t] + p.mdp.gamma * q_ret
        k_step = rewards[t] + p.mdp.gamma * k_step
        if t:
            q_ret = np.minimum(1, weights[t]) * (q_ret - q[t]) + v[states[t]]
    product = weights.prod(0)
    score = np.eye(ACTIONS)[actions[0]] - p.pi[state]  # ∇log π(a|x) with respect to the logits

    def truncated(c: float) -> Array:
        weighted: Array = (np.minimum(c, weights[0]) * (q_ret - v[state]))[:, None] * score
        return weighted

    def correction(c: float) -> Array:
        share = np.maximum(0, 1 - c / rho[state]) * p.pi[state] * (p.q[state] - v[state])
        corrected: Array = share - share.sum() * p.pi[state]  # Σ_a share(a) (e_a − π)
        return corrected

    def traced(weight: Array) -> Array:
        along: Array = (weight * (k_step - v[state]))[:, None] * score
        return along

    return {
        "product of ρ": traced(product),
        "TIS, min{5, product}": traced(np.minimum(5, product)),
        "ACER, c = ∞": truncated(math.inf),
        "ACER, c = 10": truncated(10) + correction(10),
        "ACER, c = 1": truncated(1) + correction(1),
        "c = 1 without correction": truncated(1),
    }


def trajectories(
    p: Problem, state: int, samples: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """States [k + 1, samples] and actions [k, samples] of μ."""
    states, actions = np.zeros((LENGTH + 1, samples), np.int64), np.zeros((LENGTH, samples), np.int64)
    states[0] = state
    for t in range(LENGTH):
        actions[t] = _choice(p.mu[states[t]], rng)
        states[t + 1] = _choice(p.mdp.transitions[states[t], actions[t]], rng)
    return states, actions


def _choice(probabilities: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index for each row [n, m]."""
    below: NDArray[np.int64] = (probabilities.cumsum(1)[:, :-1] < rng.random(len(probabilities))[:, None]).sum(1)
    return below


# ------------------------------------------------------------------ problems


def _far_apart(seed: int) -> Problem:
    """π and μ have nothing to do with each other, nor Q with Q^π."""
    rng = np.random.default_rng([1, seed])
    mdp = theory.random_mdp(rng, STATES, ACTIONS, GAMMA)
    pi, mu = (theory.random_policy(rng, STATES, ACTIONS) for _ in range(2))
    return Problem(mdp, pi, mu, rng.normal(0, 10, (STATES, ACTIONS)))


def _drifted(seed: int, drift: float) -> Problem:
    """The same MDP, π, critic and direction of the drift for every size of it."""
    rng = np.random.default_rng([2, seed])
    mdp = theory.random_mdp(rng, STATES, ACTIONS, GAMMA)
    logits, direction, error = rng.normal(size=(3, STATES, ACTIONS))
    pi = _softmax(logits)
    q_pi = theory.state_action_values(mdp, pi)
    return Problem(mdp, pi, _softmax(logits + drift * direction), q_pi + CRITIC_ERROR * q_pi.std() * error)


def _softmax(logits: Array) -> Array:
    powers = np.exp(logits - logits.max(1, keepdims=True))
    shares: Array = powers / powers.sum(1, keepdims=True)
    return shares


def _distance(a: Array, b: Array) -> float:
    return float(np.abs(a - b).max())


def _row(panel: str, series: str, x: float, values: list[float]) -> dict[str, Any]:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95]).tolist()
    return {"panel": panel, "series": series, "x": float(x), "value": middle, "low": low, "high": high}


def _shown(c: float) -> str:
    return "∞" if math.isinf(c) else f"{c:g}"
