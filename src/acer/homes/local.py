"""The home of one process: the network's parameters *are* θ."""

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from acer.homes.supervisor import WorkerStatus
from acer.learner.actor_learner import ActorLearner, ActorState, Report
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, descend, place


class Local:
    """One process: the network's parameters *are* θ, so nothing has to be pulled."""

    def __init__(
        self,
        network: Network,
        average: Policy,
        constants: Constants,
        moments: Moments | None = None,
        start: float = 0.0,
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


class InProcess:
    """The actor-learner of this process."""

    members: Sequence["WorkerStatus"] = ()
    note = ""

    def __init__(self, learner: ActorLearner) -> None:
        self.learner = learner

    def start(self, states: Sequence[ActorState | None]) -> None:
        pass

    def wait(self) -> list[Report]:
        return [self.learner.iterate()]

    def fetch(self) -> None:
        pass

    def states(self) -> list[ActorState | None]:
        return [self.learner.state()]

    def stop(self) -> list[Report]:
        return []

    def kill(self) -> None:
        pass
