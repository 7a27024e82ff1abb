"""Processes of one node that are one client of the parameter servers: the memory that they share with their leader.

Each process leaves its clipped gradients in a slot of its own, and goes on as soon as the leader has taken them out.
The leader sends the mean of as many gradients as there are processes, and writes what comes back where all read it.
Every cell has one writer, and a process can be killed at any moment: there is no lock that it could keep.
"""

import multiprocessing
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor

from acer.homes.processes import TICK
from acer.learner.actor_learner import HomeMaker
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, place


@dataclass(frozen=True)
class Slots:
    """One place for each process. It fills its own when that is empty; the leader empties those that are full."""

    values: Tensor  # [processes, n]
    notes: Tensor  # [processes, 2] that go with the values
    full: Tensor  # [processes]

    @classmethod
    def of(cls, processes: int, numbers: int, dtype: torch.dtype) -> Self:
        return cls(
            _shared(processes, numbers, dtype=dtype),
            _shared(processes, 2, dtype=torch.float64),
            _shared(processes, dtype=torch.int64),
        )

    def is_full(self, number: int) -> bool:
        return bool(self.full[number])

    def fill(self, number: int, values: Tensor, *notes: float) -> None:
        self.values[number].copy_(values)
        self.notes[number, : len(notes)] = torch.tensor(notes, dtype=torch.float64)
        self.full[number] = 1

    def filled(self) -> list[int]:
        """Numbers of the processes whose slots are full."""
        return [int(number) for number in self.full.nonzero()[:, 0]]

    def empty(self, number: int) -> None:
        self.full[number] = 0


@dataclass(frozen=True)
class GroupMemory:
    """What a group's processes and their leader share."""

    theta: Tensor  # written by the leader, like θ_a, moments and totals
    theta_a: Tensor
    moments: Tensor  # [1 + 2 n], packed; empty if there are none
    totals: Tensor  # steps and left-out updates of all others, updates in θ, staleness of the last push
    counts: Tensor  # [processes, 2]: steps and left-out updates of each, written by it
    gradients: Slots  # with the learning rate, and the updates in the θ that they were computed from
    observed: Slots  # packed moments of new observations

    @classmethod
    def of(cls, processes: int, numbers: int, averaged: int, moments: Moments | None) -> Self:
        size = 0 if moments is None else len(moments.pack())
        return cls(
            _shared(numbers),
            _shared(averaged),
            _shared(size, dtype=torch.float64),
            _shared(4, dtype=torch.int64),
            _shared(processes, 2, dtype=torch.int64),
            Slots.of(processes, numbers, torch.float32),
            Slots.of(processes, size, torch.float64),
        )

    def home(self, number: int) -> HomeMaker:
        """Makes the home of a process."""
        return partial(Member, self, number)


def _shared(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.zeros(*shape, dtype=dtype).share_memory_()  # type: ignore[no-untyped-call,no-any-return]


class Member:
    """The home of one process of a group."""

    def __init__(
        self,
        memory: GroupMemory,
        number: int,
        network: Network,
        average: Policy,
        constants: Constants,
        moments: Moments | None,
    ) -> None:
        self.memory, self.number, self.moments = memory, number, moments
        self.theta, self.theta_a, self.gradient = place(network, average)
        self._unheard = None if moments is None else Moments(moments.mean.shape)
        self._seen = self.staleness = 0  # updates in θ; those that the group's last push lacked
        memory.gradients.empty(number)  # of a process that had this number and died
        memory.observed.empty(number)
        self.pull()

    @property
    def steps(self) -> int:
        return int(self.memory.totals[0] + self.memory.counts[:, 0].sum())

    @property
    def skipped(self) -> int:
        return int(self.memory.totals[1] + self.memory.counts[:, 1].sum())

    def count(self, steps: int) -> None:
        self.memory.counts[self.number, 0] += steps

    def skip(self) -> None:
        self.memory.counts[self.number, 1] += 1

    def observe(self, values: NDArray[Any]) -> None:
        if self.moments is None or self._unheard is None:
            return
        self._unheard.add(values)
        if self._unheard.count and not self.memory.observed.is_full(self.number):
            self.memory.observed.fill(self.number, torch.from_numpy(self._unheard.pack()))
            self._unheard = Moments(self.moments.mean.shape)

    def pull(self) -> None:
        self._seen = int(self.memory.totals[2])
        self.theta.copy_(self.memory.theta)
        self.theta_a.copy_(self.memory.theta_a)
        self.staleness = int(self.memory.totals[3])
        if self.moments is not None:
            self.moments = self.moments.unpack(self.memory.moments.numpy())

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0) -> None:
        slots = self.memory.gradients
        looks = 0
        while slots.is_full(self.number):
            looks += 1
            if looks % 100 == 0 and not _has_leader():
                raise ConnectionError("the group's leader is gone")
            time.sleep(TICK)
        slots.fill(self.number, gradient * factor, rate, self._seen)


def _has_leader() -> bool:
    leader = multiprocessing.parent_process()
    return leader is not None and leader.is_alive()
