"""The home of an actor-learner on Ray: a copy of θ and θ_a that follows the parameter servers'."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acer.config import Config
from acer.homes.server import SMALL, Part, cuts, packed
from acer.homes.wire import COUNTERS, DUE, MOMENTS, NEW, Answer, Line, Request
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants

Array = NDArray[Any]
Flight = Future[list[Answer]]  # a request to all shards, or to the first ones, that a thread sends and hears


class Remote:
    """An actor-learner's way to the shards.

    With overlap, a push is not waited for: what its answer brings is taken by the pull after the next, and parameters
    lack the updates that came since the last version, the last one of its own among them. Without, each push is waited
    for and each pull brings what there is at that moment. What is counted travels with the next request.
    """

    def __init__(
        self,
        lines: Sequence[Line],
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
        self._lines, self._overlap, self._precision = lines, config.overlap, config.gradient_precision
        self._cuts = cuts(len(self.theta), len(lines))
        self._updates = [0] * len(lines)  # of each shard in θ
        self._averaged = [0] * len(lines)  # and in θ_a
        self._sender = ThreadPoolExecutor(1)
        self._flying: deque[Flight] = deque()  # whose answers have not been taken
        self._fresh = 0  # of them, those made since the last pull
        self._uncounted = (0, 0)  # steps, and updates left out, that the first shard has not heard of
        self._unheard = None if moments is None else Moments(moments.mean.shape)  # of observations, likewise
        self._error = torch.zeros_like(self.theta if self._precision != "float32" else self.theta[:0])
        self._refresh()

    def count(self, steps: int) -> None:
        self.steps += steps
        self._uncounted = (self._uncounted[0] + steps, self._uncounted[1])

    def skip(self, updates: int = 1) -> None:
        self.skipped += updates
        self._uncounted = (self._uncounted[0], self._uncounted[1] + updates)

    def flush(self) -> None:
        """Tells the first shard what it has not heard of, and waits until it has."""
        if any(self._uncounted) or (self._unheard is not None and self._unheard.count):
            if self._overlap:
                self._flying.append(self._send([self._news(Request(), all_of_it=True)]))
                self._flying[-1].result()
            else:  # counters only: no pull takes what else an answer brings
                self._take(self._send([self._news(Request(want=COUNTERS), all_of_it=True)]).result())

    def observe(self, values: Array) -> None:
        if self.moments is not None and len(values):
            new = Moments(self.moments.mean.shape)
            new.add(values)
            self.merge(new)

    def merge(self, new: Moments) -> None:
        """Takes moments of observations that nobody has heard of into the running normalisation."""
        if self._unheard is None:
            return
        if self._unheard.count:
            self._unheard.merge(new.count, new.mean, new.variance)
        else:
            self._unheard = new
        if not self._overlap:
            self._take(self._send([self._news(Request(want=MOMENTS), all_of_it=True)]).result())

    def pull(self) -> None:
        if not self._overlap:
            self._refresh()
            return
        if not self._flying:
            self._flying.append(self._ask(DUE))
            return
        while len(self._flying) > self._fresh:
            self._take(self._flying.popleft().result())
        self._fresh = 0

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0, lag: int = 0) -> None:
        """lag: updates in θ that the gradient was computed without."""
        if self._precision != "float32":
            gradient, factor = gradient * factor, 1.0
        values = packed(gradient, self._precision, self._error)
        if self._overlap and self._precision == "float32":
            values = values.copy()  # the caller's is filled again while this one is on its way
        want = DUE if self._overlap else COUNTERS
        requests = [
            Request(values[cut], rate, factor, seen - lag, want=want)
            for cut, seen in zip(self._cuts, self._updates, strict=True)
        ]
        flight = self._send([self._news(requests[0]), *requests[1:]])
        if self._overlap:
            self._flying.append(flight)
            self._fresh = 1
        else:
            self._take(flight.result())

    @property
    def updates(self) -> int:
        """Those that θ holds, as the first shard counts them."""
        return self._updates[0]

    def arrived(self) -> bool:
        """Whether every request has been answered; what the answers bring is taken."""
        while self._flying:
            if not self._flying[0].done():
                return False
            self._take(self._flying.popleft().result())
        self._fresh = 0
        return True

    def close(self) -> None:
        """Ends the connections; what is on its way may be lost."""
        for line in self._lines:
            line.close()
        self._sender.shutdown(wait=False)

    def _refresh(self) -> None:
        """Takes the newest there is."""
        self._take(self._ask(NEW).result())

    def _ask(self, want: int) -> Flight:
        request = Request(want=want)
        return self._send([self._news(request), *[request] * (len(self._lines) - 1)])

    def _send(self, requests: list[Request]) -> Flight:
        """To the first shards, one each."""
        return self._sender.submit(_exchange, self._lines[: len(requests)], requests)

    def _news(self, request: Request, all_of_it: bool = False) -> Request:
        """The first shard's request, with what that shard has not heard of. Large moments wait for `flush`."""
        (steps, skipped), self._uncounted = self._uncounted, (0, 0)
        observed = None
        if self._unheard is not None and self._unheard.count and (all_of_it or self._unheard.mean.nbytes <= SMALL):
            observed, self._unheard = self._unheard.pack(), Moments(self._unheard.mean.shape)
        return replace(request, steps=steps, skipped=skipped, observed=observed)

    def _take(self, answers: list[Answer]) -> None:
        """Copies what is new.

        θ_a that lacks updates of this θ follows it: θ_a ← α^k θ_a + (1 − α^k) θ."""
        for shard, answer in enumerate(answers):
            theta, theta_a = self.theta[self._cuts[shard]], self.theta_a[self._cuts[shard]]
            if answer.theta is not None:
                theta.numpy()[:] = answer.theta
                self._updates[shard] = answer.updates
            if answer.theta_a is not None:
                theta_a.numpy()[:] = answer.theta_a
                self._averaged[shard] = answer.updates
            if answer.moments is not None and self.moments is not None:
                self.moments = self.moments.unpack(answer.moments)
            behind = self._updates[shard] - self._averaged[shard]
            if behind > 0:
                theta_a.lerp_(theta[: len(theta_a)], 1 - self.constants.alpha**behind)
                self._averaged[shard] = self._updates[shard]
        first = answers[0]
        self.steps, self.skipped = first.steps + self._uncounted[0], first.skipped + self._uncounted[1]
        if first.staleness >= 0:
            self.staleness = first.staleness


def _exchange(lines: Sequence[Line], requests: list[Request]) -> list[Answer]:
    for line, request in zip(lines, requests, strict=True):
        line.send(request)
    return [line.receive() for line in lines]


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
