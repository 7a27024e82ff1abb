"""The policy's distribution f(·|φ): all that depends on which f it is.

A distribution is a value without state. The network's *output* becomes the *statistics* φ that are stored with a
trajectory; `score`, `kl_gradient` and `entropy_gradient` are gradients with respect to φ, and `pullback` carries such
a gradient from φ to the network's output, where back-propagation takes over.

Both distributions answer to the same names, over any leading (time, actor) dimensions […], with n = `outputs`:

    statistics        network output […, n] to what a trajectory stores […, n]
    noise, sample     standard noise for the given leading dimensions; one action […] or […, d] from φ and noise
    mode              the most probable action
    log_prob          log f(a|φ), joint over the action's d = `dimensions`: […]
    kl, kl_gradient   D_KL[f(·|φ_a) ‖ f(·|φ)]: […], and k, its gradient with respect to φ: […, n]
    entropy, entropy_gradient                  H[f(·|φ)]: […], and its gradient: […, n]
    pullback          (∂φ/∂output)ᵀ gradient: […, n]

Noise is an argument everywhere: who samples owns the random stream.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

Statistic = Literal["logits", "probabilities"]


@dataclass(frozen=True)
class Categorical:
    """A choice among `actions`; stored as log-probabilities.

    φ is either the probability vector (Section 3.3 of the paper) or the logits. The network's output is the logits in
    both cases, so `statistic` decides in which coordinates g, k and δ are compared, and what `pullback` has to undo.
    """

    actions: int
    statistic: Statistic = "logits"

    @property
    def outputs(self) -> int:
        return self.actions

    @property
    def dimensions(self) -> int:
        return 1

    def statistics(self, output: Tensor) -> Tensor:
        return output.log_softmax(-1)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(rng.random((*shape, 1), dtype=np.float32))

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        # Inverse of the cumulative distribution; rounding may leave its last entry below the noise.
        return (phi.exp().cumsum(-1) <= noise).sum(-1).clamp_(max=self.actions - 1)

    def mode(self, phi: Tensor) -> Tensor:
        return phi.argmax(-1)

    def log_prob(self, phi: Tensor, action: Tensor) -> Tensor:
        return phi.gather(-1, action.unsqueeze(-1)).squeeze(-1)

    def score(self, phi: Tensor, weights: Tensor) -> Tensor:
        """Σ_a w(a) ∇_φ log f(a|φ), weights […, actions].

        Logits: ∇ log f(a) = e_a − π. Probabilities: e_a / π(a).
        """
        if self.statistic == "logits":
            return weights - phi.exp() * weights.sum(-1, keepdim=True)
        return weights / _floored(phi)

    def kl(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        return (phi_a.exp() * (phi_a - phi)).sum(-1)

    def kl_gradient(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        if self.statistic == "logits":
            return phi.exp() - phi_a.exp()
        return -phi_a.exp() / _floored(phi)

    def entropy(self, phi: Tensor) -> Tensor:
        return -(phi.exp() * phi).sum(-1)

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        if self.statistic == "logits":
            return -phi.exp() * (phi + self.entropy(phi).unsqueeze(-1))
        return -phi - 1

    def pullback(self, phi: Tensor, gradient: Tensor) -> Tensor:
        if self.statistic == "logits":
            return gradient
        pi = phi.exp()
        return pi * (gradient - (pi * gradient).sum(-1, keepdim=True))


def _floored(log_pi: Tensor) -> Tensor:
    """π, kept so far from 0 that the cube of 1/π is finite: kᵀg has its square, an advantage comes on top."""
    return log_pi.exp().clamp(min=torch.finfo(log_pi.dtype).tiny ** (1 / 3))


@dataclass(frozen=True)
class Gaussian:
    """A diagonal Gaussian with fixed deviation σ in every dimension; φ is its mean (Section 5.2)."""

    dimensions: int
    sigma: float = 0.3

    @property
    def outputs(self) -> int:
        return self.dimensions

    def statistics(self, output: Tensor) -> Tensor:
        return output

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(rng.standard_normal((*shape, self.dimensions), dtype=np.float32))

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        return phi + self.sigma * noise

    def mode(self, phi: Tensor) -> Tensor:
        return phi

    def log_prob(self, phi: Tensor, action: Tensor) -> Tensor:
        constant = self.dimensions * (math.log(self.sigma) + 0.5 * math.log(2 * math.pi))
        return (action - phi).square().sum(-1) * (-0.5 / self.sigma**2) - constant

    def score(self, phi: Tensor, action: Tensor) -> Tensor:
        """∇_φ log f(a|φ) = (a − φ) / σ²."""
        return (action - phi) / self.sigma**2

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
        return gradient
