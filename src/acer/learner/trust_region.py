"""The trust region: how far one step's gradient may pull the policy away from the average policy (Section 3.3).

`g` and `k` are per step, [T, …, n]; δ is compared with each step by itself, before any averaging.
"""

import torch
from torch import Tensor


def project(g: Tensor, k: Tensor, delta: float) -> Tensor:
    """z* = g − max{0, (kᵀg − δ) / ‖k‖²} k: the nearest z to g with kᵀz ≤ δ   (Equations 11 and 12). Safe at k = 0."""
    squared = k.square().sum(-1, keepdim=True)
    excess = ((k * g).sum(-1, keepdim=True) - delta).clamp(min=0)
    return g - excess / squared.clamp(min=torch.finfo(g.dtype).tiny) * k


def penalize(g: Tensor, k: Tensor, weight: float) -> Tensor:
    """z = g − w k: ascent on the objective minus w D_KL[f(·|φ_a) ‖ f(·|φ)], the alternative of Heess et al. (end of
    Section 3.3)."""
    return g - weight * k


def free(g: Tensor, k: Tensor) -> Tensor:
    """z = g: no constraint."""
    return g
