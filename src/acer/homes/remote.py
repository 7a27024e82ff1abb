"""The home of an actor-learner on Ray: a copy of θ and θ_a that follows the parameter servers'."""

from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from torch import Tensor

from acer.config import Config
from acer.homes.server import Answer, Part, cuts, packed
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants

Array = NDArray[Any]


class Remote:
    """An actor-learner's way to the shards.

    With overlap, a push is not waited for: what its answer brings is taken by the pull after the next, and parameters
    lack the updates that are not yet published, the last one of its own among them. Without, each push is waited for
    and each pull brings what there is at that moment. What is counted travels with the next call.
    """

    def __init__(
        self,
        shards: list[Any],
        config: Config,
        vectors: tuple[Tensor, Tensor, Tensor],
        constants: Constants,
        moments: Moments | None,
    ) -> None:
        """vectors: θ, θ_a and dθ of this process's networks."""
        self.moments, self.constants = moments, constants
        self.theta, self.theta_a, self.gradient = vectors
        self.staleness = 0
        self.steps = self.skipped = 0
        self._shards, self._overlap, self._precision = shards, config.overlap, config.gradient_precision
        self._cuts = cuts(len(self.theta), len(shards))
        self._has = [(-1, -1)] * len(shards)  # numbers of the versions of θ and θ_a that were taken from each
        self._updates = [0] * len(shards)  # of each shard in θ
        self._averaged = [0] * len(shards)  # and in θ_a
        self._flying: deque[list[Any]] = deque()  # calls whose answers have not been taken, each to all shards
        self._fresh = 0  # of them, those made since the last pull
        self._uncounted = (0, 0)  # steps, and updates left out, that the first shard has not heard of
        self._error = torch.zeros_like(self.theta if self._precision != "float32" else self.theta[:0])
        self._refresh()

    def count(self, steps: int) -> None:
        self.steps += steps
        self._uncounted = (self._uncounted[0] + steps, self._uncounted[1])

    def skip(self, updates: int = 1) -> None:
        self.skipped += updates
        self._uncounted = (self._uncounted[0], self._uncounted[1] + updates)

    def flush(self) -> None:
        """Tells the first shard what it has not heard of."""
        if any(self._uncounted):
            ray.get(self._shards[0].count.remote(*self._counts()))

    def observe(self, values: Array) -> None:
        if self.moments is not None and len(values):
            new = Moments(self.moments.mean.shape)
            new.add(values)
            self.merge(new)

    def merge(self, new: Moments) -> None:
        """Takes moments of observations that nobody has heard of into the running normalisation."""
        answer = self._shards[0].observe.remote(new.count, new.mean, new.variance)
        if not self._overlap and self.moments is not None:
            self.moments = self.moments.unpack(ray.get(answer))

    def pull(self) -> None:
        if not self._overlap:
            self._refresh()
            return
        if not self._flying:
            self._flying.append(self._ask())
            return
        while len(self._flying) > self._fresh:
            self._take(self._flying.popleft())
        self._fresh = 0

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0, lag: int = 0) -> None:
        """lag: updates in θ that the gradient was computed without."""
        if self._precision != "float32":
            gradient, factor = gradient * factor, 1.0
        wire = packed(gradient, self._precision, self._error)
        counts = self._counts()
        flight = []
        for shard, cut, seen, has in zip(self._shards, self._cuts, self._updates, self._has, strict=True):
            flight.append(shard.push.remote(wire[cut], rate, factor, seen - lag, counts, has))
            counts = (0, 0)
        if self._overlap:
            self._flying.append(flight)
            self._fresh = 1
        else:
            self.staleness = ray.get(flight)[0].staleness

    @property
    def updates(self) -> int:
        """Those that θ holds, as the first shard counts them."""
        return self._updates[0]

    def arrived(self) -> bool:
        """Whether every call has been answered; what the answers bring is taken."""
        while self._flying:
            if len(ray.wait(self._flying[0], num_returns=len(self._shards), timeout=0)[0]) < len(self._shards):
                return False
            self._take(self._flying.popleft())
        self._fresh = 0
        return True

    def _refresh(self) -> None:
        """Takes the newest there is."""
        while not self._take(self._ask(fresh=True)):
            pass

    def _ask(self, fresh: bool = False) -> list[Any]:
        counts = [self._counts()] + [(0, 0)] * (len(self._shards) - 1)
        return [
            shard.pull.remote(part, has, fresh)
            for shard, part, has in zip(self._shards, counts, self._has, strict=True)
        ]

    def _counts(self) -> tuple[int, int]:
        counts, self._uncounted = self._uncounted, (0, 0)
        return counts

    def _take(self, flight: list[Any]) -> bool:
        """Whether everything that the answers name was still there; if not, the next ones name what is newer."""
        answers: list[Answer] = ray.get(flight)
        there = [self._read(shard, answer) for shard, answer in enumerate(answers)]
        first = answers[0]
        self.steps, self.skipped = first.steps + self._uncounted[0], first.skipped + self._uncounted[1]
        self.staleness = first.staleness
        return all(there)

    def _read(self, shard: int, answer: Answer) -> bool:
        """Copies what is new; whether it was still there.

        θ_a that lacks updates of this θ follows it: θ_a ← α^k θ_a + (1 − α^k) θ."""
        cut, whole = self._cuts[shard], True
        theta, theta_a = self.theta[cut], self.theta_a[cut]
        number, average = self._has[shard]
        if answer.theta is not None and answer.theta.number > number:
            values = answer.theta.fetch()
            whole = values is not None
            if whole:
                theta.numpy()[:] = values
                number, self._updates[shard] = answer.theta.number, answer.theta.updates
        if answer.average is not None and answer.average.number > average:
            pair = answer.average.fetch()
            whole &= pair is not None
            if pair is not None:
                theta_a.numpy()[:] = pair[0]
                average, self._averaged[shard] = answer.average.number, answer.average.updates
                if self.moments is not None and pair[1] is not None:
                    self.moments = self.moments.unpack(pair[1])
        behind = self._updates[shard] - self._averaged[shard]
        if behind > 0:
            theta_a.lerp_(theta[: len(theta_a)], 1 - self.constants.alpha**behind)
            self._averaged[shard] = self._updates[shard]
        self._has[shard] = number, average
        return whole


def parts(whole: Part, shards: int) -> list[Part]:
    """What each shard begins with."""
    of = [Part(whole.theta[cut], whole.theta_a[cut], whole.square[cut]) for cut in cuts(len(whole.theta), shards)]
    of[0] = replace(of[0], steps=whole.steps, skipped=whole.skipped, moments=whole.moments)
    return of


def joined(parts: list[Part]) -> Part:
    """What all shards hold."""
    theta, theta_a, square = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("theta", "theta_a", "square")
    )
    return Part(theta, theta_a, square, parts[0].steps, parts[0].skipped, parts[0].moments)
