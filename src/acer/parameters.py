"""Homes of the parameters: where θ, θ_a and the optimiser's statistics live.

Each is one flat vector. A network's parameters are views into such a vector, so that a home can copy, share or send
it whole, and the optimiser is a handful of vector operations. The algorithm sees `pull` and `push` and does not know
which home it has.
"""

from typing import Protocol

import torch
from torch import Tensor, nn

from acer import optimizer
from acer.networks import Network, Policy


def flatten(module: nn.Module) -> Tensor:
    """Copies the module's parameters into one vector."""
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def views(module: nn.Module, vector: Tensor) -> dict[str, Tensor]:
    """A flat vector in the shapes and under the names of the module's parameters."""
    parts = torch.split(vector, [p.numel() for p in module.parameters()])
    return {name: part.view_as(p) for (name, p), part in zip(module.named_parameters(), parts, strict=True)}


def attach(module: nn.Module, vector: Tensor, gradient: Tensor | None = None) -> None:
    """Makes the module's parameters views of `vector`, and their gradients of `gradient`; without one it is frozen."""
    gradients = {} if gradient is None else views(module, gradient)
    for (name, p), view in zip(module.named_parameters(), views(module, vector).values(), strict=True):
        p.data = view
        p.requires_grad_(gradient is not None)
        p.grad = gradients.get(name)


class Home(Protocol):
    """What an actor-learner asks of the place where the parameters live."""

    theta: Tensor
    theta_a: Tensor
    square: Tensor  # RMSProp's mean of squares
    gradient: Tensor  # dθ of this actor-learner

    def pull(self) -> None:
        """θ' ← θ, and θ_a likewise."""

    def push(self, gradient: Tensor, rate: float) -> None:
        """Update θ with dθ, then θ_a ← α θ_a + (1 − α) θ."""


class Local:
    """One process: the network's parameters *are* θ, so nothing has to be pulled."""

    def __init__(
        self, network: Network, average: Policy, alpha: float, decay: float, epsilon: float, start: float
    ) -> None:
        self.alpha, self.decay, self.epsilon = alpha, decay, epsilon
        policy_size = sum(p.numel() for p in network.policy.parameters())
        self.theta = flatten(network)
        self.gradient = torch.zeros_like(self.theta)
        self.square = torch.full_like(self.theta, start)
        self.theta_a = self.theta[:policy_size].clone()
        attach(network, self.theta, self.gradient)
        attach(average, self.theta_a)

    def pull(self) -> None:
        pass

    def push(self, gradient: Tensor, rate: float) -> None:
        optimizer.rmsprop(self.theta, self.square, gradient, rate, self.decay, self.epsilon)
        optimizer.average(self.theta_a, self.theta[: len(self.theta_a)], self.alpha)
