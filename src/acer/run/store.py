"""The checkpoints of a run: numbered directories, and which of them is the latest and the best.

    checkpoints/
        LATEST          name of the newest complete checkpoint
        BEST            name of the one with the best evaluation, if there was one
        000000100032/   a checkpoint, by the run's steps

A checkpoint is written beside its place, flushed to disk, renamed, and only then named in LATEST.
"""

import errno
import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import Any

from acer import config as configuration
from acer.errors import CheckpointError, SettingsError, in_one_line
from acer.machine import give_back_memory
from acer.run import checkpoint, files
from acer.run.checkpoint import STATE, Checkpoint, Snapshot
from acer.run.files import Directory, put_aside_name

CHECKPOINTS, CONFIG = "checkpoints", "config.json"
LATEST, BEST = "LATEST", "BEST"
UNDONE = ".undone"  # ending of a checkpoint that a run has gone back behind


def write_numbered(root: Directory, steps: int, snapshot: Snapshot, keep: int, best: bool = False) -> None:
    """Writes a run's next checkpoint, names it in LATEST, and removes all but the last `keep` and the best."""
    root.recover()
    name = f"{steps:012d}"
    checkpoint.write(root, name, snapshot)
    _point(root, LATEST, name)
    if best:
        _point(root, BEST, name)
    for undone in root.names():
        if undone.endswith(UNDONE) and undone.removesuffix(UNDONE) <= name:  # the run has passed it again
            root.remove(undone)
    kept = {name, _named_in(root, BEST)}
    for old in [other for other in _numbered(root) if other not in kept][max(0, keep - 1) :]:
        root.remove(old)


def forget_after(root: Directory, steps: int) -> None:
    """Puts aside the checkpoints of a run that are newer than the one it goes on from: they would outlive good ones."""
    current = f"{steps:012d}"
    newer = [name for name in _numbered(root) if name > current]
    if newer and root.is_directory(current):
        _point(root, LATEST, current)
    if _named_in(root, BEST) > current:
        root.remove(BEST)
    for name in newer:
        root.rename(name, f"{name}{UNDONE}")


def never_saved(run: Directory) -> bool:
    """Whether a directory is a run's, without any checkpoint."""
    if not run.is_file(CONFIG):
        return False
    if not run.exists(CHECKPOINTS):
        return True
    with run.child(CHECKPOINTS) as root:
        return not _numbered(root)


def is_unsaved_run(path: Path) -> bool:
    """Whether `path` is a run's directory without any checkpoint."""
    try:
        with Directory.open(path) as run:
            return never_saved(run)
    except OSError:
        return False


def version(run: Directory) -> str:
    """Tells one state of a run's checkpoints from another: the latest one's name and content."""
    if not run.exists(CHECKPOINTS):
        return ""
    with run.child(CHECKPOINTS) as root:
        latest = _named_in(root, LATEST)
        if not latest or not root.is_directory(latest):
            return latest
        with root.child(latest) as newest:
            return f"{latest} {sha256(newest.read(STATE)).hexdigest()}" if newest.is_file(STATE) else latest


def identity(path: Path) -> list[Any]:
    """Tells a model, or a run's checkpoints, from those that have taken their place. A new directory may have an old
    one's number, but not its time."""
    try:
        with Directory.open(path) as directory:
            mine = os.stat(path)
            names: list[str] = []
            if directory.is_directory(CHECKPOINTS):
                with directory.child(CHECKPOINTS) as root:
                    names = root.names()
            return [mine.st_ino, mine.st_ctime_ns, *names]
    except (OSError, CheckpointError):
        return []


def find(path: Path, say: Callable[[str], None], best: bool = False) -> Checkpoint:
    """The checkpoint that `path` means, checked: itself, or the newest good one of a run's directory.

    A damaged one is named loudly and passed over; there is no silent start from an older one, or from scratch.
    """
    try:
        directory = _opened(path, say)
    except OSError:
        raise CheckpointError(f"{path}: no such directory") from None
    if directory.exists(STATE):
        if best:
            raise CheckpointError(f"{path} is one model: --best is for the directory of a run")
        return Checkpoint(directory)
    with directory:
        return _find_in_run(directory, say, best)


def _opened(path: Path, say: Callable[[str], None]) -> Directory:
    """The directory, or the old one that was being replaced by it when the machine stopped."""
    try:
        return Directory.open(path)
    except FileNotFoundError:
        old = path.with_name(put_aside_name(path.name))
        if not old.is_dir():
            raise
        say(f"{path} was being replaced when its process stopped; using the old one, {old}")
        return Directory.open(old)


def _find_in_run(run: Directory, say: Callable[[str], None], best: bool) -> Checkpoint:
    path = run.path
    nothing = f"{path} holds neither a run with a checkpoint nor a saved model"
    if not run.exists(CHECKPOINTS):
        raise CheckpointError(
            f"{path} has no best checkpoint: evaluate during training with --eval-every" if best else nothing
        )
    with run.child(CHECKPOINTS) as root:
        wanted = _named_in(root, BEST if best else LATEST)
        if best and not wanted:
            raise CheckpointError(f"{path} has no best checkpoint: evaluate during training with --eval-every")
        candidates = sorted(_numbered(root), key=lambda name: name != wanted)  # stable: newest first
        if not candidates:
            raise CheckpointError(nothing)
        problems = []
        if wanted and candidates[0] != wanted:
            problems.append(f"{root.path / wanted} is missing")
        for name in candidates:
            try:
                found = Checkpoint(root.child(name))
            except (CheckpointError, OSError) as error:  # OSError: it cannot be read, or a training run has removed it
                problems.append(in_one_line(error))
                continue
            for problem in problems:
                say(f"{problem}; using {found.path} instead")
            return found
    raise CheckpointError(f"{path} has no usable checkpoint: {'; '.join(problems[:3])}")


def settings_in(run: Path) -> dict[str, Any]:
    """What a run's config.json says, not yet checked."""
    path = run / CONFIG
    try:
        return configuration.parsed(files.read(path), path)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None


def run_of(path: Path) -> Path:
    """The directory of the run that `path` is, or is a checkpoint of."""
    whole = Path(os.path.abspath(path))  # as it is named: a link must not make another run of it
    return whole.parent.parent if whole.parent.name == CHECKPOINTS and (whole / STATE).is_file() else path


def _point(root: Directory, pointer: str, name: str) -> None:
    root.replace(pointer, f"{name}\n".encode())


def _numbered(root: Directory) -> list[str]:
    """The complete checkpoints of a run, newest first."""
    return [n for n in reversed(root.names()) if n.isascii() and n.isdigit() and root.is_directory(n)]


def _named_in(root: Directory, pointer: str) -> str:
    """The name in LATEST or BEST; empty if there is none that could be a checkpoint's."""
    try:
        name = root.read(pointer, 64).decode("ascii", "replace").strip()
    except (OSError, CheckpointError):
        return ""
    return name if name.isdigit() else ""


class Saver:
    """Writes a run's checkpoints in a thread of its own, one at a time; training goes on meanwhile.

    A disk that is full, or a directory that cannot be written, costs this checkpoint and no other.
    """

    def __init__(self, run: Directory, keep: int, say: Callable[[str], None]) -> None:
        self.run, self._keep, self._say = run, keep, say
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[None] | None = None

    def save(
        self, steps: int, snapshot: Snapshot, best: bool = False, flush_rows: Callable[[], None] | None = None
    ) -> None:
        """flush_rows: makes the rows last that the snapshot counts; it comes before the snapshot."""
        self.wait()
        try:
            self._writing = self._pool.submit(self._write, steps, snapshot, best, flush_rows)
        except RuntimeError as error:  # no thread could be started; what waits for one there would come too late
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
            self._writing = Future()
            self._writing.set_exception(OSError(errno.EAGAIN, in_one_line(error)))

    def _write(self, steps: int, snapshot: Snapshot, best: bool, flush_rows: Callable[[], None] | None) -> None:
        try:
            if flush_rows is not None:
                flush_rows()
            with self.run.child(CHECKPOINTS, create=True) as root:
                write_numbered(root, steps, snapshot, self._keep, best)
        finally:
            give_back_memory()  # copies of everything leave gaps that the heap would grow around, save after save

    @property
    def busy(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._writing is not None and not self._writing.done()

    def wait(self) -> bool:
        """Waits for what is being written; False if it could not be."""
        writing, self._writing = self._writing, None
        if writing is None:
            return True
        try:
            writing.result()
        except (OSError, CheckpointError) as error:
            reason = error.strerror or error if isinstance(error, OSError) else error
            where = self.run.path / CHECKPOINTS
            self._say(f"cannot save a checkpoint in {where}: {reason}; the last good one is untouched")
            return False
        return True
