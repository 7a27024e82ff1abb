"""Directories of runs and checkpoints, as several test files look at them."""

import json
from pathlib import Path
from typing import Any

import pytest

from acer.run import checkpoint, store
from acer.run.checkpoint import STATE, Checkpoint
from acer.run.files import Directory


def latest(run: Path) -> Checkpoint:
    """A run's newest checkpoint; nothing may have to be said about it."""
    return store.find(run, pytest.fail)


def numbered(run: Path) -> list[Path]:
    """The checkpoints of a run, newest first."""
    return sorted((path for path in (run / "checkpoints").iterdir() if path.name.isdigit()), reverse=True)


def rewrite_state(where: Path, state: dict[str, Any]) -> None:
    """Writes a checkpoint's state with its own hash made right, as a stranger would who means harm."""
    (where / STATE).write_text(json.dumps(state | {"sha256": checkpoint.digest(state)}))


def read_state(where: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((where / STATE).read_text())
    return state


def rehash(where: Path) -> None:
    """Makes hashes and sizes of all files right again."""
    state = read_state(where)
    with Directory.open(where) as directory:
        for name in state.get("files", {}):
            if directory.is_file(name):
                state["files"][name] = {"bytes": directory.size(name), "sha256": directory.digest(name)}
    rewrite_state(where, state)
