"""Gaussian policies: with the paper's fixed deviation, or with one that is learnt."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import softplus

RANGE = math.log(10)  # of a learnt σ's logarithm, to either side
NODES, WEIGHTS = (torch.from_numpy(of) for of in np.polynomial.hermite_e.hermegauss(32))
"""Gauss and Hermite's quadrature of the standard normal distribution: expectations without samples."""


def _before_tanh(mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Nodes u [32, …], their ξ and their weights, for means and deviations […]."""
    nodes = NODES.to(mean).view(-1, *[1] * mean.dim())
    weights = (WEIGHTS / WEIGHTS.sum()).to(mean).view(nodes.shape)
    return mean + deviation * nodes, nodes, weights


def _narrowing(mean: Tensor, deviation: Tensor) -> Tensor:
    """E Σ log(1 − tanh² u) […]: what tanh takes away of the entropy."""
    u, _, weights = _before_tanh(mean, deviation)
    return (weights * 2 * (math.log(2) - u - softplus(-2 * u))).sum((0, -1))  # finite where tanh rounds to 1


def _narrowing_gradient(mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor]:
    """Its gradients by the mean and by log σ: E[−2 tanh u] and E[−2 tanh(u) ξ] σ, of each dimension […, d]."""
    u, nodes, weights = _before_tanh(mean, deviation)
    pull = -2 * weights * u.tanh()
    return pull.sum(0), (pull * nodes).sum(0) * deviation


@dataclass(frozen=True)
class Gaussian:
    """A diagonal Gaussian with fixed deviation σ in every dimension; φ is its mean (Section 5.2).

    bounded: the mean is tanh of the network's output, so that it stays within the action's range (ours).
    squashed: f is of what comes before tanh; the environment and the critic get tanh of it (ours). ρ is the same, for
    tanh can be undone. The entropy is that of what is applied, so it pulls the mean back from the range's ends.
    """

    dimensions: int
    sigma: float = 0.3
    bounded: bool = False
    squashed: bool = False

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

    def applied(self, actions: NDArray[Any]) -> NDArray[Any]:
        return np.tanh(actions) if self.squashed else actions

    def encode(self, actions: Tensor) -> Tensor:
        return actions.tanh() if self.squashed else actions

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
        of_gaussian = phi.new_full(
            phi.shape[:-1], self.dimensions * (math.log(self.sigma) + 0.5 * math.log(2 * math.pi * math.e))
        )
        return of_gaussian + _narrowing(phi, self._deviation(phi)) if self.squashed else of_gaussian

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        return _narrowing_gradient(phi, self._deviation(phi))[0] if self.squashed else torch.zeros_like(phi)

    def _deviation(self, phi: Tensor) -> Tensor:
        return torch.full_like(phi, self.sigma)

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
    squashed: bool = False

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

    def applied(self, actions: NDArray[Any]) -> NDArray[Any]:
        return np.tanh(actions) if self.squashed else actions

    def encode(self, actions: Tensor) -> Tensor:
        return actions.tanh() if self.squashed else actions

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
        mean, s = phi.chunk(2, -1)
        of_gaussian = s.sum(-1) + self.dimensions * 0.5 * math.log(2 * math.pi * math.e)
        return of_gaussian + _narrowing(mean, s.exp()) if self.squashed else of_gaussian

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        mean, s = phi.chunk(2, -1)
        of_mean, of_s = torch.zeros_like(mean), torch.ones_like(s)
        if self.squashed:
            of_mean, narrowing = _narrowing_gradient(mean, s.exp())
            of_s = of_s + narrowing
        return torch.cat((of_mean, of_s), -1)

    def pullback(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """Jᵀ = diag(1 − m², 1 − (s − log σ_0)² / R²); 1 for a mean that is not bounded."""
        (mean, s), (of_mean, of_s) = phi.chunk(2, -1), gradient.chunk(2, -1)
        if self.bounded:
            of_mean = of_mean * (1 - mean.square())
        return torch.cat((of_mean, of_s * (1 - ((s - math.log(self.sigma)) / RANGE).square())), -1)
