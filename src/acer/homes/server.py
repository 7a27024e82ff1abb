"""A parameter server: a Ray actor with a shard of θ, θ_a and the optimiser's mean of squares.

Actor-learners reach it over `wire`, each with a thread of its own here. A push is answered by a few counters, and by
parameters when it is time: each client gets θ at most every so often, θ_a and the running normalisation less often.
Between two versions of θ_a an actor-learner follows it by itself (see `remote`). Those of small networks come with
every answer. θ is sent as it is while others may change it, as actor-learners read it that share memory.
"""

import itertools
import threading
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from torch import Tensor

from acer.homes import wire
from acer.homes.wire import DUE, MOMENTS, NEW, Address, Answer, Request, Sizes
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, descend

SMALL = 80_000  # bytes of all that a client reads, up to which it comes with every answer
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

    @property
    def sizes(self) -> Sizes:
        return Sizes(len(self.theta), len(self.theta_a), 0 if self.moments is None else len(self.moments.pack()))


@dataclass(frozen=True)
class Load:
    """A shard's counters since it began."""

    steps: int  # T
    updates: int
    busy: float  # seconds of processor time, of all threads
    clock: float


@dataclass
class Client:
    """What a client has: updates in its θ and θ_a, changes in its moments; and when it is due for newer ones."""

    theta: int = -1
    theta_a: int = -1
    moments: int = -1
    due: float = 0.0
    rest_due: float = 0.0


class Shard:
    """One parameter server."""

    def __init__(self, part: Part, constants: Constants, interval: float) -> None:
        """interval: seconds between two versions of θ for a client at least."""
        torch.set_num_threads(1)
        self.theta, self.theta_a, self.square = (
            torch.from_numpy(array.copy()) for array in (part.theta, part.theta_a, part.square)
        )
        self.steps, self.skipped, self.moments = part.steps, part.skipped, part.moments
        self.constants, self.sizes = constants, part.sizes
        self.updates = 0
        self._observed = 0  # changes of the moments
        self._interval = interval
        self._small = 4 * (self.sizes.theta + self.sizes.theta_a) + 8 * self.sizes.moments <= SMALL
        self._lock = threading.Lock()  # of everything above

    def listen(self, secret: bytes) -> Address:
        """Where actor-learners that know the secret are answered from now on."""
        node = ray.get_runtime_context().get_node_id()
        nodes = ray.nodes()  # type: ignore[no-untyped-call]
        host = next(str(one["NodeManagerAddress"]) for one in nodes if one["NodeID"] == node)
        listener = wire.listen(host)
        threading.Thread(target=self._welcome, args=(listener, secret), daemon=True).start()
        return host, int(listener.getsockname()[1])

    def answer(self, request: Request, client: Client) -> Answer:
        """One update, if the request brings a gradient, and what its sender does not have yet."""
        with self._lock:
            staleness = -1 if request.gradient is None else self.updates - request.seen
            if request.gradient is not None:
                gradient = unpacked(request.gradient)
                rate, factor = request.rate, request.factor
                descend(self.theta, self.theta_a, self.square, gradient, rate, self.constants, factor)
                self.updates += 1
            if request.observed is not None and self.moments is not None:
                new = self.moments.unpack(request.observed)
                self.moments.merge(new.count, new.mean, new.variance)
                self._observed += 1
            self.steps += request.steps
            self.skipped += request.skipped
            return self._news(staleness, client, request.want)

    def whole(self) -> Part:
        """Everything there is, for the run."""
        with self._lock:
            theta, theta_a, square = (tensor.numpy().copy() for tensor in (self.theta, self.theta_a, self.square))
            moments = None if self.moments is None else self.moments.unpack(self.moments.pack())
            return Part(theta, theta_a, square, self.steps, self.skipped, moments)

    def load(self) -> Load:
        return Load(self.steps, self.updates, time.process_time(), time.monotonic())

    def _news(self, staleness: int, client: Client, want: int) -> Answer:
        """What a client lacks of what it wants."""
        now = time.monotonic()
        at_once = want == NEW or (want == DUE and self._small)
        theta = theta_a = moments = None
        if client.theta != self.updates and (at_once or (want == DUE and now >= client.due)):
            theta = self.theta.numpy()
            client.theta, client.due = self.updates, now + self._interval
        rest = at_once or (want == DUE and now >= client.rest_due)
        if client.theta_a != self.updates and rest:
            theta_a, client.theta_a = self.theta_a.numpy(), self.updates
        if client.moments != self._observed and self.moments is not None and (rest or want == MOMENTS):
            moments, client.moments = self.moments.pack(), self._observed
        if rest:
            client.rest_due = now + SLOWER * self._interval
        return Answer(self.steps, self.skipped, staleness, self.updates, theta, theta_a, moments)

    def _welcome(self, listener: Any, secret: bytes) -> None:
        while True:
            try:
                connection, _ = listener.accept()
                threading.Thread(target=self._serve, args=(connection, secret), daemon=True).start()
            except (OSError, RuntimeError):  # too many files or threads: others may come later
                time.sleep(0.1)

    def _serve(self, connection: Any, secret: bytes) -> None:
        torch.set_num_threads(1)  # of this thread
        client = Client()
        wire.serve(connection, secret, self.sizes, lambda request: self.answer(request, client))


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
    return tensor if array.dtype == np.float32 else tensor.view(torch.bfloat16)
