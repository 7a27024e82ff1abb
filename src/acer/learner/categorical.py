"""Categorical policies: one choice, or several at once, among actions of which some may be illegal."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import one_hot

Statistic = Literal["logits", "probabilities"]
ILLEGAL = -1e9
"""log π of an illegal action: finite, so that π log π is 0, and the same in π, π_a and μ, so that ρ is 1."""


@dataclass(frozen=True)
class Categorical:
    """A choice among `actions`; stored as log-probabilities, those of illegal actions as `ILLEGAL`.

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

    @property
    def inputs(self) -> int:
        return self.actions

    def statistics(self, output: Tensor, masks: Tensor | None = None) -> Tensor:
        if masks is None:
            return output.log_softmax(-1)
        return output.masked_fill(~masks, ILLEGAL).log_softmax(-1).masked_fill(~masks, ILLEGAL)

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(rng.random((*shape, 1), dtype=np.float32))

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        # Inverse of the cumulative distribution. Rounding may leave its last entry below the noise: the action is then
        # the last that has a probability, for those behind it may be illegal.
        cumulative = phi.exp().cumsum(-1)
        return ((cumulative <= noise) & (cumulative < cumulative[..., -1:])).sum(-1)

    def mode(self, phi: Tensor) -> Tensor:
        return phi.argmax(-1)

    def applied(self, actions: NDArray[Any]) -> NDArray[Any]:
        return actions

    def encode(self, actions: Tensor) -> Tensor:
        return one_hot(actions, self.actions)

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
        size = phi.masked_fill(phi <= ILLEGAL / 2, 0).abs().amax(-1, keepdim=True)
        rounding = 8 * torch.finfo(phi.dtype).eps * (1 + size)
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
class MultiCategorical:
    """Several independent choices at once, one in each part of an action; φ has their log-probabilities one part after
    the other, and g, k and δ are compared over all of them together.

    The parts are computed side by side, as rows of a table [d, widest part] whose missing places are illegal.
    """

    sizes: tuple[int, ...]  # choices in each part
    statistic: Statistic = "logits"
    most_listed: int = 64  # actions up to which they are listed: Q has an output for each

    @property
    def outputs(self) -> int:
        return sum(self.sizes)

    @property
    def dimensions(self) -> int:
        """1 where actions are listed, as in Algorithm 2."""
        return 1 if self.choices else len(self.sizes)

    @property
    def choices(self) -> int:
        count = math.prod(self.sizes)
        return count if count <= self.most_listed else 0

    @property
    def inputs(self) -> int:
        return self.outputs

    @cached_property
    def _part(self) -> Categorical:
        return Categorical(max(self.sizes), self.statistic)

    @cached_property
    def _starts(self) -> Tensor:
        """[d]: where each part begins in φ."""
        return torch.tensor([0, *self.sizes[:-1]]).cumsum(0)

    @cached_property
    def _places(self) -> Tensor:
        """[d, widest]: where in φ each place of the table is; one beyond its end for a missing one."""
        column, sizes = torch.arange(max(self.sizes)), torch.tensor(self.sizes)
        return torch.where(column < sizes.unsqueeze(-1), self._starts.unsqueeze(-1) + column, self.outputs)

    @cached_property
    def _present(self) -> Tensor:
        """[n]: where in the flat table each place of φ is."""
        return (self._places.flatten() < self.outputs).nonzero().squeeze(-1)

    @cached_property
    def _listed(self) -> Tensor:
        """[choices, d]: all actions, the last part changing fastest."""
        return torch.cartesian_prod(*(torch.arange(size) for size in self.sizes)).view(-1, len(self.sizes))

    def _table(self, flat: Tensor, missing: float) -> Tensor:
        """[…, n] to [..., d, widest]."""
        if len(set(self.sizes)) == 1:
            return flat.view(*flat.shape[:-1], len(self.sizes), -1)
        padded = torch.cat((flat, flat.new_full((*flat.shape[:-1], 1), missing)), -1)
        return padded[..., self._places]

    def _flat(self, table: Tensor) -> Tensor:
        return table.flatten(-2)[..., self._present]

    def statistics(self, output: Tensor, masks: Tensor | None = None) -> Tensor:
        legal = None if masks is None else self._table(masks, False)
        return self._flat(self._part.statistics(self._table(output, ILLEGAL), legal))

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        return torch.from_numpy(rng.random((*shape, len(self.sizes)), dtype=np.float32))

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        return self._part.sample(self._table(phi, ILLEGAL), noise.unsqueeze(-1))

    def mode(self, phi: Tensor) -> Tensor:
        return self._part.mode(self._table(phi, ILLEGAL))

    def applied(self, actions: NDArray[Any]) -> NDArray[Any]:
        return actions

    def encode(self, actions: Tensor) -> Tensor:
        return self._flat(one_hot(actions, max(self.sizes)))

    def log_prob(self, phi: Tensor, action: Tensor) -> Tensor:
        """The parts' sum, so that ρ is joint."""
        places = action + self._starts.to(action.device)
        return phi.expand(*action.shape[:-1], -1).gather(-1, places).sum(-1)

    def score(self, phi: Tensor, actions: Tensor, weights: Tensor) -> Tensor:
        """∇_φ log f(a|φ) has each part's score; an action's weight is the same for all of them."""
        of_parts = weights.unsqueeze(-1).expand(*weights.shape, len(self.sizes))
        return self._flat(self._part.score(self._table(phi, ILLEGAL), actions, of_parts))

    def kl(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        return self._part.kl(self._table(phi_a, ILLEGAL), self._table(phi, ILLEGAL)).sum(-1)

    def kl_gradient(self, phi_a: Tensor, phi: Tensor) -> Tensor:
        return self._flat(self._part.kl_gradient(self._table(phi_a, ILLEGAL), self._table(phi, ILLEGAL)))

    def entropy(self, phi: Tensor) -> Tensor:
        return self._part.entropy(self._table(phi, ILLEGAL)).sum(-1)

    def entropy_gradient(self, phi: Tensor) -> Tensor:
        return self._flat(self._part.entropy_gradient(self._table(phi, ILLEGAL)))

    def pullback(self, phi: Tensor, gradient: Tensor) -> Tensor:
        return self._flat(self._part.pullback(self._table(phi, ILLEGAL), self._table(gradient, 0)))

    def every(self, phi: Tensor) -> Tensor:
        listed = self._listed.to(phi.device).view(self.choices, *[1] * (phi.dim() - 1), -1)
        return listed.expand(-1, *phi.shape[:-1], -1)

    def log_probs(self, phi: Tensor) -> Tensor:
        return phi[..., self._listed + self._starts].sum(-1)

    def probabilities(self, phi: Tensor) -> Tensor:
        return self.log_probs(phi if self.statistic == "logits" else phi.double()).exp()

    def index(self, actions: Tensor) -> Tensor:
        strides = torch.tensor((*self.sizes[1:], 1)).flip(0).cumprod(0).flip(0)
        return (actions * strides.to(actions.device)).sum(-1)
