"""Parameters as flat vectors: θ, θ_a, dθ, and what an actor-learner asks of the home where they live.

A network's parameters are views into one vector. A home can copy, share or send that vector whole, and the optimiser
is a handful of vector operations. The actor-learner sees `pull` and `push`; it does not know which home it has. The
home also keeps what is counted and averaged over all actor-learners: the steps T, and the running normalisation of
observations.
"""

import copy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acer.errors import CheckpointError
from acer.learner import optimizer
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments


def flatten(module: nn.Module) -> Tensor:
    """Copies the module's parameters into one vector."""
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def views(module: nn.Module, vector: Tensor) -> dict[str, Tensor]:
    """A flat vector in the shapes and under the names of the module's parameters."""
    parts = torch.split(vector, [p.numel() for p in module.parameters()])
    return {name: part.view_as(p) for (name, p), part in zip(module.named_parameters(), parts, strict=True)}


def attach(module: nn.Module, vector: Tensor, gradient: Tensor | None = None) -> None:
    """Makes the module's parameters views of `vector`, and their gradients of `gradient`; without one it is frozen.
    What is frozen already stays so."""
    gradients = {} if gradient is None else views(module, gradient)
    for (name, p), view in zip(module.named_parameters(), views(module, vector).values(), strict=True):
        p.data = view
        p.requires_grad_(gradient is not None and p.requires_grad)
        p.grad = gradients.get(name)


@dataclass(frozen=True)
class Constants:
    """What a home has to know to update its parameters."""

    alpha: float  # of the average network
    decay: float  # β and ε of RMSProp
    epsilon: float
    one_pass: bool = False  # over the vectors, instead of one for each operation: the same but for rounding
    policy_rate: float = 1.0  # factor on the policy's learning rate


class Home(Protocol):
    """What an actor-learner asks of the place where the parameters live."""

    gradient: Tensor  # dθ of this actor-learner
    moments: Moments | None  # running normalisation of observations
    staleness: int  # updates between the pull that the last push was computed from and that push

    @property
    def steps(self) -> int:
        """T, the steps of all actor-learners."""

    @property
    def skipped(self) -> int:
        """Updates of all actor-learners that were left out."""

    def count(self, steps: int) -> None:
        """T ← T + steps."""

    def skip(self) -> None:
        """Counts an update that is left out because its gradient is not finite."""

    def observe(self, values: NDArray[Any]) -> None:
        """Takes observations [N, …] into the running normalisation."""

    def pull(self) -> None:
        """θ' ← θ, and θ_a likewise."""

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0) -> None:
        """Update θ with dθ times a factor, then θ_a ← α θ_a + (1 − α) θ."""


def place(network: Network, average: Policy) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors θ, θ_a and dθ for a process's networks, whose parameters become views of them; θ_a begins as θ."""
    theta = flatten(network)
    theta_a = theta[: sum(p.numel() for p in network.policy.parameters())].clone()
    gradient = torch.zeros_like(theta)
    attach(network, theta, gradient)
    attach(average, theta_a)
    return theta, theta_a, gradient


class SlowCopy:
    """A network that follows θ': after each update a small share of the way. Returns bootstrap from its critic."""

    def __init__(self, network: Network, rate: float) -> None:
        """rate: that share, τ."""
        self.rate = rate
        self.followed = network
        self.network = copy.deepcopy(network)
        self.theta = flatten(self.network)
        attach(self.network, self.theta)

    def follow(self) -> None:
        """θ_slow ← θ_slow + τ (θ' − θ_slow)."""
        self.theta.lerp_(flatten(self.followed), self.rate)

    def state(self) -> NDArray[np.float32]:
        copied: NDArray[np.float32] = self.theta.cpu().numpy().copy()
        return copied

    def restore(self, state: NDArray[np.float32]) -> None:
        """Takes over what `state` gave, if it fits."""
        if state.shape != tuple(self.theta.shape) or state.dtype != np.float32 or not np.isfinite(state).all():
            raise CheckpointError("the slow copy of the network is not one of this network")
        self.theta.copy_(torch.from_numpy(state))


def descend(
    theta: Tensor,
    theta_a: Tensor,
    square: Tensor,
    gradient: Tensor,
    rate: float,
    constants: Constants,
    factor: float = 1.0,
) -> None:
    """One update in place, the same in every home. The gradient may be of bfloat16."""
    if constants.policy_rate != 1:  # the policy's parameters, which come first, then the others
        for part, own in ((slice(len(theta_a)), constants.policy_rate), (slice(len(theta_a), None), 1.0)):
            vectors = theta[part], theta_a[part], square[part], gradient[part]
            descend(*vectors, rate * own, replace(constants, policy_rate=1.0), factor)
    elif constants.one_pass:
        optimizer.in_one_pass(
            theta, theta_a, square, gradient, rate, constants.decay, constants.epsilon, constants.alpha, factor
        )
    else:
        optimizer.rmsprop(theta, square, gradient.to(theta.dtype), rate, constants.decay, constants.epsilon, factor)
        optimizer.average(theta_a, theta[: len(theta_a)], constants.alpha)
