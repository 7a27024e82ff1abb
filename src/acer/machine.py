"""What this process may use of its machine, and what is installed on it."""

import contextlib
import ctypes
import errno
import functools
import hashlib
import mmap
import os
import platform
import signal
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType

THREADS = 32 << 20  # bytes of address space that the threads of a run take; they are hardly used
SPARE = 16  # file handles that are kept for saving: a save has up to six at a time


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@functools.cache
def versions() -> dict[str, str]:
    """Of what decides a run's numbers, this package's own code by its hash."""
    found = {"python": platform.python_version(), "code": _code()}
    for name in ("acer-rl", "torch", "numpy", "numba", "gymnasium", "mujoco", "ale-py"):
        with contextlib.suppress(PackageNotFoundError):
            found[name.removesuffix("-rl")] = version(name)
    return found


def _code() -> str:
    """The first digits of a hash of what decides a run's numbers: no benchmarks, experiments or reports."""
    here = Path(__file__).parent
    patterns = ("*.py", "config/*.py", "envs/**/*.py", "envs/**/*.xml", "learner/*.py", "homes/*.py", "run/*.py")
    modules = sorted(path for pattern in patterns for path in here.glob(pattern))
    return hashlib.sha256(b"".join(path.read_bytes() for path in modules)).hexdigest()[:12]


def keep_standard_streams() -> None:
    """Puts the null device where a standard stream was closed: the next file to be opened would take its number, and
    what is printed would go into that."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            with contextlib.suppress(OSError):
                null = os.open(os.devnull, os.O_RDWR)
                if null != number:
                    os.dup2(null, number)
                    os.close(null)


class SpareHandles:
    """File handles that are kept for saving: an environment that never closes its own leaves none to others."""

    def __init__(self) -> None:
        """None yet: see `take`."""
        self._held: list[int] = []

    def take(self) -> None:
        """No more than a sixteenth of what the process may have, and none of the standard streams' numbers."""
        keep_standard_streams()
        with contextlib.suppress(OSError, ValueError, AttributeError):  # AttributeError: Windows has no sysconf
            reader, writer = os.pipe()
            os.close(writer)
            self._inode = os.fstat(reader).st_ino
            self._held = [reader]
            for _ in range(min(SPARE, os.sysconf("SC_OPEN_MAX") // 16) - 1):
                self._held.append(os.dup(reader))

    def needed(self) -> bool:
        """Whether no other handle was left; then these are free from now on."""
        if not self._held:
            return False
        try:
            os.close(os.dup(self._held[0]))
        except OSError as error:
            self.free()
            if error.errno == errno.EMFILE:
                return True
            self.take()  # an environment has closed them
        return False

    def free(self) -> None:
        """Closes them, but for those whose numbers others have since an environment closed them."""
        held, self._held = self._held, []
        for number in held:
            with contextlib.suppress(OSError):
                if os.fstat(number).st_ino == self._inode:
                    os.close(number)


def check_room_for_threads() -> None:
    """Refuses to begin where the threads of a run find no memory: Python waits for good for one that dies of that
    before it begins."""
    try:
        mmap.mmap(-1, THREADS).close()
    except (OSError, MemoryError):
        raise MemoryError(f"the threads of a run take {THREADS >> 20} MB") from None


def free_memory() -> int:
    """Bytes of memory that are free or can be freed."""
    with contextlib.suppress(OSError, ValueError):
        with open("/proc/meminfo") as file:
            sizes = dict(line.split(":") for line in file)
        return int(sizes["MemAvailable"].split()[0]) << 10
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def lock(descriptor: int) -> bool:
    """Whether an open directory is ours alone, until it is closed; so it counts where there are no locks."""
    try:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        pass
    return True


@contextlib.contextmanager
def signals_go_to(handler: Callable[[int, FrameType | None], None], *numbers: int) -> Iterator[None]:
    """Meanwhile, these signals call `handler`; not outside the main thread, where whoever runs us handles them."""
    try:
        before = {number: signal.signal(number, handler) for number in numbers}
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def keep_memory() -> None:
    """Lets the C library keep freed blocks of many megabytes: fresh pages for every activation cost a tenth of the
    time on images. Elsewhere than with glibc nothing happens."""
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        for parameter, value in ((-3, 1 << 30), (-1, (1 << 31) - 1)):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
            mallopt(parameter, value)


def give_back_memory() -> None:
    """Hands the system what the C library has kept and does not use; what is used again costs its fresh pages once."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
