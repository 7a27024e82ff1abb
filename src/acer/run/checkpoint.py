"""Checkpoints: numbered directories of safetensors, compressed blocks and JSON; nothing in them is code.

    checkpoints/
        LATEST                    name of the newest complete checkpoint
        BEST                      name of the one with the best evaluation, if there was one
        000000100032/
            model.safetensors     θ, θ_a and the optimiser's mean of squares, by parameter; running normalisation
            replay.safetensors    the replay memory's plain arrays
            replay.blocks         its compressed observations, one after the other
            run.safetensors       where the environments stand and how they came there
            actor-1.run.safetensors, …   the last three of a second actor-learner, and of every further one
            state.json            configuration, counters, random streams, versions; size and SHA-256 of every file

A checkpoint is written beside its place, flushed to disk, renamed, and only then named in LATEST. A model saved by hand
is such a directory too, with the model and the state only. What is read is checked first: hashes, then names, shapes
and sizes, before memory is taken for it.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
from torch import Tensor

from acer.errors import CheckpointError
from acer.learner.actor_learner import ActorState, Arrays
from acer.machine import give_back_memory

FORMAT = 5
MODEL, REPLAY, BLOCKS, RUN, STATE = (
    "model.safetensors",
    "replay.safetensors",
    "replay.blocks",
    "run.safetensors",
    "state.json",
)
OF_AN_ACTOR = re.compile(rf"(actor-[1-9][0-9]{{0,4}}\.)?({'|'.join(map(re.escape, (RUN, REPLAY, BLOCKS)))})")
LATEST, BEST = "LATEST", "BEST"
LARGEST_STATE = 32 << 20  # bytes of state.json that are read at all
CHUNK = 1 << 22


@dataclass(frozen=True)
class Snapshot:
    """A run at one moment. Everything in it is a copy: it can be written while the run goes on."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]
    parts: Sequence[ActorState | None] = ()  # of each actor-learner; None for one that was dead at that moment


# ------------------------------------------------------------------ writing


def write(directory: Path, snapshot: Snapshot) -> None:
    """Writes one checkpoint, whole or not at all; an existing one of the same name is replaced only when the new one
    is complete."""
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        contiguous = {name: tensor.contiguous() for name, tensor in snapshot.tensors.items()}
        files = {MODEL: _put(partial / MODEL, [safetensors.torch.save(contiguous)])}
        for actor, part in enumerate(snapshot.parts):
            if part is not None:
                for name, arrays in ((RUN, part.run), (REPLAY, part.replay)):
                    name = _of_actor(actor, name)
                    files[name] = _put(partial / name, [safetensors.numpy.save(_contiguous(arrays))])
                name = _of_actor(actor, BLOCKS)
                files[name] = _put(partial / name, _gathered(part.blocks))
        streams = [None if part is None else part.streams for part in snapshot.parts]
        state = {"format": FORMAT, **snapshot.state, "random_streams": streams, "files": files}
        _put(partial / STATE, [(json.dumps(state | {"sha256": _digest(state)}, indent=1) + "\n").encode()])
        _flush(partial)
        aside = directory.with_name(f".{directory.name}.replaced.partial")
        if directory.exists():
            shutil.rmtree(aside, ignore_errors=True)  # of a save that was killed
            directory.rename(aside)
        partial.rename(directory)
        _flush(directory.parent)
        shutil.rmtree(aside, ignore_errors=True)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def write_numbered(root: Path, steps: int, snapshot: Snapshot, keep: int, best: bool = False) -> Path:
    """Writes a run's next checkpoint, names it in LATEST, and removes all but the last `keep` and the best."""
    root.mkdir(parents=True, exist_ok=True)
    for left_over in root.glob(".*.partial"):  # of a process that was killed
        if left_over.is_dir():
            shutil.rmtree(left_over)
    directory = root / f"{steps:012d}"
    write(directory, snapshot)
    replace_text(root / LATEST, f"{directory.name}\n")
    if best:
        replace_text(root / BEST, f"{directory.name}\n")
    for undone in root.glob("*.undone"):  # what the run has now passed again
        if undone.name.removesuffix(".undone") <= directory.name:
            shutil.rmtree(undone)
    kept = {directory.name, _named_in(root / BEST)}
    for old in [path for path in _numbered(root) if path.name not in kept][max(0, keep - 1) :]:
        shutil.rmtree(old)
    return directory


def _of_actor(actor: int, name: str) -> str:
    return f"actor-{actor}.{name}" if actor else name


def _put(path: Path, chunks: Iterable[bytes]) -> dict[str, Any]:
    """Writes a file through to the disk; gives its size and hash."""
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": size, "sha256": digest.hexdigest()}


def _gathered(blocks: list[bytes]) -> Iterator[bytes]:
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


def _digest(state: dict[str, Any]) -> str:
    """Hash of a JSON object without its own."""
    rest = {key: value for key, value in state.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def replace_text(path: Path, text: str) -> None:
    """Writes a file whole: at any moment it has the old text or the new one."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)
    _flush(path.parent)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Saver:
    """Writes a run's checkpoints in a thread of its own, one at a time; training goes on meanwhile.

    A disk that is full, or a directory that cannot be written, costs this checkpoint and no other.
    """

    def __init__(self, root: Path, keep: int, say: Callable[[str], None]) -> None:
        self.root, self._keep, self._say = root, keep, say
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[Path] | None = None

    def save(self, steps: int, snapshot: Snapshot, best: bool = False) -> None:
        self.wait()
        self._writing = self._pool.submit(self._write, steps, snapshot, best)

    def _write(self, steps: int, snapshot: Snapshot, best: bool) -> Path:
        try:
            return write_numbered(self.root, steps, snapshot, self._keep, best)
        finally:
            give_back_memory()  # copies of everything leave gaps that the heap would grow around, save after save

    def wait(self) -> bool:
        """Waits for what is being written; False if it could not be."""
        writing, self._writing = self._writing, None
        if writing is None:
            return True
        try:
            writing.result()
        except OSError as error:
            self._say(
                f"cannot save a checkpoint in {self.root}: {error.strerror or error}; the last good one is untouched"
            )
            return False
        return True


# ------------------------------------------------------------------ finding and checking


def find(path: Path, say: Callable[[str], None], best: bool = False) -> tuple[Path, dict[str, Any]]:
    """The checkpoint that `path` means, checked, with its state: itself, or the newest good one of a run's directory.

    A damaged one is named loudly and passed over; there is no silent start from an older one, or from scratch.
    """
    if (path / STATE).is_file():
        if best:
            raise CheckpointError(f"{path} is one model: --best is for the directory of a run")
        return path, check(path)
    root = path / "checkpoints"
    if not path.exists():
        raise CheckpointError(f"{path}: no such directory")
    wanted = _named_in(root / (BEST if best else LATEST))
    if best and not wanted:
        raise CheckpointError(f"{path} has no best checkpoint: evaluate during training with --eval-every")
    candidates = sorted(_numbered(root), key=lambda candidate: candidate.name != wanted)  # stable: newest first
    if not candidates:
        raise CheckpointError(f"{path} holds neither a run with a checkpoint nor a saved model")
    problems = []
    if wanted and candidates[0].name != wanted:
        problems.append(f"{root / wanted} is missing")
    for candidate in candidates:
        try:
            state = check(candidate)
        except CheckpointError as error:
            problems.append(str(error))
            continue
        for problem in problems:
            say(f"{problem}; using {candidate} instead")
        return candidate, state
    raise CheckpointError(f"{path} has no usable checkpoint: {'; '.join(problems[:3])}")


def run_of(path: Path) -> Path:
    """The directory of the run that `path` is, or is a checkpoint of."""
    whole = path.resolve()
    return whole.parent.parent if whole.parent.name == "checkpoints" and (whole / STATE).is_file() else path


def forget_after(root: Path, steps: int) -> None:
    """Puts aside the checkpoints of a run that are newer than the one it goes on from: they would outlive good ones."""
    current = f"{steps:012d}"
    newer = [path for path in _numbered(root) if path.name > current]
    if newer and (root / current / STATE).is_file():
        replace_text(root / LATEST, f"{current}\n")
    if _named_in(root / BEST) > current:
        (root / BEST).unlink()
    for path in newer:
        aside = path.with_name(f"{path.name}.undone")
        shutil.rmtree(aside, ignore_errors=True)
        path.rename(aside)


def never_saved(path: Path) -> bool:
    """Whether `path` is a run's directory without any checkpoint."""
    return (path / "config.json").is_file() and not _numbered(path / "checkpoints")


def check(directory: Path) -> dict[str, Any]:
    """A checkpoint's state, after its own hash and size and hash of every file that it names."""
    state = _read_state(directory / STATE)
    files = state.get("files")
    if (
        not isinstance(files, dict)
        or MODEL not in files
        or not all(name == MODEL or OF_AN_ACTOR.fullmatch(name) for name in files)
    ):
        raise CheckpointError(f"{directory / STATE} is damaged: it does not say which files there are")
    for name, expected in files.items():
        file = directory / name
        if not file.is_file() or file.is_symlink():
            raise CheckpointError(f"{file} is missing")
        if not isinstance(expected, dict) or file.stat().st_size != expected.get("bytes"):
            raise CheckpointError(
                f"{file} is damaged: its size of {file.stat().st_size:,} bytes is not that in {STATE}"
            )
        if _hash(file) != expected.get("sha256"):
            raise CheckpointError(f"{file} is damaged: its SHA-256 is not the one in {STATE}")
    return state


def _read_state(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST_STATE:
            raise CheckpointError(f"{path} is larger than any state ({path.stat().st_size:,} bytes)")
        state = json.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{path} is not of format {FORMAT}, the one that this version reads")
    if state.get("sha256") != _digest(state):
        raise CheckpointError(f"{path} is damaged: its SHA-256 is not its own")
    return state


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _numbered(root: Path) -> list[Path]:
    """The complete checkpoints of a run, newest first."""
    if not root.is_dir():
        return []
    return sorted((p for p in root.iterdir() if p.name.isascii() and p.name.isdigit() and p.is_dir()), reverse=True)


def _named_in(pointer: Path) -> str:
    """The name in LATEST or BEST; empty if there is none that could be a checkpoint's."""
    try:
        name = pointer.read_bytes()[:64].decode("ascii", "replace").strip()
    except OSError:
        return ""
    return name if name.isdigit() else ""


# ------------------------------------------------------------------ reading


def read_tensors(directory: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, which must have exactly the expected names, shapes and dtypes: looked at before any is loaded."""
    path = directory / MODEL
    check_model(directory, {name: (tuple(tensor.shape), str(tensor.dtype)) for name, tensor in expected.items()})
    with _opened(path, "pt") as file:
        return {name: file.get_tensor(name) for name in expected}


def check_model(directory: Path, expected: dict[str, tuple[tuple[int, ...], str]]) -> None:
    """Refuses a model file whose names, shapes or dtypes are not the expected ones."""
    path = directory / MODEL
    kinds = {"F32": "torch.float32", "F64": "torch.float64"}
    with _opened(path, "pt") as file:
        names = set(file.keys())
        for name in sorted(names ^ expected.keys()):
            raise CheckpointError(f"{path}: {name} is {'missing' if name in expected else 'not of this network'}")
        for name, (shape, dtype) in expected.items():
            found = file.get_slice(name)
            if tuple(found.get_shape()) != shape or kinds.get(found.get_dtype()) != dtype:
                raise CheckpointError(
                    f"{path}: {name} has shape {tuple(found.get_shape())}, the network needs {shape} of {dtype}"
                )


def read_parts(directory: Path, state: dict[str, Any], actors: int) -> list[ActorState | None]:
    """What each actor-learner had beside the parameters; None for those of which nothing was saved."""
    if not state["random_streams"]:
        raise CheckpointError(f"{directory} is a model without its run: it can be loaded and taught, not resumed")
    saved = [actor for actor, streams in enumerate(state["random_streams"]) if streams is not None]
    files = {_of_actor(actor, name) for actor in saved for name in (RUN, REPLAY, BLOCKS)}
    if len(state["random_streams"]) != actors or files | {MODEL} != state["files"].keys():
        raise CheckpointError(f"{directory / STATE} is damaged: its files are not those of {actors} actor-learners")
    return [
        None if streams is None else ActorState(
            read_arrays(directory / _of_actor(actor, RUN)),
            read_arrays(directory / _of_actor(actor, REPLAY)),
            [(directory / _of_actor(actor, BLOCKS)).read_bytes()],
            streams,
        )
        for actor, streams in enumerate(state["random_streams"])
    ]  # fmt: skip


def read_arrays(path: Path) -> Arrays:
    """Plain arrays. Their sizes cannot exceed the file's, which has been checked."""
    with _opened(path, "np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _opened(path: Path, framework: str) -> Any:
    try:
        return safetensors.safe_open(path, framework)
    except (OSError, ValueError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
