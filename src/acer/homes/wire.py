"""What goes between actor-learners and parameter servers: gradients one way, parameters the other, over TCP.

Ray places the servers, says where they are, and notices when one is gone. It does not carry the gradients: a Ray call
with a large argument costs a server's processor far more than the update itself (docs/scaling.md has the figures).

Nothing that comes in is unpickled: a message is a header of fixed size and numbers, how many of which both sides know.
A server listens on the address that Ray has on its node. Each side proves that it knows the run's secret, which travels
within Ray, before anything else is read. Like Ray's token it does not encrypt.
"""

import hmac
import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Address = tuple[str, int]
Buffer = TypeVar("Buffer", bytearray, NDArray[Any])

# What a request wants: parameters if it is time, whatever is new, only the normalisation, only the counters.
DUE, NEW, MOMENTS, COUNTERS = range(4)
REQUEST = struct.Struct("<3B2d3q")  # bytes of a number in the gradient, moments follow, wanted; rate, factor; seen, …
ANSWER = struct.Struct("<3?4q")  # θ, θ_a, moments follow; steps, skipped, staleness, updates
GRADIENTS = {2: np.dtype(np.int16), 4: np.dtype(np.float32)}  # bits of bfloat16, float32
PROOF = 32  # bytes
PATIENCE = 20.0  # seconds in which the other side must prove itself
SILENCE = 30  # seconds without a word after which the other machine is asked for a sign of life, then given up
MORE = getattr(socket, "MSG_MORE", 0)


class WireLost(ConnectionError):
    """The other side is gone, or cannot be reached."""


@dataclass(frozen=True)
class Sizes:
    """How many numbers a server holds."""

    theta: int
    theta_a: int
    moments: int  # packed; 0 if there are none


@dataclass(frozen=True)
class Request:
    """What an actor-learner tells a server."""

    gradient: Array | None = None  # float32, or the bits of bfloat16 as int16
    rate: float = 0.0
    factor: float = 1.0
    seen: int = 0  # updates in the parameters that the gradient was computed from
    steps: int = 0  # made since the last request
    skipped: int = 0  # updates left out since
    observed: Array | None = None  # packed moments of observations that no server has heard of
    want: int = DUE


@dataclass(frozen=True)
class Answer:
    """What a server tells an actor-learner. What it does not have to know is none."""

    steps: int
    skipped: int
    staleness: int  # updates between the parameters that a gradient was computed from and its arrival; -1 without one
    updates: int  # in θ and θ_a
    theta: Array | None = None
    theta_a: Array | None = None
    moments: Array | None = None  # packed


class Line(Protocol):
    """A way to one server. A request is answered before the next is sent."""

    def send(self, request: Request) -> None: ...
    def receive(self) -> Answer: ...
    def close(self) -> None: ...


# ------------------------------------------------------------------ the actor-learner's side


class TcpLine:
    """A connection to a server."""

    def __init__(self, address: Address, secret: bytes, sizes: Sizes) -> None:
        self.address, self._sizes = address, sizes
        try:
            self._socket = socket.create_connection(address, timeout=PATIENCE)
            _prepare(self._socket)
            _prove(self._socket, secret, b"client", b"server")
            self._socket.settimeout(None)
        except OSError as error:
            raise self._lost(error) from error

    def send(self, request: Request) -> None:
        gradient, observed = request.gradient, request.observed
        width = 0 if gradient is None else gradient.itemsize
        header = REQUEST.pack(width, observed is not None, request.want, request.rate, request.factor, request.seen,
                              request.steps, request.skipped)  # fmt: skip
        try:
            _send(self._socket, header, gradient, observed)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> Answer:
        try:
            *follows, steps, skipped, staleness, updates = ANSWER.unpack(receive(self._socket, bytearray(ANSWER.size)))
            counts, types = (self._sizes.theta, self._sizes.theta_a), (np.float32, np.float32)
            parts: list[Array | None] = []
            for follow, count, kind in zip(follows, (*counts, self._sizes.moments), (*types, np.float64), strict=True):
                parts.append(receive(self._socket, np.empty(count, kind)) if follow else None)
        except OSError as error:
            raise self._lost(error) from error
        return Answer(steps, skipped, staleness, updates, *parts)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # which wakes a thread that waits for an answer
        self._socket.close()

    def _lost(self, error: OSError) -> WireLost:
        return WireLost(f"parameter server at {self.address[0]}:{self.address[1]}: {error}")


# ------------------------------------------------------------------ the server's side


def listen(host: str) -> socket.socket:
    """Listens on a port that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, 0), family=family, backlog=1024)


def serve(connection: socket.socket, secret: bytes, sizes: Sizes, answer: Callable[[Request], Answer]) -> None:
    """Answers one actor-learner until it is gone."""
    with suppress(OSError), connection:
        connection.settimeout(PATIENCE)
        _prepare(connection)
        _prove(connection, secret, b"server", b"client")
        connection.settimeout(None)
        header = bytearray(REQUEST.size)
        gradients = {width: np.empty(0, kind) for width, kind in GRADIENTS.items()}
        while True:
            width, told, want, rate, factor, seen, steps, skipped = REQUEST.unpack(receive(connection, header))
            if width and not len(gradients[width]):
                gradients[width] = np.empty(sizes.theta, GRADIENTS[width])
            gradient = receive(connection, gradients[width]) if width else None
            observed = receive(connection, np.empty(sizes.moments)) if told else None
            said = answer(Request(gradient, rate, factor, seen, steps, skipped, observed, want))
            parts = said.theta, said.theta_a, said.moments
            counters = said.steps, said.skipped, said.staleness, said.updates
            _send(connection, ANSWER.pack(*(part is not None for part in parts), *counters), *parts)


# ------------------------------------------------------------------ both


def receive(connection: socket.socket, buffer: Buffer) -> Buffer:
    """Fills a buffer."""
    left = memoryview(buffer if isinstance(buffer, bytearray) else buffer.data)
    left = left.cast("B") if len(left) else left
    while left:
        count = connection.recv_into(left, 0, socket.MSG_WAITALL)
        if not count:
            raise ConnectionResetError("closed by the other side")
        left = left[count:]
    return buffer


def _send(connection: socket.socket, header: bytes, *parts: Array | None) -> None:
    some = [part.data.cast("B") for part in parts if part is not None and part.size]
    connection.sendall(header, MORE if some else 0)
    for part in some:
        connection.sendall(part)


def _prepare(connection: socket.socket) -> None:
    """No waiting for more to send; a machine that has gone without a word is noticed."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in {"TCP_KEEPIDLE": SILENCE, "TCP_KEEPINTVL": SILENCE // 3, "TCP_KEEPCNT": 3}.items():
        if hasattr(socket, name):  # not on every system
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _prove(connection: socket.socket, secret: bytes, me: bytes, other: bytes) -> None:
    """Shows the other side that this one knows the secret, and has it show the same. Each answers a number that the
    other has just drawn, in its own name: what was said once, or by the other side, proves nothing."""
    mine = os.urandom(PROOF)
    connection.sendall(mine)
    its = bytes(receive(connection, bytearray(PROOF)))
    connection.sendall(hmac.digest(secret, me + its + mine, "sha256"))
    proof = bytes(receive(connection, bytearray(PROOF)))
    if not hmac.compare_digest(proof, hmac.digest(secret, other + mine + its, "sha256")):
        raise ConnectionRefusedError("it does not know the run's secret")
