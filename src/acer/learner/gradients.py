"""Policy gradients with respect to the statistics φ, one per step: g_t in the paper's letters.

Nothing here averages over steps or actors: the trust region compares each step's g with δ first.

Shapes. `log_rho`, `values`, `returns`: [T, …]. `phi`: [T, …, n]. Results: [T, …, n].
"""

import torch
from torch import Tensor

from acer.learner.distributions import Categorical, Gaussian
from acer.learner.returns import importance_weight


def truncated_weight(log_rho: Tensor, c: float) -> Tensor:
    """min{c, ρ}."""
    return importance_weight(log_rho).clamp(max=c)


def correction_weight(log_rho: Tensor, c: float) -> Tensor:
    """[1 − c/ρ]_+ = [(ρ − c)/ρ]_+; 1 everywhere at c = 0, 0 everywhere at c = ∞."""
    return (1 - c * importance_weight(-log_rho)).clamp(min=0)


def acer_categorical(
    f: Categorical, phi: Tensor, mu: Tensor, actions: Tensor, q: Tensor, values: Tensor, returns: Tensor, c: float
) -> Tensor:
    """ĝ_t = min{c, ρ_t} ∇_φ log f(a_t|φ) [Q^ret − V] + Σ_a [1 − c/ρ_t(a)]_+ f(a|φ) ∇_φ log f(a|φ) [Q(x_t, a) − V]
    (Equation 9).

    phi, mu: log-probabilities of π and μ [T, …, A]. q: Q(x_t, ·) [T, …, A]. actions: [T, …]. The sum over a is exact.
    """
    log_rho = phi - mu
    taken = actions.unsqueeze(-1)
    truncated = truncated_weight(log_rho.gather(-1, taken).squeeze(-1), c) * (returns - values)
    weights = correction_weight(log_rho, c) * phi.exp() * (q - values.unsqueeze(-1))
    return f.score(phi, weights.scatter_add(-1, taken, truncated.unsqueeze(-1)))


def acer_gaussian(
    f: Gaussian,
    phi: Tensor,
    mu: Tensor,
    actions: Tensor,
    sampled: Tensor,
    q_sampled: Tensor,
    values: Tensor,
    returns: Tensor,
    c: float,
) -> Tensor:
    """ĝ_t = min{c, ρ_t} ∇_φ log f(a_t|φ) [Q^opc − V] + [1 − c/ρ'_t]_+ [Q̃(x_t, a'_t) − V] ∇_φ log f(a'_t|φ)
    (Equation 16).

    phi, mu: means [T, …, d]. actions: a_t as sampled, before any clipping. sampled: a'_t ~ π. q_sampled: Q̃(x_t, a'_t).
    """
    log_rho = f.log_prob(phi, actions) - f.log_prob(mu, actions)
    log_rho_sampled = f.log_prob(phi, sampled) - f.log_prob(mu, sampled)
    truncated = truncated_weight(log_rho, c) * (returns - values)
    correction = correction_weight(log_rho_sampled, c) * (q_sampled - values)
    return truncated.unsqueeze(-1) * f.score(phi, actions) + correction.unsqueeze(-1) * f.score(phi, sampled)


def weighted_score(f: Categorical | Gaussian, phi: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
    """w_t ∇_φ log f(a_t|φ). w = R − V is A3C's gradient (Equation 2), w = min{5, Π ρ} (R − V) that of TIS."""
    if isinstance(f, Categorical):
        one_hot = torch.zeros_like(phi).scatter_(-1, actions.unsqueeze(-1), weights.unsqueeze(-1))
        return f.score(phi, one_hot)
    return weights.unsqueeze(-1) * f.score(phi, actions)
