"""An experiment from its plan to its figure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acer.envs import spaces_of
from acer.envs.scores import GAMES
from acer.errors import SettingsError
from acer.experiments import figures, jobs, plans, runs, summaries, theory
from acer.experiments.plans import Job, Narrowing, Scale
from acer.experiments.runs import RunResult
from acer.learner.actor_learner import find_device
from acer.learner.networks import faster_precision

# Sizes of the theory experiment, by scale: (MDPs, trajectories for each state).
THEORY: dict[Scale, tuple[int, int]] = {"smoke": (5, 500), "small": (100, 1_000), "paper": (100, 1_000)}


@dataclass(frozen=True)
class Result:
    """What an experiment left behind."""

    files: list[Path]
    failures: dict[str, str]  # error by run
    diverged: dict[str, str]  # likewise, of runs that are results all the same


def run(
    name: str,
    scale: Scale,
    narrowing: Narrowing,
    out: Path,
    threads: int,
    runner: jobs.Runner | None,
    say: Callable[[str], None],
) -> Result:
    """Does what is missing of an experiment's runs, then draws its figure and writes its table from all of them.

    Without a runner nothing is done: what there is is drawn, as far as methods can be compared.
    """
    planned = with_one_precision(plans.jobs(name, scale, narrowing, threads), out)
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
    text = caption(name, scale, narrowing, shown, len(found), len(planned))
    stem = out / (f"{name}-{narrowing.preset}" if narrowing.preset else name)
    return Result(FIGURES[name](shown, found, text, stem), failures, diverged)


def with_one_precision(planned: list[Job], out: Path) -> list[Job]:
    """Runs on images all have the arithmetic of those there are, or the one that this machine does faster: each by
    itself would try it beside the others, and some would go wrong."""
    games = [job for job in planned if job.config.env in GAMES and job.config.precision == "auto"]
    if not games:
        return planned
    begun = (runs.precision_of(out, job) for job in games)
    precision = next(filter(None, begun), None) or faster_precision(find_device("cpu"))
    return [job.changed(precision=precision) if job in games else job for job in planned]


def run_theory(scale: Scale, narrowing: Narrowing, out: Path, say: Callable[[str], None]) -> Result:
    """The theory experiment has no runs: seconds of linear algebra and sampling."""
    if narrowing != Narrowing():
        raise SettingsError("theory has no tasks, games, methods, settings, seeds or steps to narrow: leave them out")
    mdps, samples = THEORY[scale]
    jobs.make_directory(out)
    say(f"Experiment theory, scale {scale}: {mdps} random MDPs, in {out}")
    rows = theory.rows(mdps, samples)
    text = (f"scale: {scale}; {mdps} random MDPs of {theory.STATES} states and {theory.ACTIONS} actions, "
            f"γ = {theory.GAMMA}; bands hold 90 % of them")  # fmt: skip
    table = _write(out / "theory", "", ["panel", "series", "x", "value", "low", "high"], rows)
    return Result([*figures.theory(rows, theory.GAMMA, text, out / "theory"), table], {}, {})


def caption(name: str, scale: Scale, asked: Narrowing, shown: Sequence[Job], found: int, planned: int) -> str:
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
    full = plans.jobs(name, scale, Narrowing())

    def both(of: Callable[[Job], str]) -> tuple[list[str], list[str]]:
        return list(dict.fromkeys(map(of, shown))), list(dict.fromkeys(map(of, full)))

    kinds = (both(lambda job: job.config.env), both(lambda job: job.method))
    return [f"only {', '.join(own)}" for own, every in kinds if set(own) < set(every)]


def _steps(of: Sequence[Job]) -> str:
    """How many steps the runs have."""
    return " or ".join(f"{steps:,}" for steps in sorted({job.config.steps for job in of})) + " steps"


def _count(values: Collection[Any], what: str) -> str:
    return f"{len(values)} {what}{'s' * (len(values) != 1)}"


# Which methods the paper's claims compare: ACER with all others, baselines with and without trust region.
PAIRS = {
    "control": [*(("acer", other) for other in plans.BASELINES if other != "acer"),
                ("trust-a3c", "a3c"), ("trust-tis", "tis")],
    "ablation": [("acer", other) for other in plans.ABLATIONS if other != "acer"],
}  # fmt: skip


def _draw_learning(name: str) -> Callable[[Sequence[Job], Sequence[RunResult], str, Path], list[Path]]:
    def draw(planned: Sequence[Job], found: Sequence[RunResult], text: str, stem: Path) -> list[Path]:
        curves, meaning = summaries.best_curves(planned, found), summaries.meaning_of_curves(planned)
        drawn = figures.learning(curves, f"{meaning}\n{text}", stem)
        pairs = summaries.pairs_table(planned, found, PAIRS[name])
        return [*drawn, _write(stem, "", summaries.CONTROL_TABLE, summaries.control_table(planned, found)),
                _write(stem, "-pairs", summaries.PAIRS_TABLE, pairs)]  # fmt: skip

    return draw


def _draw_sensitivity(planned: Sequence[Job], found: Sequence[RunResult], text: str, stem: Path) -> list[Path]:
    rows = summaries.sensitivity_table(found)
    return [*figures.sensitivity(rows, text, stem), _write(stem, "", summaries.SENSITIVITY_TABLE, rows)]


def _draw_atari(planned: Sequence[Job], found: Sequence[RunResult], text: str, stem: Path) -> list[Path]:
    by_steps, by_time = (summaries.median_curves(planned, found, x) for x in ("steps", "seconds"))
    drawn = figures.atari(by_steps, by_time, text, stem)
    return [*drawn, _write(stem, "", summaries.ATARI_TABLE, summaries.atari_table(planned, found))]


FIGURES: dict[str, Callable[[Sequence[Job], Sequence[RunResult], str, Path], list[Path]]] = {
    "control": _draw_learning("control"),
    "ablation": _draw_learning("ablation"),
    "sensitivity": _draw_sensitivity,
    "atari": _draw_atari,
}


def _write(stem: Path, ending: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> Path:
    path = stem.with_name(f"{stem.name}{ending}.csv")
    try:
        path.write_text(runs.table(columns, rows))
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from None
    return path
