"""Learning curves from the CSV files of runs."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from acer.errors import CheckpointError, SettingsError
from acer.run.outputs import beside
from acer.run.tables import column_pairs


def curves(directories: Sequence[Path], output: Path, x: str = "steps") -> None:
    """Draws the return of every run against `x` (steps or seconds): training as a line, evaluations as points."""
    if not output.suffix or output.is_dir():
        raise SettingsError(f"cannot write {output}: name a file that ends in .png, .svg or .pdf")
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for directory, name in zip(directories, _names(directories), strict=True):
        training, evaluations = column_pairs(directory / "progress.csv", x), []
        if (directory / "eval.csv").is_file():
            evaluations = column_pairs(directory / "eval.csv", x)
        if not training and not evaluations:
            raise CheckpointError(f"{directory}: no episode has ended yet, so there is nothing to draw")
        line = axes.plot(*zip(*training, strict=True), label=name)[0] if training else None
        if evaluations:
            colour = line.get_color() if line else None
            axes.plot(*zip(*evaluations, strict=True), "o", color=colour, markersize=4,
                      label=None if line else name)  # fmt: skip
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


def _names(directories: Sequence[Path]) -> list[str]:
    """Of each directory as much of its path's end as tells them all apart."""
    parts = [directory.resolve().parts for directory in directories]
    longest = max(map(len, parts), default=0)
    depth = next((d for d in range(1, longest) if len({p[-d:] for p in parts}) == len(set(parts))), longest)
    return ["/".join(p[-depth:]) for p in parts]
