"""From runs to what is shown: curves over settings or games, and the rows of the tables beside the figures."""

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from acer.envs.scores import human_normalized, median_over_games
from acer.experiments import statistics
from acer.experiments.plan import Job
from acer.experiments.runs import Array, RunResult

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Curve:
    """What a panel shows of a method: [n] each. `low` and `high` bound the band, `beside` is the thin line."""

    x: Array
    y: Array
    low: Array
    high: Array
    beside: Array


@dataclass(frozen=True)
class Settings:
    """A method on a task: one entry for each setting, means over its seeds."""

    numbers: list[int]
    final: Array  # mean return of the last training episodes [n]
    evaluation: Array  # mean return of the evaluation at the end [n]
    x: Array  # steps [m]
    returns: Array  # [n, m]


# ------------------------------------------------------------------ control and ablation


def over_settings(runs: Sequence[RunResult]) -> Settings | None:
    """The runs of one method on one task, by setting; None if no episode ended in any."""
    runs = [run for run in runs if math.isfinite(run.final)]
    if not runs:
        return None
    curves = [run.curve("return_mean") for run in runs]
    x = grid([curve for run, curve in zip(runs, curves, strict=True) if not run.diverged] or curves)
    returns = np.stack([statistics.on_grid(*curve, x) for curve in curves])
    settings = np.array([run.job.setting for run in runs])
    numbers = sorted(set(settings.tolist()))

    def means(values: Array) -> Array:
        return np.stack([values[settings == number].mean(0) for number in numbers])

    final, evaluation = (np.array([getattr(run, name) for run in runs]) for name in ("final", "evaluation"))
    return Settings(numbers, means(final), means(evaluation), x, means(returns))


def best_curve(of: Settings, planned: int) -> Curve:
    """Mean and deviation of the best sixth of the planned settings, by final return; beside it the median of all. One
    setting has no deviation: then the band is the middle half of all."""
    chosen = of.returns[statistics.best(of.final, statistics.best_count(planned))]
    mean, std = chosen.mean(0), chosen.std(0)
    low, median, high = np.quantile(of.returns, [0.25, 0.5, 0.75], axis=0)
    if len(chosen) > 1:
        low, high = mean - std, mean + std
    return Curve(of.x, mean, low, high, median)


def planned_settings(jobs: Sequence[Job]) -> dict[str, int]:
    """How many settings each task has."""
    pairs = {(job.config.env, job.setting) for job in jobs}
    return Counter(env for env, _ in pairs)


def meaning_of_curves(jobs: Sequence[Job]) -> str:
    """What `best_curve` shows, in words for the figure."""
    counts = sorted(set(planned_settings(jobs).values()))
    planned = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else str(*counts)
    best = {statistics.best_count(count) for count in counts}
    if best == {1}:
        return f"line: the best of {planned} settings; band: the middle half of all; dashed: their median"
    which = f"best {best.pop()}" if len(best) == 1 else "best sixth"
    return f"line and band: mean and deviation of the {which} of {planned} settings; dashed: median of all"


def best_curves(jobs: Sequence[Job], runs: Sequence[RunResult]) -> dict[str, dict[str, Curve]]:
    """By task and method."""
    planned = planned_settings(jobs)
    groups = {key: over_settings(of) for key, of in _grouped(jobs, runs).items()}
    curves: dict[str, dict[str, Curve]] = {}
    for (env, method), of in groups.items():
        curves.setdefault(env, {})
        if of is not None:
            curves[env][method] = best_curve(of, planned[env])
    return curves


def control_table(jobs: Sequence[Job], runs: Sequence[RunResult]) -> Rows:
    """For each task and method, of the training's last episodes and of the evaluation: the paper's statistic, the
    median, and the interquartile mean with its 95 % bootstrap interval. Whichever the measure, the best are those by
    the training's last episodes."""
    planned = planned_settings(jobs)
    rows: Rows = []
    for (env, method), group in _grouped(jobs, runs).items():
        of = over_settings(group)
        failed = sum((job.config.env, job.method) == (env, method) for job in jobs) - len(group)
        diverged = sum(run.diverged for run in group)
        for measure in ("training", "evaluation"):
            row: dict[str, Any] = {"task": env, "method": method, "measure": measure, "settings": planned[env],
                                   "failed": failed, "diverged": diverged}  # fmt: skip
            if of is not None:
                values = of.final if measure == "training" else of.evaluation
                best = values[statistics.best(of.final, statistics.best_count(planned[env]))]
                row |= {"best": len(best), "best_mean": float(best.mean()), "best_std": float(best.std()),
                        "median": float(np.median(values)), **_interquartile(values),
                        **late_means(group)}  # fmt: skip
            rows.append(row)
    return rows


CONTROL_TABLE = ["task", "method", "measure", "settings", "failed", "diverged", "best", "best_mean", "best_std",
                 "median", "iqm", "iqm_low", "iqm_high", "trust_region_active", "kl"]  # fmt: skip


def pairs_table(jobs: Sequence[Job], runs: Sequence[RunResult], pairs: Sequence[tuple[str, str]]) -> Rows:
    """For each pair of methods and each task: with how many of the settings that both have the first is ahead of the
    second, and by how much, as median and interquartile mean of the differences with its 95 % bootstrap interval.

    Over all tasks, differences are in parts of what lies between the task's worst and best run of any method, and a
    setting is drawn again with all its tasks, for it has the same learning rate, δ and seed in each.
    """
    groups = {key: over_settings(of) for key, of in _grouped(jobs, runs).items()}
    tasks = _in_order(job.config.env for job in jobs)
    rows: Rows = []
    for (one, other), measure in itertools.product(pairs, ("training", "evaluation")):
        shares, settings = [], []
        for task in tasks:
            values = {method: _by_setting(of, measure) for (env, method), of in groups.items() if env == task}
            both = sorted(values.get(one, {}).keys() & values.get(other, {}).keys())
            if both:
                gains = np.array([values[one][setting] - values[other][setting] for setting in both])
                every = [value for of in values.values() for value in of.values()]
                shares.append(gains / ((max(every) - min(every)) or 1.0))
                settings += both
                rows.append({"task": task, "method": one, "over": other, "measure": measure, **_gain(gains, both)})
        if len(shares) > 1:
            rows.append({"task": ALL_TASKS, "method": one, "over": other, "measure": measure,
                         **_gain(np.concatenate(shares), settings)})  # fmt: skip
    return rows


ALL_TASKS = "all, normalised"
PAIRS_TABLE = ["task", "method", "over", "measure", "settings", "ahead", "median", "iqm", "iqm_low", "iqm_high"]


def _by_setting(of: Settings | None, measure: str) -> dict[int, float]:
    if of is None:
        return {}
    values = of.final if measure == "training" else of.evaluation
    return dict(zip(of.numbers, values.tolist(), strict=True))


def _gain(differences: Array, settings: Sequence[int]) -> dict[str, float]:
    ahead = int((differences > 0).sum())
    return {"settings": len(differences), "ahead": ahead, "median": float(np.median(differences)),
            **_interquartile(differences, settings)}  # fmt: skip


# ------------------------------------------------------------------ sensitivity


def sensitivity_table(runs: Sequence[RunResult]) -> Rows:
    """Final returns of each run beside the settings that were drawn for it."""
    return [
        {
            "task": run.job.config.env,
            "setting": run.job.setting,
            "seed": run.job.seed,
            "learning_rate": run.job.config.learning_rate,
            "delta": run.job.config.delta,
            "training": run.final,
            "evaluation": run.evaluation,
            "diverged": int(run.diverged),
        }
        for run in runs
    ]


SENSITIVITY_TABLE = ["task", "setting", "seed", "learning_rate", "delta", "training", "evaluation", "diverged"]


# ------------------------------------------------------------------ atari


def median_curves(jobs: Sequence[Job], runs: Sequence[RunResult], x: str) -> dict[str, tuple[Array, Array]]:
    """By agent: cumulative maximum of the median over games of the human-normalised score, against steps or seconds.

    Curves go as far as the agent's shortest: the median is always over the same games. One that diverged stays at the
    score that it had last.
    """
    games: dict[str, dict[str, list[tuple[Array, Array]]]] = {}
    whole: dict[str, list[tuple[Array, Array]]] = {}
    for (game, method), group in _grouped(jobs, runs).items():
        for run in group:
            at, score = run.curve("score", x)
            if len(at):
                normalised = np.array([human_normalized(game, one) for one in score])
                games.setdefault(method, {}).setdefault(game, []).append((at, normalised))
                if not run.diverged:
                    whole.setdefault(method, []).append((at, normalised))
    found = {}
    for method, by_game in games.items():
        points = grid(whole.get(method) or [curve for of in by_game.values() for curve in of])
        means = [np.mean([statistics.on_grid(*curve, points) for curve in of], axis=0) for of in by_game.values()]
        found[method] = points, median_over_games(means)
    return found


def atari_table(jobs: Sequence[Job], runs: Sequence[RunResult]) -> Rows:
    """For each agent, over all its seeds and, if there are several, with each of them: the paper's metric at the end;
    when it first was half way from a random agent's score to the human's, and the human's; and the interquartile mean
    over games and seeds of the final human-normalised score (mean over the past million frames) with its 95 % bootstrap
    interval."""
    rows: Rows = []
    seeds = _in_order(str(job.seed) for job in jobs)
    parts = [ALL_SEEDS, *seeds] if len(seeds) > 1 else [ALL_SEEDS]
    for method, seed in itertools.product(_in_order(job.method for job in jobs), parts):
        of = [job for job in jobs if job.method == method and seed in (ALL_SEEDS, str(job.seed))]
        own = [run for run in runs if run.job in of]
        row = {"method": method, "seed": seed, "games": len({job.config.env for job in of}),
               "failed": len(of) - len(own), "diverged": sum(run.diverged for run in own)}  # fmt: skip
        by_steps, by_time = (median_curves(of, own, x).get(method) for x in ("steps", "seconds"))
        if by_steps is not None and by_time is not None:
            scores = [(run.job.config.env, run.curve("score")[1]) for run in own]
            final = np.array([human_normalized(game, float(score[-1])) for game, score in scores if len(score)])
            row |= {"median_maximum": float(by_steps[1][-1]), **_interquartile(final),
                    "steps_to_half": _reached(*by_steps, 0.5), "steps_to_human": _reached(*by_steps, 1.0),
                    "hours_to_half": _reached(*by_time, 0.5) / 3600, "hours_to_human": _reached(*by_time, 1.0) / 3600,
                    "hours": _hours([run for run in own if not run.diverged]), **late_means(own)}  # fmt: skip
        rows.append(row)
    return rows


def _reached(x: Array, y: Array, level: float) -> float:
    """The first x at which y has a level; NaN if it never has."""
    return float(x[np.argmax(y >= level)]) if (y >= level).any() else math.nan


def _hours(runs: Sequence[RunResult]) -> float:
    """Mean over the runs that came to their end."""
    return float(np.mean([run.columns["seconds"][-1] for run in runs])) / 3600 if runs else math.nan


ALL_SEEDS = "all"
ATARI_TABLE = ["method", "seed", "games", "failed", "diverged", "median_maximum", "iqm", "iqm_low", "iqm_high",
               "steps_to_half", "steps_to_human", "hours_to_half", "hours_to_human", "hours", "trust_region_active",
               "kl"]  # fmt: skip


# ------------------------------------------------------------------ shared


def _grouped(jobs: Sequence[Job], runs: Sequence[RunResult]) -> dict[tuple[str, str], list[RunResult]]:
    """Runs by environment and method, in the order of the plan, with groups that have none."""
    groups: dict[tuple[str, str], list[RunResult]] = {(job.config.env, job.method): [] for job in jobs}
    for run in runs:
        groups[run.job.config.env, run.job.method].append(run)
    return groups


def grid(curves: Sequence[tuple[Array, Array]]) -> Array:
    """All points of the curves at which every one is known: from where the last one begins to where the first ends."""
    begin, end = max(x[0] for x, _ in curves), min(x[-1] for x, _ in curves)
    points = np.unique(np.concatenate([x for x, _ in curves]))
    shared: Array = points[(points >= min(begin, end)) & (points <= end)]
    return shared


def _interquartile(values: Array, groups: Sequence[int] | None = None) -> dict[str, float]:
    low, high = statistics.bootstrap(values, groups)
    return {"iqm": float(statistics.interquartile_mean(values)), "iqm_low": low, "iqm_high": high}


def late_means(runs: Sequence[RunResult]) -> dict[str, float]:
    """Of the trust region and the KL: the median over runs of the mean over the last quarter of the curve."""
    found = {}
    for column in ("trust_region_active", "kl"):
        means = [float(np.mean(y[3 * len(y) // 4 :])) for run in runs if len(y := run.curve(column)[1])]
        found[column] = float(np.median(means)) if means else math.nan
    return found


def _in_order(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))
