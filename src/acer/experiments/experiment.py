"""An experiment from its plan to its figure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acer.envs import spaces_of
from acer.envs.registry import preset_of
from acer.errors import SettingsError
from acer.experiments import catalogue, jobs, plans, runs
from acer.experiments.plan import Job, Scale, Selection
from acer.experiments.results import Results, Say
from acer.learner.actor_learner import find_device
from acer.learner.networks import faster_precision


@dataclass(frozen=True)
class Result:
    """What an experiment left behind."""

    files: list[Path]
    failures: dict[str, str]  # error by run
    diverged: dict[str, str]  # likewise, of runs that are results all the same


def run(
    name: str,
    scale: Scale,
    selection: Selection,
    out: Path,
    threads: int,
    runner: jobs.Runner | None,
    say: Say,
) -> Result:
    """Does what is missing of an experiment's runs, then draws its figure and writes its table from all of them.

    Without a runner nothing is done: what there is is drawn, as far as methods can be compared.
    """
    planned = with_one_precision(plans.jobs(name, scale, selection, threads), out)
    missing = [job for job in planned if not runs.is_finished(out, job)]
    say(f"Experiment {name}, scale {scale}: {_count(planned, 'run')} of {_steps(planned)}, "
        f"{len(planned) - len(missing)} of them done, in {out}")  # fmt: skip
    if runner is not None:
        if missing:
            spaces_of(missing[0].config.env)  # a simulator that is not installed is told once
        jobs.run(planned, out, runner)
    errors = {job.name: error for job in planned if (error := runs.error_of(out, job))}
    diverged = {job.name: errors[job.name] for job in planned if runs.has_diverged(out, job)}
    failures = {name: error for name, error in errors.items() if name not in diverged}
    ended = {run.job.name: run for run in runs.load(out, planned)}
    shown = plans.comparable(planned, ended.keys() | failures.keys())
    found = [ended[job.name] for job in shown if job.name in ended]
    if not found and runner is None:
        raise SettingsError(f"nothing to draw in {out} yet: no setting has been run with every method; run it first")
    if not found:
        return Result([], failures, diverged)
    if len(codes := runs.codes(out, planned)) > 1:
        say(f"The runs were made with {len(codes)} versions of the code (in their result.json, or from before it was)")
    text = caption(name, scale, selection, shown, len(found), len(planned))
    stem = out / (f"{name}-{selection.preset}" if selection.preset else name)
    return Result(catalogue.load(name).draw(Results(scale, shown, found, text, stem)), failures, diverged)


def with_one_precision(planned: list[Job], out: Path) -> list[Job]:
    """Runs on images all have the arithmetic of those there are, or the one that this machine does faster: each by
    itself would try it beside the others, and some would go wrong."""
    games = [job for job in planned if preset_of(job.config.env) == "atari" and job.config.precision == "auto"]
    if not games:
        return planned
    begun = (runs.precision_of(out, job) for job in games)
    precision = next(filter(None, begun), None) or faster_precision(find_device("cpu"))
    return [job.changed(precision=precision) if job in games else job for job in planned]


def compute(name: str, scale: Scale, selection: Selection, out: Path, say: Say) -> Result:
    """An experiment that has no runs."""
    if selection != Selection():
        raise SettingsError(f"{name} has no tasks, games, methods, settings, seeds or steps to select: leave them out")
    module = catalogue.load(name)
    if scale not in module.SIZES:
        raise SettingsError(f"{name} has no scale {scale}: use {' or '.join(module.SIZES)}")
    jobs.make_directory(out)
    return Result(module.compute(scale, out / name, say), {}, {})


def has_runs(name: str) -> bool:
    """Whether an experiment trains agents."""
    return hasattr(catalogue.load(name), "PLAN")


def caption(name: str, scale: Scale, asked: Selection, shown: Sequence[Job], found: int, planned: int) -> str:
    """The scale, in words that stand on the figure."""
    parts = [f"acer experiment {name}, scale: {scale}"]
    if asked.preset:
        parts.append(f"preset: {asked.preset}")
    parts += [f"{setting} = {value}" for setting, value in asked.changes]
    if name == "atari":
        games = sorted({job.config.env for job in shown})
        parts.append(", ".join(games) if len(games) <= 3 else _count(games, "game"))
    else:
        parts.append(_count({job.setting for job in shown}, "setting"))
        parts += _left_out(name, scale, shown)
    parts += [_count({job.seed for job in shown}, "seed"), _steps(shown)]
    if any(job.config.delta_unit == "errors" for job in shown):
        parts.append("δ in the critic’s errors")
    if found < planned:
        parts.append(f"{found} of {planned} runs")
    return "; ".join(parts)


def _left_out(name: str, scale: Scale, shown: Sequence[Job]) -> list[str]:
    """Which tasks or methods are shown, if the scale has more of them."""
    full = plans.jobs(name, scale, Selection())

    def both(of: Callable[[Job], str]) -> tuple[list[str], list[str]]:
        return list(dict.fromkeys(map(of, shown))), list(dict.fromkeys(map(of, full)))

    kinds = (both(lambda job: job.config.env), both(lambda job: job.method))
    return [f"only {', '.join(own)}" for own, every in kinds if set(own) < set(every)]


def _steps(of: Sequence[Job]) -> str:
    """How many steps the runs have."""
    return " or ".join(f"{steps:,}" for steps in sorted({job.config.steps for job in of})) + " steps"


def _count(values: Collection[Any], what: str) -> str:
    return f"{len(values)} {what}{'s' * (len(values) != 1)}"
