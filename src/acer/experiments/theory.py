"""The theory experiment: what Section 7 claims, on random MDPs, and what the truncation is for.

Rows of numbers come out; `figures` draws them. Shapes as in `acer.learner.theory`.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acer.learner import theory
from acer.learner.theory import MDP, Array

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


@dataclass(frozen=True)
class Moments:
    """Of an estimate of the policy gradient at each state, with respect to the state's logits."""

    mean: Array  # [S, A]
    variance: Array  # sum over the logits [S]
    samples: float = math.inf  # that they were found from

    def squared_bias(self, truth: Array) -> Array:
        """[S]; the mean of n samples is itself off by variance / n."""
        bias: Array = ((self.mean - truth) ** 2).sum(1) - self.variance / self.samples
        return bias


def gradient_errors(mdps: int, samples: int) -> Rows:
    """Variance and squared bias of estimates of the policy gradient, over its square, as μ drifts away from π; the
    critic is wrong by CRITIC_ERROR. x is the mean KL(π‖μ). Means over states and MDPs."""
    found = []
    for drift in DRIFTS:
        problems = [_drifted(seed, drift) for seed in range(mdps)]
        divergence = float(np.mean([(p.pi * np.log(p.pi / p.mu)).sum(1).mean() for p in problems]))
        errors: dict[str, list[tuple[float, float]]] = {}
        for seed, p in enumerate(problems):
            truth, rng = true_gradient(p), np.random.default_rng([seed, round(100 * drift)])
            for name, of in (exact_moments(p) | {"TIS, min{5, product}": tis_moments(p, samples, rng)}).items():
                errors.setdefault(name, []).append((of.variance.mean(), of.squared_bias(truth).mean()))
        size = float(np.mean([(true_gradient(p) ** 2).sum(1).mean() for p in problems]))
        for name, pairs in errors.items():
            variance, squared_bias = (float(value) / size for value in np.mean(pairs, axis=0))
            panels = {"variance": variance, "squared bias": squared_bias, "error": variance + squared_bias}
            found += [{"panel": panel, "series": name, "x": divergence, "value": of} for panel, of in panels.items()]
    return found


def true_gradient(p: Problem) -> Array:
    """Σ_a π(a|x) ∇log π(a|x) Q^π(x, a): [S, A]."""
    return _along_scores(p, p.pi * true_values(p))


def true_values(p: Problem) -> Array:
    """Q^π: [S, A]."""
    return theory.state_action_values(p.mdp, p.pi)


def exact_moments(p: Problem) -> dict[str, Moments]:
    """Estimates whose moments follow from recursions along a trajectory of k steps under μ, by name.

    ACER: min{c, ρ} (Q^ret − V) ∇log π(a|x) + Σ_b [1 − c/ρ(b)]_+ π(b|x) (Q(x, b) − V) ∇log π(b|x), Q and V the
    critic's. The product of ρ: (Π_i ρ_i) (R − V) ∇log π(a|x), R the k-step return.
    """
    rho, v = p.pi / p.mu, (p.pi * p.q).sum(1, keepdims=True)
    first, second = retrace_moments(p)  # of Q^ret − Q
    advantage = first + p.q - v
    squared = second + 2 * first * (p.q - v) + (p.q - v) ** 2

    def acer(c: float, corrected: bool = True) -> Moments:
        weights = np.minimum(c, rho)
        missing = np.maximum(0, 1 - c / rho) * p.pi * (p.q - v) * corrected
        return _moments(p, weights * advantage, weights**2 * squared, missing)

    plain, square = product_moments(p, 1), product_moments(p, 2)
    return {
        "product of ρ": _moments(
            p, rho * (plain[1] - v * plain[0]), rho**2 * (square[2] - 2 * v * square[1] + v**2 * square[0])
        ),
        "ACER, c = ∞": acer(math.inf),
        "ACER, c = 10": acer(10),
        "ACER, c = 1": acer(1),
        "c = 1 without correction": acer(1, corrected=False),
    }


def retrace_moments(p: Problem) -> tuple[Array, Array]:
    """E_μ[D | x, a] and E_μ[D² | x, a] of D = Q^ret − Q k steps before the end, [S, A] each.

    D_i = r_i + γ V(x_{i+1}) − Q(x_i, a_i) + γ ρ̄_{i+1} D_{i+1}, ρ̄ = min{1, ρ}, without the last term at the end.
    """
    gamma, transitions = p.mdp.gamma, p.mdp.transitions
    errors = p.mdp.rewards[..., None] + gamma * (p.pi * p.q).sum(1) - p.q[..., None]  # [S, A, S]
    traces = np.minimum(1, p.pi / p.mu)
    first, second = np.zeros_like(p.q), np.zeros_like(p.q)
    for _ in range(LENGTH):
        once, twice = (p.mu * traces * first).sum(1), (p.mu * traces**2 * second).sum(1)  # [S], at the next state
        first = (transitions * (errors + gamma * once)).sum(-1)
        second = (transitions * (errors**2 + 2 * gamma * errors * once + gamma**2 * twice)).sum(-1)
    return first, second


def product_moments(p: Problem, power: int) -> list[Array]:
    """E_μ[W^power R^j | x, a] for j = 0, 1, 2: [S, A] each. W = Π_{i≥1} ρ_i, R the return, k steps before the end."""
    r, gamma = p.mdp.rewards, p.mdp.gamma
    v = (p.pi * p.q).sum(1)
    after = [np.ones_like(v), v, v**2]  # at the next state: nothing but the bootstrap
    for _ in range(LENGTH):
        zero, one, two = (p.mdp.transitions @ of for of in after)
        now = [zero, r * zero + gamma * one, r**2 * zero + 2 * gamma * r * one + gamma**2 * two]
        after = [(p.mu * (p.pi / p.mu) ** power * of).sum(1) for of in now]
    return now


def tis_moments(p: Problem, samples: int, rng: np.random.Generator) -> Moments:
    """min{5, Π_i ρ_i} (R − V) ∇log π(a|x) of the baseline TIS, from samples: a bounded product has no recursion."""
    v = (p.pi * p.q).sum(1)
    begin = np.repeat(np.arange(STATES), samples)
    states, actions = trajectories(p, begin, rng)
    returns = v[states[-1]]
    for t in range(LENGTH - 1, -1, -1):
        returns = p.mdp.rewards[states[t], actions[t]] + p.mdp.gamma * returns
    product = (p.pi / p.mu)[states[:-1], actions].prod(0)
    factors = np.minimum(5, product) * (returns - v[begin])
    found = (factors[:, None] * (np.eye(ACTIONS)[actions[0]] - p.pi[begin])).reshape(STATES, samples, ACTIONS)
    return Moments(found.mean(1), found.var(1, ddof=1).sum(1), samples)


def trajectories(
    p: Problem, begin: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """States [k + 1, n] and actions [k, n] of μ from the states `begin` [n]."""
    states, actions = np.zeros((LENGTH + 1, len(begin)), np.int64), np.zeros((LENGTH, len(begin)), np.int64)
    states[0] = begin
    act, move = p.mu.cumsum(-1), p.mdp.transitions.cumsum(-1)
    for t in range(LENGTH):
        actions[t] = _choice(act[states[t]], rng)
        states[t + 1] = _choice(move[states[t], actions[t]], rng)
    return states, actions


def _choice(cumulative: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """One index for each row of cumulative probabilities [n, m]."""
    below: NDArray[np.int64] = (cumulative[:, :-1] < rng.random(len(cumulative))[:, None]).sum(1)
    return below


def _moments(p: Problem, first: Array, second: Array, constant: Array | float = 0.0) -> Moments:
    """Of f ∇log π(a|x) + Σ_b h(x, b) ∇log π(b|x), a ∼ μ, from E[f|x, a], E[f²|x, a] and h: [S, A] each."""
    mean = _along_scores(p, p.mu * first)
    length = 1 - 2 * p.pi + (p.pi**2).sum(1, keepdims=True)  # ‖∇log π(a|x)‖²
    variance = (p.mu * second * length).sum(1) - (mean**2).sum(1)
    return Moments(mean + _along_scores(p, constant + np.zeros_like(p.q)), variance)


def _along_scores(p: Problem, weights: Array) -> Array:
    """Σ_a w(x, a) ∇log π(a|x), where ∇log π(a|x) = e_a − π(·|x): [S, A]."""
    along: Array = weights - weights.sum(1, keepdims=True) * p.pi
    return along


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
