"""The home of many processes on one machine: shared memory, written without locks."""

from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acer.config import Config
from acer.envs.others import EnvMaker
from acer.homes.local import Local
from acer.homes.processes import News, Processes
from acer.homes.supervisor import Supervisor, WorkerSpec, packed
from acer.learner.actor_learner import ActorState, HomeMaker, Report
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, descend, place


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

    def home(self, number: int) -> HomeMaker:
        """Makes the home of an actor-learner."""
        return partial(Shared, self, number)

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


class WorkerProcesses(Supervisor):
    """Actor-learners in processes of this machine."""

    def __init__(self, config: Config, env: str | EnvMaker, home: Local, seeds: np.random.SeedSequence) -> None:
        super().__init__(config)
        self.home = home
        self.memory = Memory.of(home, len(self.members))
        job = WorkerSpec(config, packed(env), seeds.entropy, tuple(seeds.spawn_key))
        self._processes = Processes(job, self.memory, len(self.members))
        self._states: list[ActorState | None] = [None] * len(self.members)

    def fetch(self) -> None:
        self.memory.fetch(self.home)

    def states(self) -> list[ActorState | None]:
        if self._processes.running:
            self._states = self._processes.ask("part")
        return self._states

    def stop(self) -> list[Report]:
        self._states = self._processes.ask("stop")
        self.kill()
        for actor, news in self._processes.hear(0):
            if isinstance(news, Report):
                self._record(actor, news)
        return self._drain()

    def kill(self) -> None:
        self._processes.kill()

    def _start(self, actor: int, part: ActorState | None) -> None:
        self._processes.start(actor, (actor, self.memory.steps, self.members[actor].restarts), part)

    def _poll(self, seconds: float) -> list[News]:
        news = self._processes.hear(seconds)
        self.memory.fetch_counts(self.home)
        return news
