"""Experiments on variants of ACER: settings that are changed, one method each, and what is compared with what."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acer.config import Config, defaults
from acer.envs import preset_of
from acer.envs.tasks import TASKS
from acer.experiments import figures, summaries
from acer.experiments.results import Results
from acer.experiments.runs import RunResult

Variants = dict[str, dict[str, Any]]
"""Changed settings, by the name of the method."""


@dataclass(frozen=True)
class Comparison:
    """One row: two methods, and what the paper says of them."""

    what: str
    says: str  # the paper, or nothing
    one: str
    over: str


COLUMNS = ["what", "says", "one", "over", "task", "pairs", "ahead", "one_median", "over_median", "verdict"]
ALL_TASKS = "all"
MEASURE = "the mean return of the last 100 training episodes"


def configuration(variants: Variants) -> Callable[..., Config]:
    """Makes a run's configuration: the preset for such environments, with what the variant changes."""

    def configure(env: str, method: str, setting: int, seed: int, preset: str, **overrides: Any) -> Config:
        changed = {"seed": seed} | variants[method] | overrides
        return defaults(env, env in TASKS, preset or preset_of(env), "acer", **changed)

    return configure


def table(results: Results, comparisons: Sequence[Comparison]) -> summaries.Rows:
    """For each comparison, on each task and over all: with how many seeds `one` is ahead of `over` while training."""
    final: dict[tuple[str, str], dict[int, float]] = {}
    for run in results.runs:
        if np.isfinite(run.final):
            final.setdefault((run.job.config.env, run.job.method), {})[run.job.seed] = run.final
    tasks = list(dict.fromkeys(job.config.env for job in results.shown))
    rows: summaries.Rows = []
    for compared in comparisons:
        own: summaries.Rows = []
        for task in tasks:
            one, over = (final.get((task, method), {}) for method in (compared.one, compared.over))
            both = sorted(one.keys() & over.keys())
            if both:
                own.append({
                    "task": task, "pairs": len(both), "ahead": sum(one[seed] > over[seed] for seed in both),
                    "one_median": float(np.median([one[seed] for seed in both])),
                    "over_median": float(np.median([over[seed] for seed in both])),
                })  # fmt: skip
        if own:
            pairs, ahead = (sum(row[key] for row in own) for key in ("pairs", "ahead"))
            own.append({"task": ALL_TASKS, "pairs": pairs, "ahead": ahead, "verdict": verdict(ahead, pairs)})
        names = {key: getattr(compared, key) for key in ("what", "says", "one", "over")}
        rows += [names | row for row in own]
    return rows


def verdict(ahead: int, pairs: int) -> str:
    """Whether one method is the better: ahead in three quarters of the pairs, behind in three quarters, or neither."""
    if 4 * ahead >= 3 * pairs:
        return "ahead"
    return "behind" if 4 * ahead <= pairs else "not decided"


def draw(results: Results, comparisons: Sequence[Comparison]) -> list[Path]:
    """Each variant's median over seeds, with the range from the worst to the best."""
    curves: dict[str, dict[str, summaries.Curve]] = {}
    for (env, method), runs in itertools.groupby(sorted(results.runs, key=_place(results)), key=_key):
        curve = _over_seeds(list(runs))
        if curve is not None:
            curves.setdefault(env, {})[method] = curve
    drawn = figures.learning(curves, f"line: median over seeds; band: all of them\n{results.caption}", results.stem)
    return [*drawn, results.write("", COLUMNS, table(results, comparisons))]


def _key(run: RunResult) -> tuple[str, str]:
    return run.job.config.env, run.job.method


def _place(results: Results) -> Callable[[RunResult], int]:
    """Where a run's environment and method stand in the plan."""
    order = list(dict.fromkeys((job.config.env, job.method) for job in results.shown))
    return lambda run: order.index(_key(run))


def _over_seeds(runs: Sequence[RunResult]) -> summaries.Curve | None:
    curves = [curve for run in runs if len((curve := run.curve("return_mean"))[0])]
    if not curves:
        return None
    x = summaries.grid(curves)
    returns = np.stack([np.interp(x, *curve) for curve in curves])
    median = np.median(returns, axis=0)
    return summaries.Curve(x, median, returns.min(axis=0), returns.max(axis=0), median)
