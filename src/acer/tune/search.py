"""A search from its beginning, or from where it was stopped, to its files."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optuna.exceptions import OptunaError
from sqlalchemy.exc import SQLAlchemyError

from acer.errors import CheckpointError
from acer.experiments import jobs
from acer.experiments.display import JobsDisplay
from acer.experiments.results import Say
from acer.tune import outputs
from acer.tune.study import DATABASE, Search, Study


def run(
    search: Search,
    out: Path,
    trials: int,
    sampler: str,
    pruner: str,
    runner: jobs.Runner,
    at_once: int,
    given: Mapping[str, Any],
    say: Say,
) -> tuple[Study, list[Path]]:
    """Has `trials` trials in all, those counted that are there; interrupted, it writes what there is, too.

    given: the settings that every trial has by the user's word.
    """
    try:
        with jobs.at_work(out):
            study = Study(search, out, sampler, pruner)
            done, runs, steps = study.ended(), search.seeds, search.seeds * search.base.steps
            say(f"{done} of {trials} trials are done, {len(study.left)} were under way")
            try:
                with JobsDisplay(trials * runs, done * runs, trials * steps, done * steps) as display:
                    runner([study.line(trials, display) for _ in range(at_once)], out, display, study.hear)
            finally:
                files = outputs.write(study, given)
            return study, files
    except (OptunaError, SQLAlchemyError) as error:
        raise CheckpointError(
            f"{out / DATABASE} cannot be used ({str(error).splitlines()[0]}): choose another --out"
        ) from None
