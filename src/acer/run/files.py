"""Files of a run: whatever is read from its directory, and whatever is written there, goes through here.

The directory may come from a stranger, and the machine may lose its power at any moment. So

- the directory is opened once; names in it are looked up from that handle, and symbolic links are not followed;
- only regular files are read, and only up to a size;
- a file is written under a name that nobody can guess, flushed to disk, and then renamed to its own;
- `replace_tree` exchanges two directories in one step where the system can, so that one of them is always whole.

`system` has the few operations that this is made of (`acer.run.system`). A test can put another in its place: one
that fails, stops at the n-th call, or forgets what was not flushed.
"""

import contextlib
import errno
import hashlib
import io
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self

from acer.errors import CheckpointError
from acer.machine import free_memory, lock
from acer.run.system import System, opened

MOST_ENTRIES = 100_000  # of a directory that is listed
DEEPEST = 64  # levels of directories that are removed; ours have three
LARGEST_TEXT = 32 << 20  # bytes of a JSON or pointer file that is read at all
LITTLE = 16 << 20  # bytes that are read without a look at what memory is free
PARTIAL = ".partial"  # ending of what is being written; what a killed process left is removed by the next one
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe would wait for its other end
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


system = System()


class Directory:
    """An open directory. Names are those of its own entries; none leads out of it."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._number, self.path = descriptor, path
        self._inode = _inode(descriptor)
        self._locked = False

    @classmethod
    def open(cls, path: Path) -> Self:
        """The directory that the user named; only here may a link lead to it."""
        return cls(opened(path, _DIRECTORY), path.absolute())

    @property
    def _descriptor(self) -> int:
        """The handle. An environment may have closed it, and others may have its number since; then the directory is
        opened again, if it is still the same one."""
        if self._number < 0 or _is_open_as(self._number, self._inode):
            return self._number
        again = opened(self.path, _DIRECTORY)
        if _inode(again) != self._inode:
            os.close(again)
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(self.path))
        self._number = again
        if self._locked and not lock(again):
            raise OSError(errno.EAGAIN, "another process has it", str(self.path))
        return again

    def child(self, name: str, create: bool = False) -> "Directory":
        """A directory in this one; a link in its place is refused."""
        if create and not self.exists(name):
            system.make_directory(_plain(name), self._descriptor)
            self.flush()
        try:
            descriptor = opened(_plain(name), _DIRECTORY | os.O_NOFOLLOW, self._descriptor)
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP):
                raise CheckpointError(f"{self.path / name} is not a directory; a link is not followed") from None
            error.filename = str(self.path / name)
            raise
        return Directory(descriptor, self.path / name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Gives the lock back, too."""
        number, self._number, self._locked = self._number, -1, False
        if number >= 0 and _is_open_as(number, self._inode):
            os.close(number)

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.close()

    def lock(self) -> bool:
        """Whether the directory is ours alone, until it is closed; so it counts where there are no locks."""
        if self._locked:
            return True
        self._locked = lock(self._descriptor)
        return self._locked

    # ------------------------------------------------------------------ looking

    def names(self) -> list[str]:
        """The entries, sorted."""
        found = []
        with os.scandir(self._descriptor) as entries:
            for entry in entries:
                found.append(entry.name)
                if len(found) > MOST_ENTRIES:
                    raise CheckpointError(f"{self.path} has more than {MOST_ENTRIES:,} entries")
        return sorted(found)

    def is_file(self, name: str) -> bool:
        return stat.S_ISREG(self._mode(name))

    def is_directory(self, name: str) -> bool:
        return stat.S_ISDIR(self._mode(name))

    def exists(self, name: str) -> bool:
        """Whether there is anything of this name, a link that leads nowhere included."""
        return self._mode(name) != 0

    def _mode(self, name: str) -> int:
        try:
            return os.stat(_plain(name), dir_fd=self._descriptor, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return 0

    # ------------------------------------------------------------------ reading

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[io.BufferedReader]:
        """A regular file, open; links, pipes and devices are refused."""
        descriptor = self._open(name, _READ)
        with os.fdopen(descriptor, "rb") as file:
            yield file

    def size(self, name: str) -> int:
        with self.reading(name) as file:
            return os.fstat(file.fileno()).st_size

    def read(self, name: str, largest: int = LARGEST_TEXT) -> bytes:
        """The whole of a regular file that is no larger."""
        with self.reading(name) as file:
            size = os.fstat(file.fileno()).st_size
            if size > largest:
                raise CheckpointError(f"{self.path / name} is larger than any such file ({size:,} bytes)")
            if size > LITTLE and 2 * size > free_memory():
                raise CheckpointError(f"{self.path / name} does not fit in memory ({size:,} bytes)")
            return file.read(size)

    def digest(self, name: str) -> str:
        """SHA-256 of a file's content."""
        with self.reading(name) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _open(self, name: str, flags: int) -> int:
        try:
            descriptor = opened(_plain(name), flags, self._descriptor)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise CheckpointError(f"{self.path / name} is a link, which is not followed") from None
            error.filename = str(self.path / name)
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise CheckpointError(f"{self.path / name} is not a regular file")
        return descriptor

    # ------------------------------------------------------------------ writing

    def write(self, name: str, chunks: Iterable[bytes]) -> dict[str, Any]:
        """Writes a new file through to the disk; returns its size and hash. An existing one is an error."""
        digest, size = hashlib.sha256(), 0
        descriptor = system.create(_plain(name), self._descriptor)
        try:
            for chunk in chunks:
                _write_all(descriptor, chunk)
                digest.update(chunk)
                size += len(chunk)
            system.flush(descriptor)
        finally:
            os.close(descriptor)
        return {"bytes": size, "sha256": digest.hexdigest()}

    def replace(self, name: str, content: bytes) -> None:
        """Writes a file whole: at any moment it has the old content or the new one."""
        if self.is_directory(name):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self.path / name))
        partial = unguessable(name)
        try:
            self.write(partial, [content])
            system.rename(partial, _plain(name), self._descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                system.remove(partial, self._descriptor)
            raise
        self.flush()

    def append(self, name: str, content: bytes) -> None:
        """Adds to an existing file, all or nothing unless the machine stops."""
        descriptor = self._open(name, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            size = os.fstat(descriptor).st_size
            try:
                _write_all(descriptor, content)
            except OSError:
                system.truncate(descriptor, size)  # no torn row, to which the next would be glued
                raise
        finally:
            os.close(descriptor)

    def cut(self, name: str, size: int) -> None:
        """Keeps the first `size` bytes of a file."""
        descriptor = self._open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            system.truncate(descriptor, size)
        finally:
            os.close(descriptor)

    def flush_file(self, name: str) -> None:
        """Makes what was added to a file last."""
        descriptor = self._open(name, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            system.flush(descriptor)
        finally:
            os.close(descriptor)

    def flush(self) -> None:
        """Makes the names in this directory last."""
        system.flush(self._descriptor)

    @contextlib.contextmanager
    def building(self, name: str) -> Iterator["Directory"]:
        """A new directory that is filled inside this block. It takes its name, or the place of an older one, when the
        block ends without an error; until then the older one stays."""
        partial = unguessable(name)
        system.make_directory(partial, self._descriptor)
        try:
            with self.child(partial) as new:
                yield new
                new.flush()
            self._replace_tree(partial, name)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(partial)
            raise
        self.flush()

    def _replace_tree(self, new: str, name: str) -> None:
        if not self.exists(name):
            system.rename(new, name, self._descriptor)
            return
        aside = put_aside_name(name)
        if system.exchange(new, name, self._descriptor):
            self.flush()
            self.remove(new)
        else:
            # Two renames leave a moment without the name: then the old one has its other name, which `recover` undoes.
            self.remove(aside)
            system.rename(name, aside, self._descriptor)
            self.flush()
            system.rename(new, name, self._descriptor)
            self.flush()
        self.remove(aside)

    def recover(self, only: str = "") -> None:
        """Removes what a killed process left half done, and gives back a name that it had put aside; `only` what was
        to have one name, where not all of the directory is ours."""
        for name in self.names():
            if not (name.startswith(f".{only}") and name.endswith(PARTIAL)):
                continue
            if only and not re.fullmatch(
                r"\.([0-9a-f]{16}|replaced)", name.removeprefix(f".{only}").removesuffix(PARTIAL)
            ):
                continue
            original = name[1:].removesuffix(f".replaced{PARTIAL}")
            if name == put_aside_name(original) and not self.exists(original):
                system.rename(name, original, self._descriptor)
            else:
                self.remove(name)

    def rename(self, old: str, new: str) -> None:
        """Gives an entry another name; what had that name is removed."""
        if self.is_directory(new):
            self.remove(new)
        system.rename(_plain(old), _plain(new), self._descriptor)

    def remove(self, name: str, deepest: int = DEEPEST) -> None:
        """Removes a file, a link (not what it leads to) or a whole directory, if it is there."""
        mode = self._mode(name)
        if stat.S_ISDIR(mode):
            if not deepest:
                raise CheckpointError(f"{self.path / name} lies too deep to be removed")
            with self.child(name) as inside:
                for entry in inside.names():
                    inside.remove(entry, deepest - 1)
            system.remove_directory(name, self._descriptor)
        elif mode:
            system.remove(name, self._descriptor)


def _inode(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _is_open_as(descriptor: int, inode: tuple[int, int]) -> bool:
    try:
        return _inode(descriptor) == inode
    except OSError:
        return False


def read(path: Path, largest: int = LARGEST_TEXT) -> bytes:
    """The whole of a regular file, in a directory that may be a stranger's."""
    with Directory.open(path.parent) as directory:
        return directory.read(path.name, largest)


def put_aside_name(name: str) -> str:
    """What an old directory is called while a new one takes its name."""
    return f".{name}.replaced{PARTIAL}"


def _plain(name: str) -> str:
    if not name or name in (".", "..") or "/" in name or "\0" in name:
        raise CheckpointError(f"{name!r} is not the name of a file")
    return name


def unguessable(name: str) -> str:
    return f".{name}.{secrets.token_hex(8)}{PARTIAL}"


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[system.write(descriptor, view) :]
