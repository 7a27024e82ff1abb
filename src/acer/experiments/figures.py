"""The experiments' figures, each as PNG and SVG, with its scale printed on it."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acer.config import ALGORITHMS
from acer.errors import SettingsError
from acer.experiments.random_search import DELTAS, LEARNING_RATES
from acer.experiments.runs import Array
from acer.experiments.summaries import Curve

COLOURS = {"acer": "tab:red", "a3c": "tab:blue", "trust-a3c": "tab:cyan", "tis": "tab:olive", "trust-tis": "tab:green",
           "no-trust-region": "tab:blue", "no-sdn": "tab:green", "no-retrace": "tab:purple",
           "no-truncation": "tab:orange"}  # fmt: skip
RATIOS = {"0": "tab:blue", "1": "tab:green", "4": "tab:red", "8": "tab:purple"}  # colours of the Atari agents
OTHERS = [plt.get_cmap("tab20")(i) for i in range(20)]  # of methods that have none of their own
LETTER = 0.062  # inches that a letter of a caption takes, at the most on average


def learning(curves: dict[str, dict[str, Curve]], caption: str, output: Path) -> list[Path]:
    """A panel for each task, with a line, a band and a dashed line for each method."""
    figure, panels = _panels(len(curves))
    methods: dict[str, Any] = {}
    unit, label = _steps(curve.x[-1] for by_method in curves.values() for curve in by_method.values())
    names = dict.fromkeys(method for by_method in curves.values() for method in by_method)
    colours = {method: COLOURS.get(method, OTHERS[i % len(OTHERS)]) for i, method in enumerate(names)}
    for (task, by_method), panel in zip(curves.items(), panels, strict=False):
        for method, curve in by_method.items():
            x = curve.x / unit
            (methods[method],) = panel.plot(x, curve.y, color=colours[method], linewidth=1.6)
            panel.fill_between(x, curve.low, curve.high, color=colours[method], alpha=0.2, linewidth=0)
            panel.plot(x, curve.beside, color=colours[method], linewidth=0.9, linestyle="--")
        panel.set_title(task, fontsize=10)
    for panel in panels[-3:]:
        panel.set_xlabel(label, fontsize=9)
    figure.supylabel("return (last 100 training episodes)", fontsize=9)
    if methods:
        figure.legend(methods.values(), methods, loc="outside upper center", ncols=min(6, len(methods)), frameon=False,
                      fontsize=9)  # fmt: skip
    return _save(figure, caption, output)


def sensitivity(rows: Sequence[dict[str, Any]], caption: str, output: Path) -> list[Path]:
    """Final return against the learning rate (above) and against δ (below), a column for each task."""
    tasks = list(dict.fromkeys(row["task"] for row in rows))
    figure, panels = plt.subplots(2, max(1, len(tasks)), figsize=(max(6.0, 2.5 * len(tasks)), 5), squeeze=False,
                                  layout="constrained", sharey="col")  # fmt: skip
    low, high = np.log10(LEARNING_RATES)
    for task, column in zip(tasks, panels.T, strict=False):
        own = [row for row in rows if row["task"] == task]
        rates, deltas, returns = (np.array([row[key] for row in own]) for key in ("learning_rate", "delta", "training"))
        for panel, x in zip(column, (np.log10(rates), deltas), strict=True):
            panel.plot(x, returns, "o", color=COLOURS["acer"], markersize=4)
            _plain(panel)
        column[0].set_xlim(low - 0.05, high + 0.05)
        column[1].set_xlim(0, DELTAS[1] + 0.1)
        column[0].set_title(task, fontsize=10)
        column[0].set_xlabel("log₁₀ learning rate", fontsize=9)
        column[1].set_xlabel("δ", fontsize=9)
    figure.supylabel("final return (last 100 training episodes)", fontsize=9)
    return _save(figure, f"each learning rate has its own δ, and each δ its own learning rate\n{caption}", output)


def atari(
    by_steps: dict[str, tuple[Array, Array]],
    by_time: dict[str, tuple[Array, Array]],
    references: dict[str, tuple[Array, Array]],
    caption: str,
    output: Path,
) -> list[Path]:
    """The median over games against steps and against time: a colour for each ratio, dashed without trust region.
    references: other agents' curves against steps, drawn as far as ours."""
    figure, panels = _panels(2)
    units = (_steps(x[-1] for x, _ in by_steps.values()), (3600.0, "hours"))
    for curves, panel, (unit, label) in zip((by_steps, by_time), panels, units, strict=True):
        for method, (x, y) in curves.items():
            algo, _, ratio = method.rpartition("-")
            trust = ALGORITHMS[algo].trust_region is not False
            panel.plot(x / unit, y, color=RATIOS[ratio], linestyle="-" if trust else "--", linewidth=1.6,
                       label=f"ratio {ratio}{'' if trust else ', no trust region'}")  # fmt: skip
        panel.set_xlabel(label, fontsize=9)
    end = max((x[-1] for x, _ in by_steps.values()), default=0)
    for (name, (x, y)), colour in zip(references.items(), ("grey", "black"), strict=False):
        known = x <= end
        panels[0].plot(x[known] / units[0][0], y[known], color=colour, linewidth=1.2, label=name)
    panels[0].set_ylabel("median human-normalised score", fontsize=9)
    if by_steps:
        panels[0].legend(frameon=False, fontsize=8)
    return _save(figure, f"cumulative maximum; score of a game: mean over the past million frames\n{caption}", output)


PEERS = {"acer": "tab:red", "acer-efficient": "tab:pink", "sac": "tab:blue", "td3": "tab:cyan", "ppo": "tab:green",
         "a2c": "tab:olive", "dqn": "tab:purple"}  # fmt: skip


def peers(
    curves: dict[tuple[str, str], dict[str, tuple[Array, Array, Array, Array]]], caption: str, output: Path
) -> list[Path]:
    """A row for each task, against steps and against time: x, mean over seeds, least and largest by (task, method)."""
    tasks = list(dict.fromkeys(task for task, _ in curves))
    figure, grid = plt.subplots(max(1, len(tasks)), 2, figsize=(8, 2.4 * max(1, len(tasks)) + 0.9), squeeze=False,
                                layout="constrained")  # fmt: skip
    methods: dict[str, Any] = {}
    for task, panels in zip(tasks, grid, strict=False):
        own = {method: of for (env, method), of in curves.items() if env == task}
        for axis, panel in zip(("steps", "seconds"), panels, strict=True):
            _plain(panel)
            unit, label = _steps(of[axis][0][-1] for of in own.values()) if axis == "steps" else (60.0, "minutes")
            for method, of in own.items():
                x, mean, low, high = of[axis]
                (methods[method],) = panel.plot(x / unit, mean, color=PEERS[method], linewidth=1.6)
                panel.fill_between(x / unit, low, high, color=PEERS[method], alpha=0.15, linewidth=0)
            panel.set_xlabel(label, fontsize=9)
        panels[0].set_ylabel(task, fontsize=9)
    if methods:
        figure.legend(methods.values(), methods, loc="outside upper center", ncols=len(methods), frameon=False,
                      fontsize=9)  # fmt: skip
    meaning = "mean return of evaluations with the mode action; line and band: mean and range of the seeds"
    return _save(figure, f"{meaning}\n{caption}", output)


def gains(games: Sequence[str], ours: Array, theirs: Array, peer: str, caption: str, output: Path) -> list[Path]:
    """A bar for each game, the largest gain on top: our human-normalised score minus the peer's."""
    order = np.argsort(ours - theirs)
    figure, panel = plt.subplots(figsize=(7.0, 1.6 + 0.17 * max(1, len(games))), layout="constrained")
    difference = (ours - theirs)[order]
    panel.barh(range(len(order)), difference, color=np.where(difference > 0, "tab:red", "tab:grey").tolist())
    panel.set_yticks(range(len(order)), [games[i] for i in order], fontsize=7)
    panel.set_xscale("symlog", linthresh=0.1)
    panel.set_ylim(-0.7, len(order) - 0.3)
    panel.axvline(0, color="black", linewidth=0.8)
    panel.grid(axis="x", alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    panel.set_xlabel(f"human-normalised score: ours minus {peer}’s", fontsize=9)
    return _save(figure, f"0 is a random agent, 1 the human; ahead in {int((difference > 0).sum())} of {len(games)} "
                 f"games\n{caption}", output)  # fmt: skip


# Panels of the theory figure: title and horizontal axis; where an axis begins.
PANELS = {
    "contraction": ("Contraction of B", "truncation c"),
    "limits": ("Distance of B Q from", "truncation c"),
    "convergence": ("‖Bⁱ Q − Q^π‖ / ‖Q − Q^π‖", "applications of B"),
    "variance": ("Gradient: variance / squared gradient", "KL(π‖μ)"),
    "squared bias": ("Gradient: squared bias / squared gradient", "KL(π‖μ)"),
    "error": ("Gradient: variance + squared bias", "KL(π‖μ)"),
}
LEAST = {"limits": 1e-17, "convergence": 1e-12, "variance": 1e-1, "squared bias": 1e-5, "error": 1e-1}
MOST = {"variance": 1e6, "error": 1e6}  # where an axis ends: the product of ρ goes on


def theory(rows: Sequence[dict[str, Any]], gamma: float, caption: str, output: Path) -> list[Path]:
    """Contraction, limits and convergence of the operator; variance, bias and error of the gradient estimators."""
    figure, panels = _panels(len(PANELS))
    for (name, (title, label)), panel in zip(PANELS.items(), panels, strict=True):
        own = [row for row in rows if row["panel"] == name and math.isfinite(row["x"])]
        for series in dict.fromkeys(row["series"] for row in own):
            points = [row for row in own if row["series"] == series]
            bounds = ("low", "high") if "low" in points[0] else ("value", "value")
            x, y, low, high = (np.array([row[key] for row in points]) for key in ("x", "value", *bounds))
            floor = LEAST.get(name, -math.inf)
            (line,) = panel.plot(x, np.maximum(y, floor), linewidth=1.5, label=series,
                                 linestyle="--" if "without" in series else "-")  # fmt: skip
            panel.fill_between(x, np.maximum(low, floor), np.maximum(high, floor), color=line.get_color(), alpha=0.15,
                               linewidth=0)  # fmt: skip
        panel.set_title(title, fontsize=10)
        panel.set_xlabel(label, fontsize=9)
        if name in ("contraction", "limits"):
            panel.set_xscale("symlog", linthresh=0.01)
        if name != "contraction":
            panel.set_yscale("log")
        if name in LEAST:
            panel.set_ylim(LEAST[name], MOST.get(name))
    panels[0].axhline(gamma, color="grey", linestyle=":", linewidth=1, label="γ")
    steps = np.unique([row["x"] for row in rows if row["panel"] == "convergence"])
    panels[2].plot(steps, gamma**steps, color="grey", linestyle=":", linewidth=1, label="γⁱ")
    for panel in panels[:4]:
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


def _steps(ends: Iterable[float]) -> tuple[float, str]:
    """The unit of an axis of steps, and its label."""
    return (1e6, "million environment steps") if max(ends, default=0) >= 1e5 else (1e3, "thousand environment steps")


def _plain(panel: Axes) -> None:
    panel.grid(alpha=0.3)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)


def _save(figure: Figure, caption: str, output: Path) -> list[Path]:
    """PNG and SVG, the same bytes for the same numbers."""
    width = int(figure.get_figwidth() / LETTER)
    caption = "\n".join(textwrap.fill(line, width) for line in caption.split("\n"))
    foot = 0.18 * (1 + caption.count("\n")) / figure.get_figheight()
    figure.get_layout_engine().set(rect=(0, foot, 1, 1 - foot))  # type: ignore[union-attr, call-arg]
    figure.text(0.5, 0.1 * foot, caption, ha="center", va="bottom", fontsize=8, color="dimgrey")
    paths = [output.with_name(f"{output.name}.{ending}") for ending in ("png", "svg")]
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for panel in figure.axes:  # the layout's last digits are not the same every time
        panel.set_position(np.round(panel.get_position().bounds, 6).tolist())
    try:
        with matplotlib.rc_context({"svg.hashsalt": "acer"}):
            figure.savefig(paths[0], dpi=150)
            figure.savefig(paths[1], metadata={"Date": None})
    except OSError as error:
        raise SettingsError(f"cannot write {output}: {error.strerror}") from None
    finally:
        plt.close(figure)
    return paths
