"""Signals of a run: the first asks it to stop after this iteration, a second ends it at once."""

import signal
import time
from contextlib import AbstractContextManager
from types import FrameType
from typing import Protocol

from acer.machine import signals_go_to

SAME = 0.5  # seconds within which a signal is the same one again: `timeout` and terminals send it twice
NUMBERS = [number for name in ("SIGINT", "SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]


class Stoppable(Protocol):
    """What a signal can end."""

    stopping: bool
    interrupted: bool


def stop_on_signals(run: Stoppable) -> AbstractContextManager[None]:
    """Meanwhile, Ctrl-C, SIGTERM and SIGHUP ask `run` to stop."""
    first: list[float] = []

    def ask(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if first and now - first[0] > SAME:
            raise KeyboardInterrupt
        if not first:
            first.append(now)
        run.stopping = run.interrupted = True

    return signals_go_to(ask, *NUMBERS)
