"""RMSProp as in A3C (Mnih et al. 2016): no momentum, not centred, ε inside the root."""

import torch
from torch import Tensor


def clip_by_norm(gradient: Tensor, largest: float) -> Tensor:
    """Scales the flat gradient in place so that its norm is at most `largest`; returns the norm before clipping."""
    norm: Tensor = torch.linalg.vector_norm(gradient)
    if norm == torch.inf:  # the squares may overflow though the gradient is finite
        norm = torch.linalg.vector_norm(gradient, dtype=torch.float64)
    if norm > largest:
        gradient.mul_(largest / norm)
    return norm


def rmsprop(theta: Tensor, square: Tensor, gradient: Tensor, rate: float, decay: float, epsilon: float) -> None:
    """s ← β s + (1 − β) Δθ²;  θ ← θ − η Δθ / √(s + ε), in place, on flat vectors (θ and s may be shared between
    processes)."""
    square.mul_(decay).addcmul_(gradient, gradient, value=1 - decay)
    theta.addcdiv_(gradient, (square + epsilon).sqrt_(), value=-rate)


def average(theta_a: Tensor, theta: Tensor, alpha: float) -> None:
    """θ_a ← α θ_a + (1 − α) θ, in place."""
    theta_a.lerp_(theta, 1 - alpha)
