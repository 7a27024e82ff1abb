"""RMSProp as in A3C (Mnih et al. 2016): no momentum, not centred, ε inside the root."""

import math

import numpy as np
import torch
from torch import Tensor


def clip_by_norm(gradient: Tensor, largest: float) -> tuple[float, float]:
    """The norm of the flat gradient, and the factor that makes it at most `largest`."""
    norm = float(torch.linalg.vector_norm(gradient))
    if norm == math.inf:  # the squares may overflow though the gradient is finite
        norm = float(torch.linalg.vector_norm(gradient, dtype=torch.float64))
    return norm, largest / norm if norm > largest else 1.0


def rmsprop(
    theta: Tensor, square: Tensor, gradient: Tensor, rate: float, decay: float, epsilon: float, factor: float = 1.0
) -> None:
    """s ← β s + (1 − β) Δθ²;  θ ← θ − η Δθ / √(s + ε), in place, on flat vectors (θ and s may be shared between
    processes). Δθ is the gradient times `factor`: scaling it on the way saves a pass through memory."""
    square.mul_(decay).addcmul_(gradient, gradient, value=(1 - decay) * factor**2)
    theta.addcdiv_(gradient, (square + epsilon).sqrt_(), value=-rate * factor)


def average(theta_a: Tensor, theta: Tensor, alpha: float) -> None:
    """θ_a ← α θ_a + (1 − α) θ, in place."""
    theta_a.lerp_(theta, 1 - alpha)


def in_one_pass(
    theta: Tensor,
    theta_a: Tensor,
    square: Tensor,
    gradient: Tensor,
    rate: float,
    decay: float,
    epsilon: float,
    alpha: float,
    factor: float = 1.0,
) -> None:
    """`rmsprop` and then `average`, θ_a being of the first part of θ. Long vectors are faster so: memory, not
    arithmetic, is what they cost. The gradient may be of bfloat16."""
    from acer.learner import kernels  # takes half a second, which short vectors need not pay

    numbers = np.array([rate, factor, decay, 1 - decay, epsilon, 1 - alpha], square.numpy().dtype)
    vectors = theta.numpy(), theta_a.numpy(), square.numpy()
    if gradient.dtype == torch.bfloat16:
        kernels.descend_bfloat16(*vectors, gradient.view(torch.int16).numpy().view(np.uint16), numbers)
    else:
        kernels.descend(*vectors, gradient.numpy(), numbers)
