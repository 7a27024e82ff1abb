"""The trust region: how far one step's gradient may pull the policy away from the average policy (Section 3.3).

Each rule is a multiplier λ ≥ 0 [T, …, 1] in z = g − λ k, where k is the gradient of the KL divergence. `g` and `k` are
per step, [T, …, n]; δ is compared with each step by itself, before any averaging.

λ is taken in the statistics φ, as the paper has it, and z goes back to the network as Jᵀg − λ Jᵀk with J = ∂φ/∂output.
Subtracting first would be the same in exact arithmetic only: where π = π_a, k = −(1, …, 1) for φ = probabilities, and λ
may be as large as 1/π(a); softmax makes Jᵀk zero, but of g little is left beside λ k.
"""

import torch
from torch import Tensor


def constrained(g: Tensor, k: Tensor, multiplier: Tensor) -> Tensor:
    """z = g − λ k, of φ's gradients or of what they are at the network's output."""
    return g - multiplier * k


def projection(g: Tensor, k: Tensor, delta: float) -> Tensor:
    """λ = max{0, (kᵀg − δ) / ‖k‖²}: z is the nearest to g with kᵀz ≤ δ   (Equations 11 and 12). Safe at k = 0."""
    squared = k.square().sum(-1, keepdim=True)
    excess = ((k * g).sum(-1, keepdim=True) - delta).clamp(min=0)
    return excess / squared.clamp(min=torch.finfo(g.dtype).tiny)


def penalty(g: Tensor, k: Tensor, weight: float) -> Tensor:
    """λ = w: ascent on the objective minus w D_KL[f(·|φ_a) ‖ f(·|φ)], the alternative of Heess et al. (end of
    Section 3.3)."""
    return g.new_full((*g.shape[:-1], 1), weight)


def free(g: Tensor, k: Tensor) -> Tensor:
    """λ = 0: no constraint."""
    return g.new_zeros((*g.shape[:-1], 1))
