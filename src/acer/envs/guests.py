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
from typing import Any

import numpy as np

from acer.errors import EnvironmentFault, SecondSignal, described


class House:
    """What one process has in common, as it was before a guest's turn. One is made for every step: it is quick."""

    __slots__ = ("_errors", "_filters", "_of_torch", "_pid", "_recursion", "_torch")

    def __init__(self) -> None:
        self._pid = os.getpid()
        # PyTorch as it is, or as it will be when it is loaded: help and lists of names come without it.
        self._torch = torch = sys.modules.get("torch")
        self._of_torch = _settings_of(torch) if torch else None
        self._recursion = sys.getrecursionlimit()
        self._errors = np.geterr()
        self._filters = warnings.filters[:]

    def tidy(self) -> None:
        """Puts back what the guest has changed. Its own copy of this process, if it forked, ends here."""
        if os.getpid() != self._pid:
            os._exit(0)
        torch = sys.modules.get("torch")
        if torch is not self._torch and self._torch:
            torch = sys.modules["torch"] = self._torch  # it cannot be loaded twice
        if torch:
            grad, dtype, threads, device = self._of_torch or (True, torch.float32, torch.get_num_threads(), None)
            if _settings_of(torch) != (grad, dtype, threads, device):
                torch.set_grad_enabled(grad)
                torch.set_default_dtype(dtype)
                torch.set_num_threads(threads)
                torch.set_default_device(device and device.device)
        if sys.getrecursionlimit() != self._recursion:
            sys.setrecursionlimit(self._recursion)
        if np.geterr() != self._errors:
            np.seterr(**self._errors)
        if warnings.filters != self._filters:
            # An environment may silence warnings, but not make errors of ours.
            new = [one for one in warnings.filters if one[0] != "error" or one in self._filters]
            warnings.filters[:] = new  # type: ignore[index]
            warnings._filters_mutated()  # type: ignore[attr-defined]


def _settings_of(torch: Any) -> tuple[bool, Any, int, Any]:
    """Gradients, dtype, threads and default device; that is None for the processor."""
    device = getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)
    return torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads(), device


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
