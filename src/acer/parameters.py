"""Homes of the parameters: where θ, θ_a and the optimiser's statistics live.

Each is one flat vector. A network's parameters are views into such a vector, so that a home can copy, share or send
it whole, and the optimiser is a handful of vector operations. The algorithm sees `pull` and `push` and does not know
which home it has. What is counted and averaged over all actor-learners lives there too: the steps T, and the running
normalisation of observations.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acer import optimizer
from acer.networks import Network, Policy
from acer.normalizer import Moments


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


@dataclass(frozen=True)
class Constants:
    """What a home has to know to update its parameters."""

    alpha: float  # of the average network
    decay: float  # β and ε of RMSProp
    epsilon: float


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


class Local:
    """One process: the network's parameters *are* θ, so nothing has to be pulled."""

    def __init__(
        self,
        network: Network,
        average: Policy,
        constants: Constants,
        start: float = 0.0,
        moments: Moments | None = None,
    ) -> None:
        """start: what RMSProp's mean of squares begins with."""
        self.constants, self.moments = constants, moments
        self.theta, self.theta_a, self.gradient = place(network, average)
        self.square = torch.full_like(self.theta, start)
        self.steps = 0
        self.skipped = 0  # updates
        self.staleness = 0

    def count(self, steps: int) -> None:
        self.steps += steps

    def skip(self) -> None:
        self.skipped += 1

    def observe(self, values: NDArray[Any]) -> None:
        if self.moments is not None:
            self.moments.add(values)

    def pull(self) -> None:
        pass

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0) -> None:
        descend(self.theta, self.theta_a, self.square, gradient, rate, self.constants, factor)


def place(network: Network, average: Policy) -> tuple[Tensor, Tensor, Tensor]:
    """Vectors θ, θ_a and dθ for a process's networks, whose parameters become views of them; θ_a begins as θ."""
    theta = flatten(network)
    theta_a = theta[: sum(p.numel() for p in network.policy.parameters())].clone()
    gradient = torch.zeros_like(theta)
    attach(network, theta, gradient)
    attach(average, theta_a)
    return theta, theta_a, gradient


def descend(
    theta: Tensor,
    theta_a: Tensor,
    square: Tensor,
    gradient: Tensor,
    rate: float,
    constants: Constants,
    factor: float = 1.0,
) -> None:
    """One update in place, the same in every home."""
    optimizer.rmsprop(theta, square, gradient, rate, constants.decay, constants.epsilon, factor)
    optimizer.average(theta_a, theta[: len(theta_a)], constants.alpha)


@dataclass(frozen=True)
class Memory:
    """Shared memory of a run's processes: θ, θ_a and the mean of squares, which all write without locks, and a row for
    each actor-learner that it alone writes. A process can be killed at any moment: there is no lock that it could
    keep."""

    theta: Tensor
    theta_a: Tensor
    square: Tensor
    counts: Tensor  # [actors, 3]: steps, updates, and updates left out, of each
    moments: Tensor | None  # [actors, 1 + 2 n]: count, mean and variance of what each observed

    @classmethod
    def of(cls, home: Local, actors: int) -> Self:
        """Shared copies of what a home holds; its steps and its moments so far are the first actor's."""
        counts = torch.zeros(actors, 3, dtype=torch.int64)
        counts[0, 0], counts[0, 2] = home.steps, home.skipped
        moments = None
        if home.moments is not None:
            first = torch.from_numpy(home.moments.pack())
            moments = torch.zeros(actors, len(first), dtype=torch.float64)
            moments[0] = first
            moments.share_memory_()  # type: ignore[no-untyped-call]
        memory = cls(home.theta.clone(), home.theta_a.clone(), home.square.clone(), counts, moments)
        for tensor in (memory.theta, memory.theta_a, memory.square, counts):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        return memory

    @property
    def steps(self) -> int:
        """T."""
        return int(self.counts[:, 0].sum())

    @property
    def skipped(self) -> int:
        """Updates that were left out."""
        return int(self.counts[:, 2].sum())

    def fetch_counts(self, home: Local) -> None:
        """Copies what all actor-learners have counted."""
        home.steps, home.skipped = self.steps, self.skipped

    def fetch(self, home: Local) -> None:
        """Copies everything into a home of the calling process."""
        for mine, shared in ((home.theta, self.theta), (home.theta_a, self.theta_a), (home.square, self.square)):
            mine.copy_(shared)
        self.fetch_counts(home)
        if home.moments is not None:
            home.moments = self.moments_of_all(home.moments)

    def moments_of_all(self, like: Moments) -> Moments:
        """What all actor-learners observed together."""
        assert self.moments is not None
        rows = [row for row in self.moments.numpy() if row[0]]
        whole = like.unpack(rows[0] if rows else self.moments[0].numpy())
        for row in rows[1:]:
            other = like.unpack(row)
            whole.merge(other.count, other.mean, other.variance)
        return whole


class Shared:
    """One of many processes: its networks read a copy of θ and θ_a, its updates go to the shared ones."""

    def __init__(
        self,
        memory: Memory,
        actor: int,
        network: Network,
        average: Policy,
        constants: Constants,
        moments: Moments | None,
    ) -> None:
        self.constants, self.memory, self.actor = constants, memory, actor
        self.theta, self.theta_a, self.gradient = place(network, average)
        self.moments = None if moments is None else memory.moments_of_all(moments)
        self.staleness = 0
        self._updates = 0  # of all, at the last pull
        self.pull()

    @property
    def steps(self) -> int:
        return self.memory.steps

    @property
    def skipped(self) -> int:
        return self.memory.skipped

    def count(self, steps: int) -> None:
        self.memory.counts[self.actor, 0] += steps

    def skip(self) -> None:
        self.memory.counts[self.actor, 2] += 1

    def observe(self, values: NDArray[Any]) -> None:
        if self.moments is not None and self.memory.moments is not None:
            row = self.memory.moments[self.actor]
            own = self.moments.unpack(row.numpy())
            own.add(values)
            row.copy_(torch.from_numpy(own.pack()))
            self.moments = self.memory.moments_of_all(self.moments)

    def pull(self) -> None:
        self.theta.copy_(self.memory.theta)
        self.theta_a.copy_(self.memory.theta_a)
        self._updates = int(self.memory.counts[:, 1].sum())

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0) -> None:
        memory = self.memory
        descend(memory.theta, memory.theta_a, memory.square, gradient, rate, self.constants, factor)
        self.staleness = int(memory.counts[:, 1].sum()) - self._updates
        memory.counts[self.actor, 1] += 1
