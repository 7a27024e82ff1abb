"""What works inside an actor-learner's Ray actor: one learner in its own process, or a group of processes."""

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import ray
import torch
from ray.exceptions import RayError

from acer.errors import described
from acer.homes.group import GroupMemory
from acer.homes.processes import TICK, News, Processes
from acer.homes.remote import Remote
from acer.homes.server import cuts
from acer.homes.supervisor import WorkerFailure, WorkerSpec
from acer.homes.wire import Address, Line, Sizes, TcpLine, WireLost
from acer.learner.actor_learner import ActorLearner, ActorState, HomeMaker
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, place

CALL = 1.0  # seconds that one call of a team lasts at least, in whole trajectories
PULL = 0.1  # seconds after which a group that has nothing to send asks what is new
LOST = "a process that held the parameters is gone"


@dataclass(frozen=True)
class Servers:
    """The shards, how they are reached, and what they hold."""

    shards: list[Any]
    addresses: list[Address]
    secret: bytes = field(repr=False)
    numbers: int  # in θ
    averaged: int  # in θ_a
    constants: Constants
    moments: Moments | None  # of what kind they are

    def steps(self) -> int:
        """T."""
        return int(ray.get(self.shards[0].load.remote()).steps)

    def lines(self) -> list[Line]:
        """Connections to all."""
        lines: list[Line] = []
        for address, cut in zip(self.addresses, cuts(self.numbers, len(self.shards)), strict=True):
            averaged = max(0, min(cut.stop, self.averaged) - cut.start)
            moments = 0 if self.moments is None or lines else len(self.moments.pack())
            lines.append(TcpLine(address, self.secret, Sizes(cut.stop - cut.start, averaged, moments)))
        return lines


@dataclass(frozen=True)
class Birth:
    """An actor-learner that is to begin."""

    number: int  # in its team
    member: int  # in the run
    deaths: int  # so far
    part: ActorState | None

    def life(self, steps: int) -> tuple[int, ...]:
        """What tells it from every other one that the run has had."""
        return self.member, steps, self.deaths


class Team(Protocol):
    """The actor-learners of one Ray actor."""

    def start(self, birth: Birth) -> None:
        """Sets one to work."""

    def work(self) -> list[News]:
        """Some trajectories, and deaths; nothing once the run's steps are done."""

    def parts(self) -> list[ActorState | None]:
        """What each holds beside the parameters."""


def failure(error: Exception) -> WorkerFailure:
    """How an actor-learner ended: by its own error, or because a server did not answer."""
    if isinstance(error, RayError | WireLost):
        return WorkerFailure(LOST, described(error))
    return WorkerFailure.by(error)


def team(job: WorkerSpec, servers: Servers) -> Team:
    """The team that the settings ask for."""
    return Group(job, servers) if job.config.processes_per_actor > 1 else Alone(job, servers)


class Alone:
    """One actor-learner. What goes wrong in its environment is told, not raised: its process lives on."""

    def __init__(self, job: WorkerSpec, servers: Servers) -> None:
        self.job, self.servers = job, servers
        self.learner: ActorLearner | None = None
        self._birth: Birth | None = None
        self._death: WorkerFailure | None = None  # not yet told

    def start(self, birth: Birth) -> None:
        self._birth = birth

    def work(self) -> list[News]:
        if self._death is not None:
            death, self._death = self._death, None
            return [(0, death)]
        news: list[News] = []
        try:
            if self._birth is not None:
                birth, self._birth = self._birth, None
                self.learner = self.job.learner(birth.life(self.servers.steps()), self._home(), birth.part)
            assert self.learner is not None
            until = time.monotonic() + CALL
            while self.learner.steps < self.job.config.steps and time.monotonic() < until:
                news.append((0, self.learner.iterate()))
            self.learner.agent.home.flush()  # type: ignore[attr-defined]
        except Exception as error:
            death = failure(error)
            self._end()
            if not news:
                return [(0, death)]
            self._death = death  # after what was done before it
        return news

    def parts(self) -> list[ActorState | None]:
        return [None if self.learner is None else self.learner.state()]

    def _home(self) -> HomeMaker:
        servers, config = self.servers, self.job.config

        def make(network: Network, average: Policy, constants: Constants, moments: Moments | None) -> Remote:
            return Remote(servers.lines(), config, place(network, average), constants, moments)

        return make

    def _end(self) -> None:
        if self.learner is not None:
            with suppress(Exception):
                self.learner.agent.home.flush()  # type: ignore[attr-defined]
            with suppress(Exception):
                self.learner.agent.home.close()  # type: ignore[attr-defined]
            with suppress(Exception):
                self.learner.rollout.env.close()
            self.learner = None


class Group:
    """The leader of processes that share this node's memory: one client of the parameter servers.

    A push carries the mean of as many gradients as there are processes, more while the last push is on its way: a
    larger batch, not more updates.
    """

    def __init__(self, job: WorkerSpec, servers: Servers) -> None:
        count = job.config.processes_per_actor
        self.job, self.servers = job, servers
        self.memory = GroupMemory.of(count, servers.numbers, servers.averaged, servers.moments)
        vectors = self.memory.theta, self.memory.theta_a, torch.zeros(servers.numbers)
        self.remote = Remote(servers.lines(), job.config, vectors, servers.constants, servers.moments)
        self._processes = Processes(job, self.memory, count)
        self._counted = torch.zeros(2, dtype=torch.int64)  # of the processes' counts, what the servers have heard
        self._gathered, self._rates, self._oldest = 0, 0.0, math.inf  # gradients, their rates, their oldest θ
        self._asked = 0.0  # when
        self._spread()

    def start(self, birth: Birth) -> None:
        self._processes.start(birth.number, birth.life(self.remote.steps), birth.part)

    def work(self) -> list[News]:
        news: list[News] = []
        until = time.monotonic() + CALL
        try:
            while time.monotonic() < until and self._processes.running:
                news += self._processes.hear(TICK)
                self.forward()
                if self.remote.steps >= self.job.config.steps:
                    break
            self._count()
            self.remote.flush()
        except (RayError, WireLost) as error:
            return self._lost(news, error)
        return news

    def parts(self) -> list[ActorState | None]:
        parts = self._processes.ask("part", meanwhile=self._forward_if_possible)
        with suppress(WireLost):  # the next work tells of it
            self._hear_observations()
            self._count()
            self.remote.flush()
        return parts

    def forward(self) -> None:
        """Takes what processes have handed over; sends it when there is enough and the last is answered."""
        remote, slots = self.remote, self.memory.gradients
        for number in slots.filled():
            remote.gradient.add_(slots.values[number])
            rate, seen = slots.notes[number].tolist()
            self._rates += rate
            self._oldest = min(self._oldest, seen)
            self._gathered += 1
            slots.empty(number)
        self._hear_observations()
        if not remote.arrived():
            return
        now = time.monotonic()
        if self._gathered >= max(1, self._processes.running):
            self._count()
            lag = remote.updates - int(self._oldest)
            remote.push(remote.gradient.div_(self._gathered), self._rates / self._gathered, lag=lag)
            remote.gradient.zero_()
            self._gathered, self._rates, self._oldest = 0, 0.0, math.inf
            if not self.job.config.overlap:
                remote.pull()
            self._asked = now
        elif now - self._asked >= PULL:
            self._count()
            remote.pull()
            self._asked = now
        self._spread()

    def _hear_observations(self) -> None:
        slots = self.memory.observed
        for number in slots.filled():
            if self.servers.moments is not None:
                self.remote.merge(self.servers.moments.unpack(slots.values[number].numpy()))
            slots.empty(number)

    def _count(self) -> None:
        """Passes on what the processes have counted."""
        total = self.memory.counts.sum(0)
        steps, skipped = (total - self._counted).tolist()
        self._counted = total
        self.remote.count(steps)
        self.remote.skip(skipped)

    def _spread(self) -> None:
        """Lets the processes see what came back."""
        remote, memory = self.remote, self.memory
        if remote.moments is not None:
            memory.moments.copy_(torch.from_numpy(remote.moments.pack()))
        own = self._counted.tolist()
        totals = remote.steps - own[0], remote.skipped - own[1], remote.updates, remote.staleness
        memory.totals.copy_(torch.tensor(totals))

    def _forward_if_possible(self) -> None:
        with suppress(WireLost):  # the next work tells of it
            self.forward()

    def _lost(self, news: list[News], error: Exception) -> list[News]:
        self._processes.kill()
        self.remote.close()
        return [*news, *((number, failure(error)) for number in range(self.job.config.processes_per_actor))]
