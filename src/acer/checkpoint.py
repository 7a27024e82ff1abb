"""Checkpoints: numbered directories of safetensors and JSON; nothing in them is code.

    checkpoints/
        LATEST                  name of the newest complete checkpoint
        000000100032/
            model.safetensors   θ, θ_a and the optimiser's mean of squares, by parameter; running normalisation
            replay.safetensors  the replay memory: compressed blocks and plain arrays
            state.json          configuration, spaces, counters, random streams, versions

A checkpoint is written beside its place, flushed, renamed, and only then named in LATEST. A model saved by hand is
such a directory too, without the replay memory.
"""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
from numpy.typing import NDArray
from torch import Tensor

from acer.errors import CheckpointError

FORMAT = 1
MODEL, REPLAY, STATE, LATEST = "model.safetensors", "replay.safetensors", "state.json", "LATEST"


def write(
    directory: Path, tensors: dict[str, Tensor], state: dict[str, Any], replay: dict[str, NDArray[Any]] | None = None
) -> None:
    """Writes one checkpoint, whole or not at all; an existing one of the same name is replaced only when the new one
    is complete."""
    partial = directory.with_name(f".{directory.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial / MODEL)
    if replay is not None:
        contiguous = {name: np.ascontiguousarray(array) for name, array in replay.items()}
        safetensors.numpy.save_file(contiguous, partial / REPLAY)
    (partial / STATE).write_text(json.dumps({"format": FORMAT, **state}, indent=1) + "\n")
    for file in partial.iterdir():
        _flush(file)
    if directory.exists():
        shutil.rmtree(directory)
    partial.rename(directory)
    _flush(directory.parent)


def write_numbered(
    root: Path,
    steps: int,
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    replay: dict[str, NDArray[Any]],
    keep: int,
) -> Path:
    """Writes a run's next checkpoint, names it in LATEST, and removes all but the last `keep`."""
    directory = root / f"{steps:012d}"
    write(directory, tensors, state, replay)
    partial = root / f".{LATEST}.partial"
    partial.write_text(directory.name + "\n")
    _flush(partial)
    partial.rename(root / LATEST)
    _flush(root)
    for old in sorted(path for path in root.iterdir() if path.name.isdigit() and path != directory)[
        : -keep + 1 or None
    ]:
        shutil.rmtree(old)
    return directory


def find(path: Path) -> Path:
    """The checkpoint that `path` means: itself, or the latest of a run's directory."""
    if (path / STATE).is_file():
        return path
    latest = path / "checkpoints" / LATEST
    if latest.is_file():
        name = latest.read_text().strip()
        if name.isdigit() and (path / "checkpoints" / name / STATE).is_file():
            return path / "checkpoints" / name
        raise CheckpointError(f"{latest} names {name!r}, which is not a complete checkpoint")
    if not path.exists():
        raise CheckpointError(f"{path}: no such directory")
    raise CheckpointError(f"{path} holds neither a run with a checkpoint nor a saved model")


def never_saved(path: Path) -> bool:
    """Whether `path` is a run's directory without any checkpoint."""
    return (path / "config.json").is_file() and not list((path / "checkpoints").glob("[0-9]*"))


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The JSON part."""
    try:
        state = json.loads((checkpoint / STATE).read_text())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint / STATE} cannot be read: {error}") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointError(f"{checkpoint / STATE} is not of format {FORMAT}, the one that this version reads")
    return state


def read_tensors(checkpoint: Path, expected: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, which must have exactly the expected names, shapes and dtypes."""
    try:
        tensors = safetensors.torch.load_file(checkpoint / MODEL)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{checkpoint / MODEL} cannot be read: {error}") from None
    for name in sorted(tensors.keys() ^ expected.keys()):
        raise CheckpointError(
            f"{checkpoint / MODEL}: {name} is {'missing' if name in expected else 'not of this network'}"
        )
    for name, tensor in tensors.items():
        if tensor.shape != expected[name].shape or tensor.dtype != expected[name].dtype:
            raise CheckpointError(
                f"{checkpoint / MODEL}: {name} has shape {tuple(tensor.shape)}, "
                f"the network needs {tuple(expected[name].shape)}"
            )
    return tensors


def read_replay(checkpoint: Path) -> dict[str, NDArray[Any]]:
    """The replay memory's arrays."""
    try:
        return safetensors.numpy.load_file(checkpoint / REPLAY)
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{checkpoint / REPLAY} cannot be read: {error}") from None


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
