"""Which runs an experiment consists of: its name, a scale and a selection in, jobs out. Nothing is run here."""

import difflib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from acer import config as configuration
from acer.errors import SettingsError
from acer.experiments import catalogue
from acer.experiments.plan import Job, Plan, Scale, Selection
from acer.experiments.random_search import MOST_SETTINGS

ROWS = 50  # of a run's progress.csv


def jobs(name: str, scale: Scale, selection: Selection, threads: int = 1) -> list[Job]:
    """The runs of an experiment. Settings are the outermost loop: when a part is done, it is a part of every panel."""
    plan = catalogue.load(name).PLAN
    if scale not in plan.sizes:
        raise SettingsError(f"{name} has no scale {scale}: use {' or '.join(plan.sizes)}")
    size = plan.sizes[scale]
    _check(name, plan, selection)
    environments = (selection.games or selection.tasks) or size.environments or plan.environments
    environments = environments[: selection.first]
    methods = selection.methods or size.methods or plan.methods
    settings = selection.settings or tuple(range(size.settings))
    changes = dict(selection.changes)

    def overrides(env: str) -> dict[str, Any]:
        steps = selection.steps or size.longer.get(env, size.steps)
        return {"steps": steps, "log_every": max(1, steps // ROWS), "keep_checkpoints": 1, "threads": threads,
                **size.settings_of_all, **changes}  # fmt: skip

    def job(env: str, method: str, setting: int, seed: int) -> Job:
        try:
            config = plan.configure(env, method, setting, seed, selection.preset, **overrides(env))
        except SettingsError as error:
            raise SettingsError(f"{method}: {error}") if changes else error from None
        return Job(method, setting, seed, config)

    return [
        job(env, method, setting, seed)
        for seed in selection.seeds or range(size.seeds)
        for setting in settings
        for env in environments
        for method in methods
        if plan.has(env, method)
    ]


def comparable(planned: Sequence[Job], present: Collection[str]) -> list[Job]:
    """The jobs of those settings and seeds with which every method of an environment has been run."""
    missing = {(job.config.env, job.setting, job.seed) for job in planned if job.name not in present}
    return [job for job in planned if (job.config.env, job.setting, job.seed) not in missing]


def _check(name: str, plan: Plan, selection: Selection) -> None:
    """Refuses what the experiment does not have."""
    many = "games" if plan.kind == "game" else "tasks"
    if (plan.kind == "game" and selection.tasks) or (selection.settings and not plan.settings_are_drawn):
        flag = "--settings" if selection.settings else "--tasks"
        raise SettingsError(f"{flag} has no meaning for {name}: its runs are {many} × methods × seeds; leave it out")
    if plan.kind == "task" and selection.games:
        raise SettingsError(f"--games has no meaning for {name}: use --tasks")
    _check_names("--games" if plan.kind == "game" else "--tasks", selection.games or selection.tasks, plan.environments)
    _check_names("--methods", selection.methods, plan.methods)
    for flag, given in (("--settings", selection.settings), ("--seeds", selection.seeds)):
        _check_twice(flag, given)
    if selection.first is not None and selection.first < 1:
        raise SettingsError(f"--first must be at least 1, not {selection.first}")
    for setting, _ in selection.changes:
        if setting in GIVEN_OTHERWISE:
            raise SettingsError(f"--set {setting} is not possible here: {GIVEN_OTHERWISE[setting]}")
    _check_twice("--set", [setting for setting, _ in selection.changes])
    if selection.steps is not None and selection.steps < 1:
        raise SettingsError(f"--steps must be at least 1, not {selection.steps}")


def _check_names(flag: str, given: Sequence[str], known: Sequence[str]) -> None:
    _check_twice(flag, given)
    for one in given:
        if one not in known:
            near = difflib.get_close_matches(one, known, 3)
            choices = near or (known if len(known) < 12 else known[:3])
            hint = "did you mean" if near else "there are" if len(known) < 12 else "there are, for example,"
            raise SettingsError(f"{flag}: unknown {one!r}; {hint} {', '.join(choices)}")


def _check_twice(flag: str, given: Sequence[object]) -> None:
    if len(set(given)) < len(given):
        raise SettingsError(f"{flag} has something twice: {' '.join(map(str, given))}")


# Settings that `--set` leaves to other flags, and which.
GIVEN_OTHERWISE = {"env": "use --tasks or --games", "algo": "use --methods", "preset": "use --preset",
                   "steps": "use --steps", "threads": "use --threads", "seed": "use --seeds",
                   "log_every": "every run has as many rows", "keep_checkpoints": "one is kept"}  # fmt: skip


def changes(texts: Iterable[str]) -> tuple[tuple[str, Any], ...]:
    """Settings as `name=value`, with a value as config.json has it: `trajectories_per_update=1`, `hidden=[64, 64]`."""
    found = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise SettingsError(f"--set takes settings as name=value, for example alpha=0.99, not {text!r}")
        name = name.strip().replace("-", "_")
        configuration.check_names({name: value})
        try:
            found.append((name, json.loads(value)))
        except ValueError:
            found.append((name, value))
    return tuple(found)


def numbers(flag: str, texts: Iterable[str]) -> tuple[int, ...]:
    """Whole numbers and ranges of them: `0 2 5-7` is 0, 2, 5, 6, 7."""
    found: list[int] = []
    for text in texts:
        first, dash, last = text.partition("-")
        if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
            raise SettingsError(f"{flag} takes whole numbers and ranges, for example 0 2 5-7, not {text!r}")
        low, high = (int(number) if len(number) < 10 else MOST_SETTINGS for number in (first, last or first))
        if high < low or high >= MOST_SETTINGS:
            raise SettingsError(f"{flag} takes numbers from 0 to {MOST_SETTINGS - 1}, not {text[:40]!r}")
        found.extend(range(low, high + 1))
    return tuple(found)
