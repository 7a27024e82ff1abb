"""A parameter server on Ray: a shard of θ, θ_a and the optimiser's mean of squares, and what it publishes of them.

A push is answered by a few counters. Parameters are published: written to Ray's object store once for all
actor-learners, at most every so often. An answer only names the newest version, and only to those who lack it; every
node fetches it once. θ_a and the running normalisation are published less often than θ: between two versions of θ_a
an actor-learner follows it by itself (see `remote`). What is small travels within the answer.
"""

import itertools
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.exceptions import ReferenceCountingAssertionError
from torch import Tensor

from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, descend

INLINE = 80_000  # bytes of arrays that Ray sends within an answer rather than through its store
KEPT = 4  # versions of each kind in the store
SLOWER = 10  # intervals of θ's versions in one of θ_a's and the normalisation's

Array = NDArray[Any]


@dataclass(frozen=True)
class Part:
    """What a shard holds. Counts and moments are the first shard's business."""

    theta: Array
    theta_a: Array  # of the numbers in `theta` that are the policy's; empty if none
    square: Array
    steps: int = 0  # T
    skipped: int = 0  # updates left out
    moments: Moments | None = None


@dataclass(frozen=True)
class Version:
    """Something published."""

    number: int
    updates: int  # that it holds
    value: Any  # or its reference in Ray's store

    def fetch(self) -> Any:
        """What was published, from this node's store if somebody here has fetched it before; none if it is outdated and
        Ray has dropped it, which happens to those who come late."""
        try:
            return ray.get(self.value) if isinstance(self.value, ray.ObjectRef) else self.value
        except ReferenceCountingAssertionError:
            return None


@dataclass(frozen=True)
class Answer:
    """What a shard tells an actor-learner."""

    steps: int
    skipped: int
    staleness: int  # updates between the parameters that a pushed gradient was computed from and its arrival
    theta: Version | None  # what the caller does not have yet
    average: Version | None  # θ_a, and the packed moments or none


@dataclass(frozen=True)
class Load:
    """A shard's counters since it began."""

    steps: int  # T
    updates: int
    busy: float  # seconds of processor time, those of Ray's threads in its process too
    clock: float


class Publication:
    """The newest version of something that changes; a newer one is made at most every `interval` seconds."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._kept: deque[Version] = deque(maxlen=KEPT)  # the newest, and those that answers on their way may name
        self._changes = -1
        self._due = 0.0

    def newer(self, than: int, value: Callable[[], Any], updates: int, changes: int, at_once: bool) -> Version | None:
        """The newest version, if its number is above `than`. changes: how often the value has changed so far."""
        if changes != self._changes and (at_once or time.monotonic() >= self._due):
            self._kept.append(Version(self._kept[-1].number + 1 if self._kept else 0, updates, value()))
            self._changes, self._due = changes, time.monotonic() + self._interval
        return self._kept[-1] if self._kept[-1].number > than else None


class Shard:
    """One parameter server."""

    def __init__(self, part: Part, constants: Constants, interval: float) -> None:
        """interval: seconds between two versions of θ at least."""
        torch.set_num_threads(1)
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")  # gradients are only read
        self.theta, self.theta_a, self.square = (
            torch.from_numpy(array.copy()) for array in (part.theta, part.theta_a, part.square)
        )
        self.steps, self.skipped, self.moments = part.steps, part.skipped, part.moments
        self.constants = constants
        self.updates = 0
        self._observed = 0  # changes of the moments
        size = 4 * (len(part.theta) + len(part.theta_a)) + (0 if part.moments is None else part.moments.pack().nbytes)
        self._inline = size <= INLINE
        self._theta, self._average = Publication(interval), Publication(SLOWER * interval)

    def push(
        self, gradient: Array, rate: float, factor: float, seen: int, counts: tuple[int, int], has: tuple[int, int]
    ) -> Answer:
        """One update. seen: updates in the parameters that the gradient was computed from; counts: steps made and
        updates left out since the caller's last call; has: numbers of the versions that it has."""
        staleness = self.updates - seen
        descend(self.theta, self.theta_a, self.square, unpacked(gradient), rate, self.constants, factor)
        self.updates += 1
        return self.pull(counts, has, staleness=staleness)

    def pull(
        self, counts: tuple[int, int] = (0, 0), has: tuple[int, int] = (-1, -1), fresh: bool = False, staleness: int = 0
    ) -> Answer:
        """What is new. fresh: as of this moment, not as last published."""
        self.count(*counts)
        at_once = fresh or self._inline
        theta = self._theta.newer(has[0], lambda: self._stored(self.theta.numpy()), self.updates, self.updates, at_once)
        changes = self.updates + self._observed
        average = self._average.newer(has[1], self._packed_average, self.updates, changes, at_once)
        return Answer(self.steps, self.skipped, staleness, theta, average)

    def count(self, steps: int, skipped: int) -> None:
        self.steps += steps
        self.skipped += skipped

    def observe(self, count: float, mean: Array, variance: Array) -> Array:
        """Takes new observations into the running normalisation, which it returns."""
        assert self.moments is not None
        self.moments.merge(count, mean, variance)
        self._observed += 1
        return self.moments.pack()

    def whole(self) -> Part:
        """Everything there is, for the run."""
        arrays = self.theta.numpy(), self.theta_a.numpy(), self.square.numpy()
        return Part(*arrays, self.steps, self.skipped, self.moments)

    def load(self) -> Load:
        return Load(self.steps, self.updates, time.process_time(), time.monotonic())

    def _packed_average(self) -> Any:
        return self._stored((self.theta_a.numpy(), None if self.moments is None else self.moments.pack()))

    def _stored(self, value: Any) -> Any:
        return value if self._inline else ray.put(value)


def cuts(count: int, shards: int) -> list[slice]:
    """How a vector of `count` numbers is cut over shards."""
    edges = np.linspace(0, count, shards + 1).astype(int).tolist()
    return [slice(start, stop) for start, stop in itertools.pairwise(edges)]


def packed(gradient: Tensor, precision: str, error: Tensor) -> Array:
    """A gradient for its way. In bfloat16, what rounding takes away is kept in `error` and sent with the next one."""
    if precision == "float32":
        return gradient.numpy()
    error += gradient
    rounded = error.bfloat16()
    error -= rounded
    return rounded.view(torch.int16).numpy()


def unpacked(array: Array) -> Tensor:
    """A gradient as it was sent."""
    tensor = torch.from_numpy(array)
    return tensor if array.dtype == np.float32 else tensor.view(torch.bfloat16).float()
