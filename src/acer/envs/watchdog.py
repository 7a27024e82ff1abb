"""What notices an environment that hangs where Python's own alarm does not reach it: inside native code.

A thread watches how long a step lasts. If the native code has let go of the interpreter, the thread says where it
hangs, saves what it can and ends the process. If it has not, nothing of Python runs in this process: then another,
which hears from the thread once in a while, says so and ends it by a signal that the C library alone answers.
"""

import contextlib
import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from acer.console import complain, printable
from acer.errors import FAILED

_OUTSIDE = """
import os, select, signal, sys, time
process, patience, line = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, signal.SIG_IGN)
def stopped():
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False
silent = 0
while silent < 4:  # each of them whole: a process that was stopped, and its clock not, has time to come back
    if select.select([0], [], [], patience / 4)[0]:
        silent = 0
        if not os.read(0, 4096):
            sys.exit()
    else:
        silent = 0 if stopped() else silent + 1
try:
    os.write(2, line.encode())
except OSError:
    pass
os.kill(process, signal.SIGQUIT)
time.sleep(5)
os.kill(process, signal.SIGKILL)
"""


SHORTEST = 0.4  # seconds; whoever watches more often than ten times in a second keeps others from work
HANGS = "no answer within --step-limit, in native code"


def watch_steps(
    env: str, limit: float, busy_since: Callable[[], float], last_act: Callable[[], None], loss: str
) -> "Watchdog":
    """Watches the environments of a process. One that hangs ends it, after `last_act` if anything of Python still runs;
    `loss` says what becomes of the run if nothing does."""

    def end() -> None:
        complain(f"{env}: {HANGS}; this process ends")
        with contextlib.suppress(OSError, ValueError):
            faulthandler.dump_traceback(2)
        try:
            last_act()
        finally:
            os._exit(FAILED)

    line = f"acer: {printable(env)}: {HANGS} that holds the interpreter: where, is said below; {loss}\n"
    return Watchdog(limit, busy_since, end, line)


class Watchdog:
    """Watches from `start` to `stop`."""

    def __init__(self, limit: float, busy_since: Callable[[], float], on_hang: Callable[[], None], line: str) -> None:
        """busy_since: when the step began that is being waited for. on_hang: what is done about one that lasts
        longer than `limit` seconds, and a little. line: what the other process says."""
        self._limit, self._busy_since, self._on_hang, self._line = limit, busy_since, on_hang, line
        limit = max(limit, SHORTEST)
        self._pause = min(1.0, limit / 4)
        self._patience = 1.25 * limit + 4 * self._pause  # the alarm comes first
        self._ended = threading.Event()
        self._outside: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._quit = hasattr(signal, "SIGQUIT") and threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self._limit > 0 and self._quit:
            self._begin_outside()
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._outside is not None:
            with contextlib.suppress(OSError):
                self._outside.communicate()
            faulthandler.unregister(signal.SIGQUIT)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)

    def _watch(self) -> None:
        waited, step, pause = 0.0, 0.0, self._pause
        while not self._ended.wait(pause):
            since = self._busy_since()
            # Counted, not measured: the clock goes on while the process is stopped (Ctrl-Z).
            waited = waited + pause if since == step else 0.0
            step = since
            if waited > self._patience and since < time.monotonic():
                self._on_hang()
                return
            self._beat()

    def _begin_outside(self) -> None:
        libc = ctypes.CDLL(None)
        libc.signal.argtypes, libc.signal.restype = (ctypes.c_int, ctypes.c_void_p), ctypes.c_void_p
        # The handler's argument is the signal's number, and so it is `_exit`'s: SIGQUIT has that of the exit code.
        assert int(signal.SIGQUIT) == FAILED
        libc.signal(signal.SIGQUIT, ctypes.cast(libc._exit, ctypes.c_void_p))
        with contextlib.suppress(OSError, ValueError, RuntimeError):
            faulthandler.register(signal.SIGQUIT, file=2, chain=True)
        command = [sys.executable, "-I", "-S", "-c", _OUTSIDE, str(os.getpid()), str(self._patience), self._line]
        with contextlib.suppress(OSError):
            self._outside = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)

    def _beat(self) -> None:
        if self._outside is not None and self._outside.stdin is not None:
            with contextlib.suppress(OSError):
                self._outside.stdin.write(b".")
                self._outside.stdin.flush()
