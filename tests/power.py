"""Machines that lose their power: a file system for `acer.run.files.system` that fails, stops, and forgets.

What was written and not flushed is still only in memory: a power cut drops it, or keeps a part of it. Names behave like
data: a new, removed or renamed entry lasts once its directory was flushed. `Fragile.cut` brings the disk into one of
the states that are possible then.
"""

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from acer.run import files
from acer.run.files import System

Undo = Callable[[str], None]
"""Takes back an operation on the names of the directory at this path."""


class PowerCut(BaseException):
    """The machine has stopped. Nothing of the program runs after it."""


class Fragile(System):
    """Before its n-th operation the machine stops, or the operation fails with an error.

    What has not been made to last is a journal of how to take it back. Operations on one directory's names are taken
    back from the newest on, as journalling file systems order them; data that was not flushed is lost wholly, from some
    byte on, or leaves zeros.
    """

    def __init__(self, keeps: Path, stop_at: int = -1, error: OSError | None = None, exchanges: bool = True) -> None:
        """keeps: a directory on the same disk for what was removed and may come back. exchanges: whether the system
        can exchange two names in one step."""
        self.stop_at, self.error, self.exchanges = stop_at, error, exchanges
        self.count = 0
        self.dead = False
        self._keeps = keeps
        self._names: list[tuple[tuple[int, int], int, str, Undo]] = []  # directory: inode, handle, path; how to undo
        self._data: dict[tuple[int, int], tuple[int, int]] = {}  # by inode: a handle of our own, bytes that last
        keeps.mkdir()

    def _step(self) -> None:
        if self.dead:
            raise PowerCut
        self.count += 1
        if self.count == self.stop_at:
            if self.error is not None:
                raise self.error
            self.dead = True
            raise PowerCut

    def _entry(self, directory: int, undo: Undo) -> None:
        self._names.append((_inode(directory), os.dup(directory), os.readlink(f"/proc/self/fd/{directory}"), undo))

    def _keep(self, name: str, directory: int) -> str:
        kept = str(self._keeps / str(self.count))
        os.link(name, kept, src_dir_fd=directory, follow_symlinks=False)
        return kept

    def create(self, name: str, directory: int, mode: int = 0o666) -> int:
        self._step()
        descriptor = super().create(name, directory, mode)
        self._entry(directory, lambda where: os.unlink(f"{where}/{name}"))
        self._data[_inode(descriptor)] = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR), 0
        return descriptor

    def write(self, descriptor: int, data: bytes | memoryview) -> int:
        self._step()
        if _inode(descriptor) not in self._data:
            lasting = os.fstat(descriptor).st_size
            self._data[_inode(descriptor)] = os.open(f"/proc/self/fd/{descriptor}", os.O_RDWR), lasting
        return super().write(descriptor, data)

    def truncate(self, descriptor: int, size: int) -> None:
        self._step()
        super().truncate(descriptor, size)

    def flush(self, descriptor: int) -> None:
        self._step()
        super().flush(descriptor)
        inode = _inode(descriptor)
        if inode in self._data:
            self._data[inode] = self._data[inode][0], os.fstat(descriptor).st_size
        for entry in [entry for entry in self._names if entry[0] == inode]:
            os.close(entry[1])
            self._names.remove(entry)

    def rename(self, old: str, new: str, directory: int) -> None:
        self._step()
        is_file = os.path.isfile(f"/proc/self/fd/{directory}/{new}")
        kept = self._keep(new, directory) if is_file else ""
        super().rename(old, new, directory)

        def undo(where: str) -> None:
            os.rename(f"{where}/{new}", f"{where}/{old}")
            if kept:
                os.rename(kept, f"{where}/{new}")

        self._entry(directory, undo)

    def exchange(self, one: str, other: str, directory: int) -> bool:
        if not self.exchanges:
            return False
        self._step()
        if not super().exchange(one, other, directory):
            return False

        def undo(where: str) -> None:
            handle = os.open(where, os.O_RDONLY)
            System().exchange(one, other, handle)
            os.close(handle)

        self._entry(directory, undo)
        return True

    def make_directory(self, name: str, directory: int) -> None:
        self._step()
        super().make_directory(name, directory)
        self._entry(directory, lambda where: shutil.rmtree(f"{where}/{name}"))

    def remove(self, name: str, directory: int) -> None:
        self._step()
        kept = self._keep(name, directory)
        super().remove(name, directory)
        self._entry(directory, lambda where: os.rename(kept, f"{where}/{name}"))

    def remove_directory(self, name: str, directory: int) -> None:
        self._step()
        super().remove_directory(name, directory)
        self._entry(directory, lambda where: os.mkdir(f"{where}/{name}"))

    def cut(self, rng: random.Random) -> None:
        """Leaves on the disk what it may hold after the power was cut; each time with the same `rng` the same."""
        for handle, lasting in self._data.values():
            size = os.fstat(handle).st_size
            if size > lasting:
                keep = rng.choice((lasting, rng.randint(lasting, size), size))
                os.ftruncate(handle, keep)
                if rng.random() < 0.5:  # the size lasts before the data does
                    os.pwrite(handle, bytes(keep - lasting), lasting)
            os.close(handle)
        left: dict[tuple[int, int], int] = {}
        for inode, *_ in self._names:
            left[inode] = left.get(inode, 0) + 1
        lost = {inode: rng.randint(0, number) for inode, number in left.items()}
        for inode, handle, path, undo in reversed(self._names):
            if lost[inode]:
                lost[inode] -= 1
                for where in (f"/proc/self/fd/{handle}", path):  # a directory that was removed and is there again
                    with contextlib.suppress(OSError):
                        undo(where)
                        break
            os.close(handle)
        shutil.rmtree(self._keeps)
        files.system = System()  # the power is back, and the disk is as any other


def _inode(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


@contextlib.contextmanager
def fragile(place: Path, stop_at: int = -1, error: OSError | None = None, exchanges: bool = True) -> Iterator[Fragile]:
    """Puts a fragile disk in the place of the real one."""
    disk = Fragile(place / "kept-for-a-power-cut", stop_at, error, exchanges)
    before, files.system = files.system, disk
    try:
        yield disk
    finally:
        files.system = before
