"""Learning curves from the CSV files of runs."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from acer.errors import CheckpointError, SettingsError
from acer.logs import read


def curves(directories: Sequence[Path], output: Path, x: str = "steps") -> None:
    """Draws the return of every run against `x` (steps or seconds): training as a line, evaluations as points."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for directory in directories:
        training, evaluations = column_pairs(directory / "progress.csv", x), []
        if (directory / "eval.csv").is_file():
            evaluations = column_pairs(directory / "eval.csv", x)
        if not training and not evaluations:
            raise CheckpointError(f"{directory}: no episode has ended yet, so there is nothing to draw")
        line = axes.plot(*zip(*training, strict=True), label=directory.name)[0] if training else None
        if evaluations:
            colour = line.get_color() if line else None
            axes.plot(*zip(*evaluations, strict=True), "o", color=colour, markersize=4,
                      label=None if line else directory.name)  # fmt: skip
    axes.set_xlabel("environment steps" if x == "steps" else "seconds")
    axes.set_ylabel("return (line: last 100 episodes; points: evaluation)")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    try:
        figure.savefig(output, dpi=150)
    except (OSError, ValueError) as error:
        raise SettingsError(f"cannot write {output}: {error}") from None
    finally:
        plt.close(figure)


def column_pairs(path: Path, x: str, y: str = "return_mean") -> list[tuple[float, float]]:
    """Two columns of a CSV file, rows with a finite y only."""
    try:
        rows = read(path)
    except OSError:
        raise CheckpointError(f"{path}: no such file; is this the directory of a run?") from None
    pairs = [(float(row[x]), float(row[y])) for row in rows if row.get(y)]
    return [pair for pair in pairs if math.isfinite(pair[1])]
