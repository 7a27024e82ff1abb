"""A run's directory: taken for a new run, taken up again, and ours alone while we write there."""

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from acer.config import Config, to_json
from acer.errors import CheckpointError, SettingsError
from acer.run import store
from acer.run.files import Directory
from acer.run.logs import put_aside
from acer.run.store import CHECKPOINTS, CONFIG

UNKNOWN = "unknown"  # the version of a run's checkpoints that could not be read


class DirectoryInUse(SettingsError):
    """A directory that is somebody else's."""


class RunDirectory:
    """Files of one run. Locked from the first read to the last write, by `take` and `release`."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # wherever the process goes
        self._files: Directory | None = None
        self._version: str | None = None  # what the run's checkpoints were when we had them last

    @classmethod
    def create(cls, path: Path, config: Config) -> Self:
        """Takes an empty directory for a new run; one that is in use is never overwritten."""
        run = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            run.take()
            run.files.recover(CONFIG)
            if run.files.names():
                hint = f"; to go on with it: acer resume {path}" if run.files.is_file(CONFIG) else ""
                raise DirectoryInUse(f"{path} exists and is not empty: choose another --out{hint}")
            run.files.replace(CONFIG, to_json(config).encode())
        except (FileExistsError, NotADirectoryError):
            raise DirectoryInUse(f"{path} exists and is not empty: choose another --out") from None
        except OSError as error:
            raise SettingsError(f"cannot write to {path}: {error.strerror}; choose another --out") from None
        except BaseException:
            run.release()
            raise
        return run

    @classmethod
    def create_next(cls, path: Path, config: Config) -> Self:
        """Takes `path` for a new run, or the first of path-2, path-3, … that nobody uses."""
        for number in itertools.count(1):
            try:
                return cls.create(path if number == 1 else path.with_name(f"{path.name}-{number}"), config)
            except DirectoryInUse:
                continue
        raise AssertionError  # there is always another number

    @property
    def files(self) -> Directory:
        """The open directory, while it is ours."""
        assert self._files is not None
        return self._files

    def take(self) -> None:
        """Opens and locks the directory; refuses one where another process trains, or has trained since we had it."""
        if self._files is not None:
            return
        files = Directory.open(self.path)
        if not files.lock():
            files.close()
            raise DirectoryInUse(f"another process is training in {self.path}: wait for it, or stop it")
        version = store.version(files)
        if self._version not in (None, version):
            files.close()
            raise SettingsError(f"{self.path} has moved on since it was loaded: load it again")
        self._files = files

    def release(self) -> None:
        """Lets others have the directory."""
        if self._files is not None:
            try:
                self._version = store.version(self._files)
            except (OSError, CheckpointError):
                self._version = UNKNOWN  # whoever goes on has to load it again
            self._files.close()
            self._files = None

    def never_saved(self) -> bool:
        """Whether there is no checkpoint yet."""
        return store.never_saved(self.files)

    @contextlib.contextmanager
    def writing(self, steps: int, config: Config | None) -> Iterator[Directory]:
        """Ours alone for a run that goes on from `steps`: see `go_on`."""
        self.go_on(steps, config)
        try:
            yield self.files
        finally:
            self.release()

    def go_on(self, steps: int, config: Config | None) -> None:
        """Takes the directory for a run that goes on from `steps`, with another configuration if one is given. Puts
        aside what that undoes, or what a run without a checkpoint logged before."""
        self.take()
        if config is not None:
            self.files.replace(CONFIG, to_json(config).encode())
        self.files.recover()
        if self.never_saved():
            put_aside(self.files)
        if self.files.exists(CHECKPOINTS):
            with self.files.child(CHECKPOINTS) as root:
                root.recover()
                store.forget_after(root, steps)
