"""The experiments' figures, each as PNG and SVG, with its scale printed on it."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acer.errors import SettingsError
from acer.experiments.runs import Array
from acer.experiments.summaries import Curve

COLOURS = {"acer": "tab:red", "a3c": "tab:blue", "trust-a3c": "tab:cyan", "tis": "tab:olive", "trust-tis": "tab:green",
           "no-trust-region": "tab:blue", "no-sdn": "tab:green", "no-retrace": "tab:purple",
           "no-truncation": "tab:orange"}  # fmt: skip
RATIOS = {"0": "tab:blue", "1": "tab:green", "4": "tab:red", "8": "tab:purple"}  # colours of the Atari agents


def learning(curves: dict[str, dict[str, Curve]], caption: str, output: Path) -> list[Path]:
    """A panel for each task: mean and deviation of the best settings of each method, dashed the median of all."""
    figure, panels = _panels(len(curves))
    methods: dict[str, Any] = {}
    for (task, by_method), panel in zip(curves.items(), panels, strict=False):
        for method, curve in by_method.items():
            x = curve.x / 1e6
            (methods[method],) = panel.plot(x, curve.y, color=COLOURS[method], linewidth=1.6)
            panel.fill_between(x, curve.low, curve.high, color=COLOURS[method], alpha=0.2, linewidth=0)
            panel.plot(x, curve.beside, color=COLOURS[method], linewidth=0.9, linestyle="--")
        panel.set_title(task, fontsize=10)
    figure.supxlabel("million environment steps", fontsize=9)
    figure.supylabel("return (last 100 training episodes)", fontsize=9)
    if methods:
        figure.legend(methods.values(), methods, loc="outside upper center", ncols=len(methods), frameon=False,
                      fontsize=9)  # fmt: skip
    return _save(figure, f"line and band: mean and deviation of the best settings; dashed: median of all\n{caption}",
                 output)  # fmt: skip


def sensitivity(rows: Sequence[dict[str, Any]], caption: str, output: Path) -> list[Path]:
    """Final return against the learning rate (above) and against δ (below), a column for each task."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, panels = plt.subplots(2, max(1, len(tasks)), figsize=(max(6.0, 2.5 * len(tasks)), 5), squeeze=False,
                                  layout="constrained", sharey="col")  # fmt: skip
    for task, column in zip(tasks, panels.T, strict=False):
        own = [row for row in rows if row["task"] == task]
        for panel, name in zip(column, ("learning_rate", "delta"), strict=True):
            panel.plot([row[name] for row in own], [row["training"] for row in own], "o", color="tab:red", markersize=4)
            _plain(panel)
        column[0].set_xscale("log")
        column[0].set_title(task, fontsize=10)
    for row, label in zip(panels, ("learning rate", "δ"), strict=True):
        for panel in row:
            panel.set_xlabel(label, fontsize=9)
    figure.supylabel("final return (last 100 training episodes)", fontsize=9)
    return _save(figure, f"each learning rate has its own δ, and each δ its own learning rate\n{caption}", output)


def atari(
    by_steps: dict[str, tuple[Array, Array]], by_time: dict[str, tuple[Array, Array]], caption: str, output: Path
) -> list[Path]:
    """The median over games against steps and against time: a colour for each ratio, dashed without trust region."""
    figure, panels = _panels(2)
    for curves, panel, unit, label in zip(
        (by_steps, by_time), panels, (1e6, 3600), ("million environment steps", "hours"), strict=True
    ):
        for method, (x, y) in curves.items():
            algo, _, ratio = method.rpartition("-")
            trust = algo == "acer"
            panel.plot(x / unit, y, color=RATIOS[ratio], linestyle="-" if trust else "--", linewidth=1.6,
                       label=f"ratio {ratio}{'' if trust else ', no trust region'}")  # fmt: skip
        panel.set_xlabel(label, fontsize=9)
    panels[0].set_ylabel("median human-normalised score", fontsize=9)
    if by_steps:
        panels[0].legend(frameon=False, fontsize=8)
    return _save(figure, f"cumulative maximum; score of a game: mean over the past million frames\n{caption}", output)


def theory(rows: Sequence[dict[str, Any]], gamma: float, caption: str, output: Path) -> list[Path]:
    """Contraction, limits and convergence of the operator; variance and bias of the gradient estimators."""
    figure, panels = _panels(5)
    titles = {"contraction": ("Contraction of B", "truncation c"), "limits": ("Distance of B from", "truncation c"),
              "convergence": ("Distance from Q^π, over the first", "applications of B"),
              "variance": ("Variance of the gradient, over its square", "KL(π‖μ)"),
              "squared bias": ("Squared bias of the gradient, over its square", "KL(π‖μ)")}  # fmt: skip
    for (name, (title, label)), panel in zip(titles.items(), panels, strict=True):
        own = [row for row in rows if row["panel"] == name and math.isfinite(row["x"])]
        for series in dict.fromkeys(row["series"] for row in own):
            points = [row for row in own if row["series"] == series]
            x, y = (np.array([row[key] for row in points]) for key in ("x", "value"))
            (line,) = panel.plot(x, np.maximum(y, 1e-17), linewidth=1.5, label=series)
            if "low" in points[0]:
                low, high = (np.array([row[key] for row in points]) for key in ("low", "high"))
                panel.fill_between(x, np.maximum(low, 1e-17), np.maximum(high, 1e-17), color=line.get_color(),
                                   alpha=0.15, linewidth=0)  # fmt: skip
        panel.set_title(title, fontsize=10)
        panel.set_xlabel(label, fontsize=9)
        if name in ("contraction", "limits"):
            panel.set_xscale("symlog", linthresh=0.01)
        if name != "contraction":
            panel.set_yscale("log")
    panels[0].axhline(gamma, color="grey", linestyle=":", linewidth=1, label="γ")
    steps = np.array([row["x"] for row in rows if row["panel"] == "convergence"])
    panels[2].plot(np.unique(steps), gamma ** np.unique(steps), color="grey", linestyle=":", linewidth=1, label="γ^i")
    panels[2].set_ylim(bottom=1e-12)
    panels[4].set_ylim(bottom=1e-5)
    for panel in panels:
        panel.legend(frameon=False, fontsize=7)
    return _save(figure, caption, output)


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    columns = min(3, max(1, count))
    lines = max(1, -(-count // columns))
    figure, panels = plt.subplots(lines, columns, figsize=(max(6.0, 4 * columns), 3 * lines + 0.9), squeeze=False,
                                  layout="constrained")  # fmt: skip
    for panel in panels.flat[count:]:
        panel.set_visible(False)
    for panel in panels.flat[:count]:
        _plain(panel)
    return figure, list(panels.flat[:count])


def _plain(panel: Axes) -> None:
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)


def _save(figure: Figure, caption: str, output: Path) -> list[Path]:
    """PNG and SVG, the same bytes for the same numbers."""
    figure.get_layout_engine().set(rect=(0, 0.07, 1, 0.93))  # type: ignore[union-attr, call-arg]
    figure.text(0.5, 0.012, caption, ha="center", fontsize=8, color="dimgrey")
    paths = [output.with_name(f"{output.name}.{ending}") for ending in ("png", "svg")]
    try:
        with matplotlib.rc_context({"svg.hashsalt": "acer"}):
            figure.savefig(paths[0], dpi=150)
            figure.savefig(paths[1], metadata={"Date": None})
    except OSError as error:
        raise SettingsError(f"cannot write {output}: {error.strerror}") from None
    finally:
        plt.close(figure)
    return paths
