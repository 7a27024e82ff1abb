"""The few operations on files that a run's files are made of, as the operating system has them."""

import ctypes
import functools
import os
from pathlib import Path
from typing import Any

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def opened(path: str | Path, flags: int, directory: int | None = None, mode: int = 0o666) -> int:
    """An open file whose number is none of the standard streams': were one of those closed, by an environment or from
    the beginning, what is printed would go into the file."""
    descriptor = os.open(path, flags, mode, dir_fd=directory)
    if descriptor > 2:
        return descriptor
    try:
        import fcntl

        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(descriptor)


class System:
    """The operations on files that change something, or make it last."""

    def create(self, name: str, directory: int, mode: int = 0o666) -> int:
        return opened(name, NEW, directory, mode)

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        return os.write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        os.ftruncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def rename(self, old: str, new: str, directory: int) -> None:
        os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory)

    def exchange(self, one: str, other: str, directory: int) -> bool:
        """Exchanges two names in one step; False where the system cannot."""
        return _renameat2(directory, one, other)

    def make_directory(self, name: str, directory: int) -> None:
        os.mkdir(name, dir_fd=directory)

    def remove(self, name: str, directory: int) -> None:
        os.unlink(name, dir_fd=directory)

    def remove_directory(self, name: str, directory: int) -> None:
        os.rmdir(name, dir_fd=directory)


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _renameat2(directory: int, one: str, other: str) -> bool:
    try:
        function = _libc().renameat2
    except (OSError, AttributeError):
        return False
    exchange = 2
    return bool(function(directory, os.fsencode(one), directory, os.fsencode(other), exchange) == 0)
