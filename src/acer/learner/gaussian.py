"""Gaussian policies: with the paper's fixed deviation, or with one that is learnt."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

RANGE = math.log(10)  # of a learnt σ's logarithm, to either side


@dataclass(frozen=True)
class Gaussian:
    """A diagonal Gaussian with fixed deviation σ in every dimension; φ is its mean (Section 5.2).

    bounded: the mean is tanh of the network's output, so that it stays within the action's range (ours).
    """

    dimensions: int
    sigma: float = 0.3
    bounded: bool = False

    @property
    def outputs(self) -> int:
        return self.dimensions

    @property
    def choices(self) -> int:
        return 0

    @property
    def inputs(self) -> int:
        return self.dimensions

    def statistics(self, output: Tensor, masks: Tensor | None = None) -> Tensor:
        return output.tanh() if self.bounded else output

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(rng.standard_normal((*shape, self.dimensions), dtype=np.float32))

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        return phi + self.sigma * noise

    def mode(self, phi: Tensor) -> Tensor:
        return phi

    def encode(self, actions: Tensor) -> Tensor:
        return actions

    def log_prob(self, phi: Tensor, action: Tensor) -> Tensor:
        constant = self.dimensions * (math.log(self.sigma) + 0.5 * math.log(2 * math.pi))
        return (action - phi).square().sum(-1) * (-0.5 / self.sigma**2) - constant

    def score(self, phi: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
        """∇_φ log f(a|φ) = (a − φ) / σ²."""
        return (weights.unsqueeze(-1) * ((actions - phi) / self.sigma**2)).sum(0)

    def kl(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        return (phi_a - phi).square().sum(-1) * (0.5 / self.sigma**2)

    def kl_gradient(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        return (phi - phi_a) / self.sigma**2

    def entropy(self, phi: Tensor) -> Tensor:
        return phi.new_full(
            phi.shape[:-1], self.dimensions * (math.log(self.sigma) + 0.5 * math.log(2 * math.pi * math.e))
        )

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        return torch.zeros_like(phi)

    def pullback(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """Jᵀ = diag(1 − φ²) where φ = tanh(output)."""
        return gradient * (1 - phi.square()) if self.bounded else gradient


@dataclass(frozen=True)
class LearntGaussian:
    """A diagonal Gaussian whose deviations are learnt; φ is its means m, then the logarithms s of its σ (ours).

    The network's output y for s gives s = log σ_0 + R tanh(y / R): at y = 0 σ is σ_0, and it never leaves
    [σ_0 / 10, 10 σ_0].
    free: y does not depend on the state; otherwise it is an output of the network like the mean's.
    """

    dimensions: int
    sigma: float = 0.3  # σ_0
    free: bool = True
    bounded: bool = False  # as in `Gaussian`

    @property
    def outputs(self) -> int:
        return 2 * self.dimensions

    @property
    def choices(self) -> int:
        return 0

    @property
    def inputs(self) -> int:
        return self.dimensions

    def statistics(self, output: Tensor, masks: Tensor | None = None) -> Tensor:
        mean, y = output.chunk(2, -1)
        s = math.log(self.sigma) + RANGE * (y / RANGE).tanh()
        return torch.cat((mean.tanh() if self.bounded else mean, s), -1)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(rng.standard_normal((*shape, self.dimensions), dtype=np.float32))

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        mean, s = phi.chunk(2, -1)
        return mean + s.exp() * noise

    def mode(self, phi: Tensor) -> Tensor:
        return phi[..., : self.dimensions]

    def encode(self, actions: Tensor) -> Tensor:
        return actions

    def log_prob(self, phi: Tensor, action: Tensor) -> Tensor:
        mean, s = phi.chunk(2, -1)
        return -(0.5 * ((action - mean) / s.exp()).square() + s + 0.5 * math.log(2 * math.pi)).sum(-1)

    def score(self, phi: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
        """∇_m log f(a|φ) = (a − m) / σ², ∇_s log f(a|φ) = (a − m)² / σ² − 1."""
        mean, s = phi.chunk(2, -1)
        noise = (actions - mean) / s.exp()
        return (weights.unsqueeze(-1) * torch.cat((noise / s.exp(), noise.square() - 1), -1)).sum(0)

    def kl(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        """Σ s − s_a + (σ_a² + (m_a − m)²) / 2σ² − ½."""
        (mean_a, s_a), (mean, s) = phi_a.chunk(2, -1), phi.chunk(2, -1)
        ratio = (2 * (s_a - s)).exp() + ((mean_a - mean) / s.exp()).square()
        return (s - s_a + 0.5 * (ratio - 1)).sum(-1)

    def kl_gradient(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        """∇_m = (m − m_a) / σ², ∇_s = 1 − (σ_a² + (m_a − m)²) / σ²."""
        (mean_a, s_a), (mean, s) = phi_a.chunk(2, -1), phi.chunk(2, -1)
        away = (mean - mean_a) / s.exp()
        return torch.cat((away / s.exp(), -torch.expm1(2 * (s_a - s)) - away.square()), -1)

    def entropy(self, phi: Tensor) -> Tensor:
        return phi[..., self.dimensions :].sum(-1) + self.dimensions * 0.5 * math.log(2 * math.pi * math.e)

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        mean, s = phi.chunk(2, -1)
        return torch.cat((torch.zeros_like(mean), torch.ones_like(s)), -1)

    def pullback(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """Jᵀ = diag(1 − m², 1 − (s − log σ_0)² / R²); 1 for a mean that is not bounded."""
        (mean, s), (of_mean, of_s) = phi.chunk(2, -1), gradient.chunk(2, -1)
        if self.bounded:
            of_mean = of_mean * (1 - mean.square())
        return torch.cat((of_mean, of_s * (1 - ((s - math.log(self.sigma)) / RANGE).square())), -1)
