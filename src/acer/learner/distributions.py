"""The policy's distribution f(·|φ): all that depends on which f it is.

A distribution is a value without state. The network's *output* becomes the *statistics* φ that are stored with a
trajectory; `score`, `kl_gradient` and `entropy_gradient` are gradients with respect to φ, and `pullback` carries such
a gradient from φ to the network's output, where back-propagation takes over. Every distribution answers to the names
of `Distribution`; one whose actions can be listed also to those of `Finite`.

Noise is an argument everywhere: who samples owns the random stream.
"""

import math
from dataclasses import dataclass
from typing import Literal, Protocol, cast

import numpy as np
import torch
from torch import Tensor

Statistic = Literal["logits", "probabilities"]


class Distribution(Protocol):
    """f, over any leading (time, actor) dimensions […]. An action is […], or […, d] if it has several parts."""

    @property
    def outputs(self) -> int:
        """n, the size of φ and of the network's output."""

    @property
    def dimensions(self) -> int:
        """d of an action: the root that is taken of ρ in the trace (Section 5.1)."""

    @property
    def choices(self) -> int:
        """How many actions there are if they can be listed, otherwise 0."""

    def statistics(self, output: Tensor) -> Tensor:
        """Network output […, n] to what a trajectory stores […, n]."""

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        """Standard noise for one action at each place of `shape`."""

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        """One action from φ and noise."""

    def mode(self, phi: Tensor) -> Tensor:
        """The most probable action."""

    def log_prob(self, phi: Tensor, action: Tensor) -> Tensor:
        """log f(a|φ), joint over the action's parts: […]."""

    def score(self, phi: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
        """Σ_j w_j ∇_φ log f(a_j|φ) […, n], for m actions at each place with a weight [m, …] each."""

    def kl(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        """D_KL[f(·|φ_a) ‖ f(·|φ)]: […]."""

    def kl_gradient(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        """k, its gradient with respect to φ […, n]."""

    def entropy(self, phi: Tensor) -> Tensor:
        """H[f(·|φ)]: […]."""

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        """Its gradient with respect to φ […, n]."""

    def pullback(self, phi: Tensor, gradient: Tensor) -> Tensor:
        """(∂φ/∂output)ᵀ gradient […, n]."""


class Finite(Distribution, Protocol):
    """A distribution whose actions can be listed: expectations over them are sums."""

    def every(self, phi: Tensor) -> Tensor:
        """All actions, at each place [choices, …]."""

    def log_probs(self, phi: Tensor) -> Tensor:
        """log f(a|φ) of each of them […, choices]."""

    def probabilities(self, phi: Tensor) -> Tensor:
        """f(a|φ) of each of them […, choices], with the digits that `score` needs."""

    def index(self, actions: Tensor) -> Tensor:
        """Which of them these are […]."""


def finite(f: Distribution) -> Finite:
    """The same distribution, as one whose actions can be listed."""
    assert f.choices
    return cast(Finite, f)


@dataclass(frozen=True)
class Categorical:
    """A choice among `actions`; stored as log-probabilities.

    φ is either the probability vector (Section 3.3 of the paper) or the logits. The network's output is the logits in
    both cases, so `statistic` decides in which coordinates g, k and δ are compared, and what `pullback` has to undo.

    Gradients with respect to probabilities have 1/π in them, which Jᵀ = diag(π) − ππᵀ takes away again. Where one
    action a* has nearly all of the probability, three things keep the digits:

    - They are computed in float64 from log π: float32 has no π(a) below 1e-38, though π(a) / π(a) is 1. log π holds the
      rare actions' π(a) to full precision, but not 1 − π(a*).
    - Jᵀ1 = 0, so `pullback` first subtracts v(a*) from the whole of v. Then Σ_b π(b) v(b) is a sum over the rare
      actions alone, 1 − π(a*) is nowhere needed, and (Jᵀv)(a) = π(a) [v(a) − Σ_b π(b) v(b)] cancels no large numbers.
    - Where log π and log π_a differ by no more than rounding, k is −1. λ may be 1/π(a) there, and would blow it up.
    """

    actions: int
    statistic: Statistic = "logits"

    @property
    def outputs(self) -> int:
        return self.actions

    @property
    def dimensions(self) -> int:
        return 1

    @property
    def choices(self) -> int:
        return self.actions

    def every(self, phi: Tensor) -> Tensor:
        listed = torch.arange(self.actions, device=phi.device)
        return listed.view(-1, *[1] * (phi.dim() - 1)).expand(-1, *phi.shape[:-1])

    def log_probs(self, phi: Tensor) -> Tensor:
        return phi

    def probabilities(self, phi: Tensor) -> Tensor:
        return (phi if self.statistic == "logits" else phi.double()).exp()

    def index(self, actions: Tensor) -> Tensor:
        return actions

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

    def score(self, phi: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
        """Logits: ∇_φ log f(a|φ) = e_a − π. Probabilities: e_a / π(a)."""
        weights = torch.zeros_like(phi, dtype=weights.dtype).scatter_add_(
            -1, actions.movedim(0, -1), weights.movedim(0, -1)
        )
        if self.statistic == "logits":
            return weights - phi.exp() * weights.sum(-1, keepdim=True)
        return weights / _floored(phi).exp()

    def kl(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        return (phi_a.exp() * (phi_a - phi)).sum(-1)

    def kl_gradient(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        if self.statistic == "logits":
            return phi.exp() - phi_a.exp()
        rounding = 8 * torch.finfo(phi.dtype).eps * (1 + phi.abs().amax(-1, keepdim=True))
        phi_a = torch.where((phi_a - phi).abs() <= rounding, phi, phi_a)
        return -(phi_a.double() - _floored(phi)).exp()

    def entropy(self, phi: Tensor) -> Tensor:
        return -(phi.exp() * phi).sum(-1)

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        if self.statistic == "logits":
            return -phi.exp() * (phi + self.entropy(phi).unsqueeze(-1))
        return -phi.double() - 1

    def pullback(self, phi: Tensor, gradient: Tensor) -> Tensor:
        if self.statistic == "logits":
            return gradient
        pi = phi.double().exp()
        gradient = gradient - gradient.gather(-1, phi.argmax(-1, keepdim=True))
        return (pi * (gradient - (pi * gradient).sum(-1, keepdim=True))).to(phi.dtype)


def _floored(log_pi: Tensor) -> Tensor:
    """log π, kept so far up that the cube of 1/π is finite: kᵀg has its square, an advantage comes on top."""
    return log_pi.double().clamp(min=math.log(torch.finfo(torch.float64).tiny) / 3)


@dataclass(frozen=True)
class Gaussian:
    """A diagonal Gaussian with fixed deviation σ in every dimension; φ is its mean (Section 5.2)."""

    dimensions: int
    sigma: float = 0.3

    @property
    def outputs(self) -> int:
        return self.dimensions

    @property
    def choices(self) -> int:
        return 0

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
        return gradient
