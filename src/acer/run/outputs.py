"""Single files where the user wants them: pictures, films, pages. They are written whole, and no link is followed."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from acer.errors import SettingsError
from acer.run.files import Directory, unguessable


@contextlib.contextmanager
def beside(output: Path) -> Iterator[Path]:
    """A file to be written in the block, in a directory of its own beside `output`; it takes that name when the block
    ends well. A link of that name is replaced, not followed."""
    try:
        with Directory.open(output.parent) as parent:
            _check_replaceable(parent, output)
            holder = unguessable("output")
            os.mkdir(output.parent / holder, 0o700)
            try:
                partial = output.parent / holder / output.name
                yield partial
                partial.rename(output)
            finally:
                parent.remove(holder)
    except OSError as error:
        raise SettingsError(f"cannot write {output}: {error.strerror or error}") from None


def write_beside(output: Path, content: bytes) -> None:
    """Writes a file that the user named, whole or not at all."""
    with beside(output) as partial:
        partial.write_bytes(content)


def check_writable(output: Path) -> None:
    """Refuses a place where no file can be written, before there is something to lose."""
    try:
        with Directory.open(output.parent) as parent:
            _check_replaceable(parent, output)
            trial = unguessable("output")
            parent.write(trial, [])
            parent.remove(trial)
    except OSError as error:
        raise SettingsError(f"cannot write {output}: {error.strerror}") from None


def _check_replaceable(parent: Directory, output: Path) -> None:
    """A file, a link or nothing may have the name: /dev/null, a pipe and a directory stay what they are."""
    if output.name in ("", "..") or parent.is_directory(output.name):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if parent.exists(output.name) and not (parent.is_file(output.name) or output.is_symlink()):
        raise SettingsError(f"cannot write {output}: it is not a regular file")
