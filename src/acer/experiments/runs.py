"""Runs of an experiment on disk: what is kept of each, whole or not at all.

    OUT/runs/NAME/
        config.json     every setting
        progress.csv    the learning curve
        eval.csv        the evaluation at the end
        result.json     which method, setting and seed it is; the evaluation; what went wrong, if anything did, and
                        whether it was the learning; whether a search ended it early; versions
        model.safetensors, state.json   the agent at the end, as a saved model
    OUT/work/NAME/      a run that is going on, with its checkpoints; gone when it is finished

So `acer plot` draws a run's directory, `acer eval` and `acer record` play its agent.
"""

import csv
import io
import json
import math
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from acer import config as configuration
from acer.config import Config
from acer.envs.atari import FRAME_SKIP
from acer.envs.registry import family_of
from acer.envs.scores import average_over_frames
from acer.errors import CheckpointError, LearningFault, SettingsError, described, in_one_line
from acer.experiments.plan import Job
from acer.learner.metrics import METRICS, SCORE
from acer.machine import versions
from acer.run.files import read as read_file
from acer.run.logs import EVALUATIONS
from acer.run.tables import LARGEST, read

Array = NDArray[np.float64]
COLUMNS = [metric.name for metric in METRICS.values() if metric.kept]  # of progress.csv
CLOCK = ("seconds",)  # columns that differ when a run is done again
MODEL = "model"  # where a run that has come to its end saves its agent
# Settings that decide how a run is done, not what is learnt in it.
OPERATION = {"threads", "log_every", "checkpoint_every", "checkpoint_minutes", "keep_checkpoints", "step_limit",
             "most_skipped", "most_deaths"}  # fmt: skip


@dataclass(frozen=True)
class RunResult:
    """A run to its end: its curve by column [n], NaN where a column has no value, and its evaluation's mean return.

    One that ended early because its numbers were no longer finite is a result, too; not evaluated, it stays at the
    return that it had last.
    """

    job: Job
    columns: dict[str, Array]
    evaluation: float
    diverged: bool = False

    def curve(self, y: str, x: str = "steps") -> tuple[Array, Array]:
        """Two columns, where y is known."""
        known = np.isfinite(self.columns[y])
        return self.columns[x][known], self.columns[y][known]

    @property
    def final(self) -> float:
        """Mean return of the last training episodes; NaN if none ended."""
        returns = self.curve("return_mean")[1]
        return float(returns[-1]) if len(returns) else math.nan


def kept(out: Path, job: Job) -> Path:
    return out / "runs" / job.name


def work(out: Path, job: Job) -> Path:
    return out / "work" / job.name


@dataclass(frozen=True)
class Failure:
    """Why a run did not come to its end."""

    error: str
    diverged: bool = False  # its numbers were no longer finite

    @classmethod
    def of(cls, error: BaseException) -> Self:
        return cls(described(error), isinstance(error, LearningFault))


def files_of(directory: Path, job: Job, failure: Failure | None = None, pruned: bool = False) -> dict[str, bytes]:
    """What is kept of a run in `directory`, by file name; of a failed one whatever there is, and why it failed."""
    rows, evaluations = (_rows(directory / name) for name in ("progress.csv", "eval.csv"))
    columns = list(COLUMNS)
    if family_of(job.config.env).human_scores:
        columns.append(SCORE.name)
        _add_scores(rows, _rows(directory / "episodes.csv"))
    config = directory / "config.json"
    result = {
        "method": job.method,
        "setting": job.setting,
        "seed": job.seed,
        "evaluation": {key: _number(of) for key, of in evaluations[-1].items()}
        if evaluations and not failure
        else None,
        "error": failure.error if failure else None,
        "diverged": bool(failure and failure.diverged),
        **({"pruned": True} if pruned else {}),
        "versions": versions(),
    }
    texts = {
        "config.json": _text(config) if config.is_file() else configuration.to_json(job.config),
        "progress.csv": table(columns, rows),
        "eval.csv": table(EVALUATIONS, evaluations),
        "result.json": json.dumps(result, indent=2) + "\n",
    }
    model = {file.name: read_file(file, LARGEST) for file in sorted((directory / MODEL).glob("*"))}
    return {name: text.encode() for name, text in texts.items()} | model


def write(out: Path, job: Job, files: dict[str, bytes]) -> None:
    """Puts a run's files in their place, all at once."""
    place = kept(out, job)
    partial = place.with_name(f".{place.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, data in files.items():
        (partial / name).write_bytes(data)
    shutil.rmtree(place, ignore_errors=True)  # of an earlier failure
    partial.rename(place)


def is_finished(out: Path, job: Job) -> bool:
    """Whether the run is there: to its end, or to where its numbers were no longer finite, which is a result, too. One
    of the same name with other settings is never taken for it, nor overwritten."""
    for place in (kept(out, job), work(out, job)):
        if not same(place / "config.json", job.config):
            raise SettingsError(f"{place} was made with other settings: choose another --out, or remove it")
    return bool(_json(kept(out, job) / "result.json")) and (has_diverged(out, job) or not error_of(out, job))


def has_diverged(out: Path, job: Job) -> bool:
    """Whether the run's numbers were no longer finite."""
    return bool(_json(kept(out, job) / "result.json").get("diverged"))


def was_pruned(out: Path, job: Job) -> bool:
    """Whether a search ended the run early, which is a result."""
    return bool(_json(kept(out, job) / "result.json").get("pruned"))


def error_of(out: Path, job: Job) -> str:
    """Why the run ended early; empty if it did not, or is not there."""
    return str(_json(kept(out, job) / "result.json").get("error") or "")


def load(out: Path, jobs: Sequence[Job]) -> list[RunResult]:
    """Those of the runs that are finished."""
    return [_load(out, job) for job in jobs if is_finished(out, job)]


def same(file: Path, config: Config) -> bool:
    """Whether a run's config.json, if there is one, says that the run is `config`'s.

    A precision left open was decided when the run began; a setting that did not exist then had its default.
    """
    found = _json(file)
    wanted: dict[str, Any] = json.loads(configuration.to_json(config))
    past = {field.name: field.default for field in fields(Config)} | found
    free = OPERATION | ({"precision"} if config.precision == "auto" else set())
    return not found or all(past[name] == value for name, value in wanted.items() if name not in free)


def precision_of(out: Path, job: Job) -> str | None:
    """The arithmetic of a run that was begun before."""
    found = (_json(place / "config.json").get("precision") for place in (kept(out, job), work(out, job)))
    return next((of for of in found if of in ("float32", "bfloat16")), None)


def codes(out: Path, jobs: Sequence[Job]) -> set[str]:
    """The code, by its hash, that finished runs were made with; empty for those from before it was written down."""
    results = (_json(kept(out, job) / "result.json") for job in jobs if is_finished(out, job))
    return {str(result.get("versions", {}).get("code", "")) for result in results}


def table(columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> str:
    """The text of a CSV file; numbers with six digits, nothing for NaN."""
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _shown(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return value


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _rows(path: Path) -> list[dict[str, str]]:
    return read(path) if path.is_file() else []


def _add_scores(rows: list[dict[str, str]], episodes: list[dict[str, str]]) -> None:
    ended, scores = (np.array([float(row[key]) for row in episodes]) for key in ("steps", "return"))
    at = np.array([float(row["steps"]) for row in rows])
    for row, score in zip(rows, average_over_frames(FRAME_SKIP * ended, scores, FRAME_SKIP * at), strict=True):
        row["score"] = str(_shown(float(score)))


def _json(path: Path) -> dict[str, Any]:
    """The object in a file; empty if there is none, or a torn one."""
    try:
        found = json.loads(_text(path))
    except (OSError, ValueError, RecursionError, CheckpointError):
        return {}
    return found if isinstance(found, dict) else {}


def _text(path: Path) -> str:
    return read_file(path).decode()


def _load(out: Path, job: Job) -> RunResult:
    where = kept(out, job)
    try:
        rows, evaluations = (read(where / name) for name in ("progress.csv", "eval.csv"))
        names = rows[0] if rows else [*COLUMNS, SCORE.name]
        columns = {name: np.array([float(row[name] or "nan") for row in rows]) for name in names}
        run = RunResult(job, columns, float(evaluations[-1]["return_mean"]) if evaluations else math.nan)
        return replace(run, evaluation=run.final, diverged=True) if has_diverged(out, job) else run
    except (CheckpointError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{where} is damaged ({in_one_line(error)}); to run it again, remove it") from None
