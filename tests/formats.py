"""Checkpoints as the present code writes them, and what they are made of.

    python tests/formats.py 5.2    keeps some as tests/fixtures/format-5.2, with their layout

The number before the point is `checkpoint.FORMAT`. The one after it counts what was added since in a way that older
versions of acer read past. What was kept stays: every kept checkpoint has to load for ever.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import safetensors.numpy

FIXTURES = Path(__file__).parent / "fixtures"
SMALL = {"steps": 200, "environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "checkpoint_every": 100,
         "keep_checkpoints": 1, "eval_every": 100, "eval_episodes": 1, "eval_limit": 50}  # fmt: skip
RUNS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole": ("CartPole-v1", {}),
    "pendulum": ("Pendulum-v1", {"advantage_hidden": 8, "normalize_observations": True}),
    "slow-copy": ("CartPole-v1", {"target_rate": 0.05}),
    "shared": ("CartPole-v1", {"home": "shared", "actors": 2}),
}
FREE = ("config", "versions", "meter.since_row.diagnostics", "files")
"""Parts of state.json that have names of settings, metrics, packages and files: those may come and go."""


def number(path: Path) -> tuple[int, ...]:
    """Of a directory of fixtures."""
    return tuple(map(int, path.name.removeprefix("format-").split(".")))


def newest() -> Path:
    return max(FIXTURES.glob("format-*"), key=number)


def make(place: Path, names: list[str]) -> None:
    """Trains small runs, and saves a model."""
    from acer import ACER

    for name in names:
        env, settings = RUNS[name]
        model = ACER(env, **SMALL, **settings).learn(out=place / name)
        if name == "cartpole":
            model.save(place / "model")
        model.close()
        shutil.rmtree(place / name / "tensorboard")


def layout(place: Path) -> dict[str, Any]:
    """Of every checkpoint: its files, the dtype and number of dimensions of each array, the keys of its state."""
    found: dict[str, Any] = {}
    for state in sorted(place.glob("*/checkpoints/[0-9]*/state.json")) + [place / "model" / "state.json"]:
        name = state.relative_to(place).parts[0]
        found[name] = {"state.json": sorted(_keys(json.loads(state.read_text())))}
        for path in sorted(state.parent.iterdir()):
            if path.suffix == ".safetensors":
                arrays = safetensors.numpy.load_file(path)
                found[name][path.name] = {key: f"{of.dtype} {of.ndim}" for key, of in sorted(arrays.items())}
            elif path.suffix != ".json":
                found[name][path.name] = "bytes"
    return found


def _keys(value: Any, path: str = "") -> set[str]:
    if path in FREE or not isinstance(value, dict):
        kind = "number" if type(value) in (int, float) else type(value).__name__
        return {f"{path}: {kind}"}
    return set().union(*(_keys(of, f"{path}.{key}".lstrip(".")) for key, of in value.items()))


if __name__ == "__main__":
    target = FIXTURES / f"format-{sys.argv[1]}"
    with tempfile.TemporaryDirectory() as directory:
        made = Path(directory) / "made"
        make(made, list(RUNS))
        (made / "layout.json").write_text(json.dumps(layout(made), indent=1) + "\n")
        shutil.copytree(made, target)
