"""Environments are guests: what they raise is said in one line, and what they set for the whole process has no effect.

Their code runs between lines of ours, in our process. It may end with any exception, call `exit`, fork, or change what
PyTorch, NumPy and Python keep for everybody. What cannot be undone ends the run in order.
"""

import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from acer.errors import EnvironmentFault, SecondSignal, described


class House:
    """What one process has in common, as it was before a guest's turn."""

    __slots__ = ("_dtype", "_errors", "_filters", "_grad", "_pid", "_threads")

    def __init__(self) -> None:
        self._pid = os.getpid()
        # PyTorch as it is, or as it will be when it is loaded: help and lists of names come without it.
        torch = sys.modules.get("torch")
        self._grad: bool = torch.is_grad_enabled() if torch else True
        self._dtype: str = str(torch.get_default_dtype()) if torch else "torch.float32"
        self._threads: int | None = torch.get_num_threads() if torch else None
        self._errors = np.geterr()
        self._filters = warnings.filters[:]

    def tidy(self) -> None:
        """Puts back what the guest has changed. Its own copy of this process, if it forked, ends here."""
        if os.getpid() != self._pid:
            os._exit(0)
        torch = sys.modules.get("torch")
        if torch and torch.is_grad_enabled() != self._grad:
            torch.set_grad_enabled(self._grad)
        if torch and str(torch.get_default_dtype()) != self._dtype:
            torch.set_default_dtype(getattr(torch, self._dtype.removeprefix("torch.")))
        if torch and self._threads and torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)
        if np.geterr() != self._errors:
            np.seterr(**self._errors)
        if warnings.filters != self._filters:
            # An environment may silence warnings, but not make errors of ours.
            new = [one for one in warnings.filters if one[0] != "error" or one in self._filters]
            warnings.filters[:] = new  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]


def is_ours(error: BaseException) -> bool:
    """Whether it is the user who ends the run, by Ctrl-C, and not the environment that raises the like."""
    if not isinstance(error, KeyboardInterrupt):
        return False
    if isinstance(error, SecondSignal):
        return True
    alone = threading.current_thread() is threading.main_thread()
    return alone and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@contextmanager
def hosted(doing: str) -> Iterator[None]:
    """A guest's turn that is no step: whatever it raises becomes an `EnvironmentFault` that says what it was doing."""
    house = House()
    try:
        yield
    except EnvironmentFault:
        raise
    except BaseException as error:
        if is_ours(error):
            raise
        raise EnvironmentFault(f"{doing}: {described(error)}") from error
    finally:
        house.tidy()
