"""The policy's distribution f(·|φ): all that depends on which f it is.

A distribution is a value without state. The network's *output* becomes the *statistics* φ that are stored with a
trajectory; `score`, `kl_gradient` and `entropy_gradient` are gradients with respect to φ, and `pullback` carries such
a gradient from φ to the network's output, where back-propagation takes over. Every distribution answers to the names
of `Distribution`; one whose actions can be listed also to those of `Finite`. `categorical` and `gaussian` hold them.

Noise is an argument everywhere: who samples owns the random stream.
"""

from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


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

    @property
    def inputs(self) -> int:
        """Numbers by which a critic knows an action."""

    def statistics(self, output: Tensor, masks: Tensor | None = None) -> Tensor:
        """Network output […, n] to what a trajectory stores […, n]. masks: which choices are legal […, n]."""

    def noise(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Tensor:
        """Standard noise for one action at each place of `shape`."""

    def sample(self, phi: Tensor, noise: Tensor) -> Tensor:
        """One action from φ and noise."""

    def mode(self, phi: Tensor) -> Tensor:
        """The most probable action."""

    def applied(self, actions: NDArray[Any]) -> NDArray[Any]:
        """What the environment gets for actions."""

    def encode(self, actions: Tensor) -> Tensor:
        """Actions as a critic reads them […, inputs]."""

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
