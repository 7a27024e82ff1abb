"""Policy gradients with respect to the statistics φ, one per step: g_t in the paper's letters.

Nothing here averages over steps or actors: the trust region compares each step's g with δ first. What depends on the
distribution f is behind `score`: Σ_j w_j ∇_φ log f(a_j|φ).

Shapes. `log_rho`, `values`, `returns`: [T, …]. `phi`: [T, …, n]. Results: [T, …, n].
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from acer.learner.distributions import Distribution, Finite
from acer.learner.returns import importance_weight


def truncated_weight(log_rho: Tensor, c: float) -> Tensor:
    """min{c, ρ}."""
    return importance_weight(log_rho).clamp(max=c)


def correction_weight(log_rho: Tensor, c: float) -> Tensor:
    """[1 − c/ρ]_+ = [(ρ − c)/ρ]_+; 1 everywhere at c = 0, 0 everywhere at c = ∞."""
    return (1 - c * importance_weight(-log_rho)).clamp(min=0)


@dataclass(frozen=True)
class Expectation:
    """E_{a∼π}[h(a)] = Σ_j p_j h(a_j), over every action there is, or over samples of π."""

    actions: Tensor  # a_j [m, T, …]
    weights: Tensor  # p_j [m, T, …]
    log_rho: Tensor  # log ρ_t(a_j) [m, T, …]
    q: Tensor  # Q(x_t, a_j) [m, T, …]


def exactly(f: Finite, phi: Tensor, mu: Tensor, q: Tensor) -> Expectation:
    """E_{a∼π}[h(a)] = Σ_a f(a|φ) h(a), as Algorithm 2 has it. q: Q(x_t, ·) [T, …, choices]."""
    log_rho = f.log_probs(phi) - f.log_probs(mu)
    return Expectation(f.every(phi), *(of.movedim(-1, 0) for of in (f.probabilities(phi), log_rho, q)))


def by_samples(f: Distribution, phi: Tensor, mu: Tensor, samples: Tensor, q: Tensor) -> Expectation:
    """E_{a∼π}[h(a)] ≈ 1/m Σ_j h(a'_j) with a'_j ∼ π; Algorithm 3 has one of them. samples: a'_j. q: Q̃(x_t, a'_j)."""
    log_rho = f.log_prob(phi, samples) - f.log_prob(mu, samples)
    return Expectation(samples, torch.full_like(q, 1 / len(q)), log_rho, q)


def acer(
    f: Distribution,
    phi: Tensor,
    actions: Tensor,
    log_rho: Tensor,
    values: Tensor,
    returns: Tensor,
    expected: Expectation,
    c: float,
) -> Tensor:
    """ĝ_t = min{c, ρ_t} ∇_φ log f(a_t|φ) [R_t − V] + E_{a∼π}([1 − c/ρ_t(a)]_+ [Q(x_t, a) − V] ∇_φ log f(a|φ)).

    Equation 9 with R = Q^ret and the expectation `exactly`, Equation 16 with R = Q^opc and `by_samples`. actions: a_t
    as sampled, before any clipping.
    """
    truncated = truncated_weight(log_rho, c) * (returns - values)
    correction = correction_weight(expected.log_rho, c) * expected.weights * (expected.q - values)
    every = torch.cat((expected.actions, actions.unsqueeze(0)))
    return f.score(phi, every, torch.cat((correction, truncated.unsqueeze(0))))


def reparametrised(f: Distribution, phi: Tensor, noise: Tensor, action_value: Callable[[Tensor], Tensor]) -> Tensor:
    """∇_φ Q(x_t, a'(φ, u)) through the sampled action a' = a'(φ, u), u the noise: an estimate of
    E_{a∼π}(Q(x, a) ∇_φ log f(a|φ)), the second term of ĝ_t at c = 0, as Stochastic Value Gradients have it (Section
    3.2; Heess et al. 2015). action_value: actions [1, T, …] to Q(x_t, a_t) [1, T, …], but for what is the same for
    all actions."""
    with torch.enable_grad():
        variable = phi.detach().requires_grad_()
        values = action_value(f.sample(variable, noise))
    return torch.autograd.grad(values.sum(), variable)[0]


def weighted_score(f: Distribution, phi: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
    """w_t ∇_φ log f(a_t|φ). w = R − V is A3C's gradient (Equation 2), w = min{5, Π ρ} (R − V) that of TIS."""
    return f.score(phi, actions.unsqueeze(0), weights.unsqueeze(0))
