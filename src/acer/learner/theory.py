"""Section 7 and Appendix C on finite MDPs: Retrace is importance sampling, truncated at c and corrected for its bias.

Every operator is the expectation of a discounted sum over trajectories, and so the solution of a linear system. Nothing
of the learner is used here, and the learner uses nothing of this: it is the paper's theory, small enough to play with.

    rng = np.random.default_rng(0)
    mdp = random_mdp(rng, states=5, actions=3, gamma=0.9)
    pi, mu = random_policy(rng, 5, 3), random_policy(rng, 5, 3)
    contraction(lambda q: retrace(mdp, pi, mu, q, c=1.0), (5, 3))  # below 0.9

Shapes, with S states and A actions. `transitions`: [S, A, S]. `rewards`, the policies `pi` and `mu`, and `q`: [S, A]; a
row of a policy sums to 1. Weights: ρ(x, a) = π(a|x) / μ(a|x), [S, A]; actions that μ never takes have no part in E_μ.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class MDP:
    """A finite Markov decision process with γ < 1."""

    transitions: Array  # P(y|x, a)  [S, A, S]
    rewards: Array  # r(x, a)        [S, A]
    gamma: float


def random_mdp(rng: np.random.Generator, states: int, actions: int, gamma: float) -> MDP:
    """Transitions uniform on the simplex, rewards uniform in [−1, 1]."""
    transitions = rng.dirichlet(np.ones(states), size=(states, actions))
    return MDP(transitions, rng.uniform(-1, 1, size=(states, actions)), gamma)


def random_policy(rng: np.random.Generator, states: int, actions: int, concentration: float = 1.0) -> Array:
    """One Dirichlet row for each state [S, A]; a concentration below 1 makes it nearly deterministic."""
    return rng.dirichlet(np.full(actions, concentration), size=states)


def truncated_weight(pi: Array, mu: Array, c: float) -> Array:
    """min{c, ρ(x, a)}: [S, A]."""
    return np.minimum(c, _ratio(pi, mu))


def correction_weight(pi: Array, mu: Array, c: float) -> Array:
    """[(ρ(x, a) − c) / ρ(x, a)]_+: [S, A]; 1 at c = 0, 0 at c = ∞."""
    rho = _ratio(pi, mu)
    return np.where(rho > c, 1 - np.divide(c, rho, out=np.zeros_like(rho), where=rho > c), 0.0)


def state_action_values(mdp: MDP, pi: Array) -> Array:
    """Q^π(x, a) = E_π[Σ_t γ^t r_t | x_0 = x, a_0 = a]: [S, A]."""
    return _discounted_sum(mdp, pi, mdp.rewards)


def bellman(mdp: MDP, pi: Array, q: Array) -> Array:
    """T^π Q(x, a) = r(x, a) + γ E_y E_{b∼π}[Q(y, b)]: [S, A]."""
    return mdp.rewards + mdp.gamma * _expected(mdp, (pi * q).sum(1))


def operator_b(mdp: MDP, pi: Array, mu: Array, q: Array, c: float) -> Array:
    """B Q(x, a) = E_μ[Σ_t γ^t (Π_{i=1}^t ρ̄_i) (r_t + γ E_{b∼π}(w_{t+1}(b) Q(x_{t+1}, b)))]   (Equation 20).

    Truncated weights ρ̄ = min{c, ρ}, corrected by w = [(ρ − c) / ρ]_+; 0 ≤ c ≤ ∞. Result: [S, A].
    """
    corrections = (pi * correction_weight(pi, mu, c) * q).sum(1)
    terms = mdp.rewards + mdp.gamma * _expected(mdp, corrections)
    return _discounted_sum(mdp, _under(mu, truncated_weight(pi, mu, c)), terms)


def retrace(mdp: MDP, pi: Array, mu: Array, q: Array, c: float) -> Array:
    """R Q(x, a) = Q(x, a) + E_μ[Σ_t γ^t (Π_{i=1}^t ρ̄_i) (r_t + γ E_{b∼π}[Q(x_{t+1}, b)] − Q(x_t, a_t))]   (Appendix
    C).

    Trace ρ̄ = min{c, ρ}, 0 ≤ c ≤ ∞; c = 1 is Retrace as Munos et al. (2016) define it. Result: [S, A].
    """
    errors = bellman(mdp, pi, q) - q
    return q + _discounted_sum(mdp, _under(mu, truncated_weight(pi, mu, c)), errors)


def importance_sampling(mdp: MDP, pi: Array, mu: Array) -> Array:
    """E_μ[Σ_t γ^t (Π_{i=1}^t ρ_i) r_t]: [S, A]. This is Q^π if μ takes every action that π takes."""
    return _discounted_sum(mdp, _under(mu, _ratio(pi, mu)), mdp.rewards)


def contraction(operator: Callable[[Array], Array], shape: tuple[int, int]) -> float:
    """The least L with ‖O Q − O Q'‖_∞ ≤ L ‖Q − Q'‖_∞, for an affine O: the largest row sum of its matrix."""
    origin = operator(np.zeros(shape))
    size = origin.size
    columns = [operator(basis.reshape(shape)) - origin for basis in np.eye(size)]
    return float(np.abs(columns).sum(0).max())


def _ratio(pi: Array, mu: Array) -> Array:
    """ρ = π / μ; infinite where only π takes the action, 0 where neither does."""
    return np.divide(pi, mu, out=np.where(pi > 0, np.inf, 0.0), where=mu > 0)


def _under(mu: Array, weights: Array) -> Array:
    """μ(a|x) w(x, a), so that Σ_a is E_{a∼μ}[w]; an action without probability adds nothing, whatever its weight."""
    return np.multiply(mu, weights, out=np.zeros_like(mu), where=mu > 0)


def _expected(mdp: MDP, values: Array) -> Array:
    """E_y[v(y)] for y ∼ P(·|x, a): [S] to [S, A]."""
    expected: Array = mdp.transitions @ values
    return expected


def _discounted_sum(mdp: MDP, weights: Array, terms: Array) -> Array:
    """y(x, a) = h(x, a) + γ Σ_y P(y|x, a) Σ_b w(y, b) y(y, b), solved for y. weights: w [S, A]; terms: h [S, A]."""
    size = terms.size
    steps = (mdp.transitions[..., None] * weights).reshape(size, size)
    solution = np.linalg.solve(np.eye(size) - mdp.gamma * steps, terms.reshape(size))
    return solution.reshape(terms.shape).astype(np.float64, copy=False)
