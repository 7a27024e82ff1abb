"""The format of a checkpoint: a directory of safetensors, compressed blocks and JSON; nothing in it is code.

    model.safetensors     θ, θ_a and the optimiser's mean of squares, by parameter; running normalisation
    replay.safetensors    the replay memory's plain arrays
    replay.blocks         its compressed observations, one after the other
    run.safetensors       where the environments stand and how they came there
    actor-1.run.safetensors, …   the last three of a second actor-learner, and of every further one
    state.json            configuration, counters, random streams, versions; size and SHA-256 of every file

A model saved by hand is such a directory too, with the model and the state only. What is read is checked first: sizes
and hashes, then names, shapes and dtypes, before memory is taken for it.
"""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
from numpy.typing import NDArray
from torch import Tensor

from acer.errors import CheckpointError
from acer.machine import free_memory
from acer.run.files import Directory

FORMAT = 5
MODEL, REPLAY, BLOCKS, RUN, STATE = (
    "model.safetensors",
    "replay.safetensors",
    "replay.blocks",
    "run.safetensors",
    "state.json",
)
OF_AN_ACTOR = re.compile(rf"(actor-[1-9][0-9]{{0,4}}\.)?({'|'.join(map(re.escape, (RUN, REPLAY, BLOCKS)))})")
LARGEST_HEADER = 1 << 20  # bytes of a safetensors header that are read at all
CHUNK = 1 << 22

Arrays = dict[str, NDArray[Any]]
Layout = Mapping[str, tuple[tuple[int, ...], str]]
"""Shape and dtype (as PyTorch writes it) of each tensor of a model."""


class Actor(Protocol):
    """What one actor-learner has beside the parameters."""

    @property
    def run(self) -> Arrays:
        """Where its environments stand."""

    @property
    def replay(self) -> Arrays: ...

    @property
    def blocks(self) -> Sequence[bytes]:
        """The replay memory's compressed observations."""

    @property
    def streams(self) -> dict[str, Any]:
        """States of its random generators."""


class ActorFiles(NamedTuple):
    """An `Actor` as it was read; its blocks are one."""

    run: Arrays
    replay: Arrays
    blocks: list[bytes]
    streams: dict[str, Any]


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. Everything in it is a copy: it can be written while the run goes on."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    actors: Sequence[Actor | None] = ()  # None for one that was dead at that moment


# ------------------------------------------------------------------ writing


def write(parent: Directory, name: str, snapshot: Snapshot) -> None:
    """Writes one checkpoint, whole or not at all. An existing one of the same name stays until the new one is
    complete."""
    with parent.building(name) as directory:
        contiguous = {key: tensor.contiguous() for key, tensor in snapshot.tensors.items()}
        files = {MODEL: directory.write(MODEL, [safetensors.torch.save(contiguous)])}
        for number, actor in enumerate(snapshot.actors):
            if actor is not None:
                for kind, arrays in ((RUN, actor.run), (REPLAY, actor.replay)):
                    file = _of_actor(number, kind)
                    files[file] = directory.write(file, [safetensors.numpy.save(_contiguous(arrays))])
                file = _of_actor(number, BLOCKS)
                files[file] = directory.write(file, _gathered(actor.blocks))
        streams = [None if actor is None else actor.streams for actor in snapshot.actors]
        state = {"format": FORMAT, **snapshot.state, "random_streams": streams, "files": files}
        directory.write(STATE, [(json.dumps(state | {"sha256": digest(state)}, indent=1) + "\n").encode()])


def save(path: Path, snapshot: Snapshot) -> None:
    """Writes a model where the user wants it; an older model of that name stays until the new one is complete. Nothing
    but a saved model is replaced."""
    if path.exists() and not is_model(path):
        raise CheckpointError(f"{path} exists and is not a saved model; choose another path")
    path.absolute().parent.mkdir(parents=True, exist_ok=True)
    with Directory.open(path.absolute().parent) as parent:
        write(parent, path.name, snapshot)
        parent.recover(path.name)  # what an earlier save left when its process was killed


def is_model(path: Path) -> bool:
    """Whether a saved model is there and nothing else: a checkpoint of a run, or a run with its agent, is more."""
    return path.is_dir() and set(os.listdir(path)) == {MODEL, STATE}


def _of_actor(number: int, name: str) -> str:
    return f"actor-{number}.{name}" if number else name


def _gathered(blocks: Sequence[bytes]) -> Iterator[bytes]:
    """Many small blocks as few large chunks."""
    waiting: list[bytes] = []
    size = 0
    for block in blocks:
        waiting.append(block)
        size += len(block)
        if size >= CHUNK:
            yield b"".join(waiting)
            waiting, size = [], 0
    yield b"".join(waiting)


def _contiguous(arrays: Arrays) -> Arrays:
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def digest(state: dict[str, Any]) -> str:
    """Hash of a JSON object without its own."""
    rest = {key: value for key, value in state.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


# ------------------------------------------------------------------ reading


class Checkpoint:
    """A checkpoint whose hashes are right; what is in it is still a stranger's word."""

    def __init__(self, directory: Directory) -> None:
        """Checks the state's own hash, then size and hash of every file that it names."""
        self._directory = directory
        self.state = _read_state(directory)
        with self._readable():
            self._check_files(directory)

    def _check_files(self, directory: Directory) -> None:
        files = self.state.get("files")
        if (
            not isinstance(files, dict)
            or MODEL not in files
            or not all(name == MODEL or OF_AN_ACTOR.fullmatch(name) for name in files)
        ):
            raise CheckpointError(f"{self.path / STATE} is damaged: it does not say which files there are")
        for name, expected in files.items():
            file = self.path / name
            if not directory.is_file(name):
                raise CheckpointError(f"{file} is missing")
            size = directory.size(name)
            if not isinstance(expected, dict) or size != expected.get("bytes"):
                raise CheckpointError(f"{file} is damaged: its size of {size:,} bytes is not that in {STATE}")
        self._check_memory(sum(entry["bytes"] for entry in files.values()))
        for name, expected in files.items():
            if directory.digest(name) != expected.get("sha256"):
                raise CheckpointError(f"{self.path / name} is damaged: its SHA-256 is not the one in {STATE}")

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        """What the disk refuses, in one line: a run may remove its checkpoint, or a save replace it, while we read."""
        try:
            yield
        except OSError as error:
            reason = "it is gone" if isinstance(error, FileNotFoundError) else error.strerror or error
            raise CheckpointError(f"{error.filename or self.path} cannot be read: {reason}") from None

    def _check_memory(self, size: int) -> None:
        """Loading takes about twice the files' size for a moment."""
        free = free_memory()
        if 2 * size > free:
            raise CheckpointError(f"{self.path} needs {2 * size / 1e9:,.1f} GB of memory, {free / 1e9:,.1f} are free")

    @property
    def path(self) -> Path:
        return self._directory.path

    @property
    def is_run(self) -> bool:
        """Whether it has the actor-learners, so that the run can go on."""
        return bool(self.state.get("random_streams"))

    def check_model(self, expected: Layout) -> None:
        """Refuses a model file whose names, shapes or dtypes are not the expected ones; only its header is read."""
        path = self.path / MODEL
        kinds = {"F32": "torch.float32", "F64": "torch.float64"}
        header = self._header(MODEL)
        for name in sorted(header.keys() ^ expected.keys()):
            raise CheckpointError(f"{path}: {name} is {'missing' if name in expected else 'not of this network'}")
        for name, (shape, dtype) in expected.items():
            found_shape, found_kind = header[name]
            if found_shape != shape or kinds.get(found_kind) != dtype:
                raise CheckpointError(f"{path}: {name} has shape {found_shape}, the network needs {shape} of {dtype}")

    def tensors(self, expected: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The model's tensors, which must have exactly the expected names, shapes and dtypes."""
        self.check_model({name: (tuple(tensor.shape), str(tensor.dtype)) for name, tensor in expected.items()})
        try:
            return safetensors.torch.load(self._read(MODEL))
        except (ValueError, safetensors.SafetensorError) as error:
            raise CheckpointError(f"{self.path / MODEL} cannot be read: {error}") from None

    def actors(self, count: int) -> list[ActorFiles | None]:
        """What each actor-learner had beside the parameters; None for those of which nothing was saved."""
        if not self.is_run:
            raise CheckpointError(f"{self.path} is a model without its run: it can be loaded and taught, not resumed")
        all_streams = self.state["random_streams"]
        saved = [number for number, streams in enumerate(all_streams) if streams is not None]
        files = {_of_actor(number, name) for number in saved for name in (RUN, REPLAY, BLOCKS)}
        if len(all_streams) != count or files | {MODEL} != self.state["files"].keys():
            raise CheckpointError(f"{self.path / STATE} is damaged: its files are not those of {count} actor-learners")
        return [None if streams is None else self._actor(number, streams) for number, streams in enumerate(all_streams)]

    def _actor(self, number: int, streams: dict[str, Any]) -> ActorFiles:
        run, replay, blocks = (_of_actor(number, name) for name in (RUN, REPLAY, BLOCKS))
        return ActorFiles(self._arrays(run), self._arrays(replay), [self._read(blocks)], streams)

    def _arrays(self, name: str) -> Arrays:
        """Plain arrays. Their sizes cannot exceed the file's, which has been checked."""
        self._header(name)
        try:
            return safetensors.numpy.load(self._read(name))
        except (ValueError, KeyError, TypeError, safetensors.SafetensorError) as error:
            raise CheckpointError(f"{self.path / name} cannot be read: {error}") from None

    def _read(self, name: str) -> bytes:
        with self._readable():
            return self._directory.read(name, self.state["files"][name]["bytes"])

    def _header(self, name: str) -> dict[str, tuple[tuple[int, ...], str]]:
        """Shape and dtype of each tensor, as a safetensors file begins with them."""
        path = self.path / name
        try:
            with self._readable(), self._directory.reading(name) as file:
                size = int.from_bytes(file.read(8), "little")
                if size > LARGEST_HEADER:
                    raise ValueError(f"a header of {size:,} bytes")
                header = json.loads(file.read(size))
            header.pop("__metadata__", None)
            with self._readable():
                room = self._directory.size(name) - 8 - size
            if not all(0 <= begin <= end <= room for begin, end in (e["data_offsets"] for e in header.values())):
                raise ValueError("tensors beyond the file's end")
            return {key: (tuple(entry["shape"]), str(entry["dtype"])) for key, entry in header.items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CheckpointError(f"{path} cannot be read: {type(error).__name__}: {error}") from None


def _read_state(directory: Directory) -> dict[str, Any]:
    path = directory.path / STATE
    try:
        state = json.loads(directory.read(STATE))
        own_digest = digest(state) if isinstance(state, dict) else ""
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not of format {FORMAT}, the one that this version reads")
    if state.get("sha256") != own_digest:
        raise CheckpointError(f"{path} is damaged: its SHA-256 is not its own")
    return state
