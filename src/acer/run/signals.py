"""Signals of a run: the first asks it to stop after this iteration, a second ends it at once."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Protocol

from acer.errors import SecondSignal

SAME = 0.5  # seconds within which a signal is the same one again: `timeout` and terminals send it twice
NUMBERS = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]


class Stoppable(Protocol):
    """What a signal can end."""

    stopping: bool
    interrupted: bool


@contextlib.contextmanager
def stop_on_signals(run: Stoppable) -> Iterator[Callable[[], None]]:
    """Meanwhile, Ctrl-C, SIGTERM and SIGHUP ask `run` to stop; `nohup` keeps its word. Gives what takes the signals
    back from an environment that has taken them. Outside the main thread, whoever runs us handles them."""
    first: list[float] = []

    def ask(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if first and now - first[0] > SAME:
            raise SecondSignal
        if not first:
            first.append(now)
        run.stopping = run.interrupted = True

    hangup = getattr(signal, "SIGHUP", None)
    numbers = [number for number in NUMBERS if number != hangup or signal.getsignal(number) != signal.SIG_IGN]
    try:
        before = {number: signal.signal(number, ask) for number in numbers}
    except ValueError:
        yield lambda: None
        return

    def keep() -> None:
        for number in numbers:
            if signal.getsignal(number) is not ask:
                signal.signal(number, ask)

    try:
        yield keep
    finally:
        for number, old in before.items():
            signal.signal(number, signal.SIG_DFL if old is None else old)  # None: set by native code
