"""Learning curves from the CSV files of runs."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from acer.config import AGENT_SETTINGS
from acer.errors import CheckpointError, SettingsError
from acer.run import store
from acer.run.outputs import beside
from acer.run.tables import column_pairs


def curves(directories: Sequence[Path], output: Path, x: str = "steps") -> None:
    """Draws the return of every run against `x` (steps or seconds): training as a line, evaluations as points.

    Runs that differ in their seeds only have one colour, and their mean.
    """
    if not output.suffix or output.is_dir():
        raise SettingsError(f"cannot write {output}: name a file that ends in .png, .svg or .pdf")
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, members in by_agent(directories).items():
        runs = [_returns(directory, x) for directory in members]
        lines = [training for training, _ in runs if training]
        colour = axes.plot([], [])[0].get_color()
        for training in lines:
            alone = len(lines) == 1
            axes.plot(
                *zip(*training, strict=True), color=colour, alpha=1 if alone else 0.3, linewidth=1.5 if alone else 0.8
            )
        if len(lines) > 1:
            axes.plot(*_mean(lines), color=colour)
        for _, evaluations in runs:
            axes.plot(*zip(*evaluations, strict=True) if evaluations else ([], []), "o", color=colour, markersize=4)
        axes.plot([], [], color=colour, label=name if len(members) == 1 else f"{name}, mean of {len(members)} seeds")
    axes.set_xlabel("environment steps" if x == "steps" else "seconds")
    axes.set_ylabel("return (line: last 100 episodes; points: evaluation)")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    try:
        with beside(output) as partial:
            figure.savefig(partial, dpi=150)
    except ValueError as error:  # no such format
        raise SettingsError(f"cannot write {output}: {error}") from None
    finally:
        plt.close(figure)


def _returns(directory: Path, x: str) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """What a run's training and its evaluations returned, against x."""
    training, evaluations = column_pairs(directory / "progress.csv", x), []
    if os.path.lexists(directory / "eval.csv"):
        evaluations = column_pairs(directory / "eval.csv", x)
    if not training and not evaluations:
        raise CheckpointError(f"{directory}: no episode has ended yet, so there is nothing to draw")
    return training, evaluations


def _mean(lines: Sequence[list[tuple[float, float]]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The mean of several lines, where there are all of them."""
    arrays = [np.array(line) for line in lines]
    first, last = max(line[0, 0] for line in arrays), min(line[-1, 0] for line in arrays)
    at = np.unique(np.concatenate([line[:, 0] for line in arrays]))
    at = at[(at >= first) & (at <= last)]
    return at, np.mean([np.interp(at, line[:, 0], line[:, 1]) for line in arrays], axis=0)


def by_agent(directories: Sequence[Path]) -> dict[str, list[Path]]:
    """Runs of one agent, which differ in their seeds only, under one name; others each under its own."""
    names = dict(zip(directories, _names(directories), strict=True))
    groups: dict[Any, list[Path]] = {}
    for directory in names:
        groups.setdefault(_agent(directory), []).append(directory)
    return {names[members[0]]: members for members in groups.values()}


def _agent(directory: Path) -> Any:
    """What makes a run's agent another than others; a directory without readable settings is like no other."""
    try:
        settings = store.settings_in(directory)
    except (SettingsError, CheckpointError):
        return directory
    told = {name: settings.get(name) for name in ("env", "algo", *AGENT_SETTINGS)}
    return json.dumps(told, sort_keys=True)


def _names(directories: Sequence[Path]) -> list[str]:
    """Of each directory as much of its path's end as tells them all apart."""
    parts = [directory.resolve().parts for directory in directories]
    longest = max(map(len, parts), default=0)
    depth = next((d for d in range(1, longest) if len({p[-d:] for p in parts}) == len(set(parts))), longest)
    return ["/".join(p[-depth:]) for p in parts]
