"""What a report is made of: runs, evaluations, pictures, films and tables that directories hold, at any depth.

A run is one of

- a directory with `config.json` and `progress.csv`, and perhaps `eval.csv`, `eval.json`, films and film strips;
- a pair `NAME.csv` and `NAME.json`, the settings being the JSON's object or its key `config`, and perhaps
  `NAME.eval.csv` and films or pictures called `NAME`;
- a file `NAME.csv` alone with the columns of `progress.csv`: its environment is read from its name.

Other pictures, films and CSV files belong to the experiment as a whole, which need not have runs then. Files may come
from strangers: symbolic links are not followed, and nothing that is found is run.
"""

import csv
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acer.config import ALGORITHMS
from acer.envs import known_names
from acer.errors import SettingsError
from acer.learner.metrics import PROGRESS, SCORE
from acer.run.files import read as read_file
from acer.run.logs import EVALUATIONS
from acer.run.tables import check_memory

MEDIA = (".png", ".svg", ".mp4")
NOT_ENTERED = ("checkpoints", "tensorboard", "wandb")
KNOWN = ("progress.csv", "episodes.csv", "eval.csv", "curve.png")  # a run's own: not shown as tables and pictures
DEEPEST = 64  # levels of directories that are looked into
LARGEST_TEXT = 64 << 20  # bytes of a CSV or JSON file that are read at all
LARGEST_TABLE = (500, 24)  # rows and columns of a table that is shown
COLUMNS = (*PROGRESS, SCORE.name)
UNKNOWN = "algorithm not recorded"

Columns = dict[str, NDArray[np.float64]]
Rows = list[list[str]]
Evaluation = dict[str, float | str]


@dataclass(frozen=True)
class MediaFile:
    """A file, and what to call it."""

    name: str
    path: Path


@dataclass(frozen=True)
class ReportRun:
    """One run as it was found."""

    name: str
    env: str
    algo: str
    agent: str
    """What the run's JSON file, or its experiment, calls its agent; empty if neither does."""
    settings: dict[str, Any]
    columns: Columns
    """Of progress.csv, in the order of its steps; NaN where it has nothing."""
    evaluations: list[Evaluation]
    media: list[MediaFile]
    failure: str
    """Why an experiment's run did not come to its end; empty if it did."""
    diverged: bool
    """Whether that was because its numbers were no longer finite, which is a result."""


@dataclass(frozen=True)
class Table:
    """A CSV file that is not a run's."""

    name: str
    header: list[str]
    rows: Rows


@dataclass
class ReportFiles:
    """All that the directories hold, in the order of its names."""

    runs: list[ReportRun] = field(default_factory=list)
    media: list[MediaFile] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What was left out, and why; runs that failed."""


def gather(directories: Sequence[Path]) -> ReportFiles:
    """Reads everything below the directories; a file that cannot be read or believed is named in the error."""
    for directory in directories:
        if not os.path.isdir(directory):
            raise SettingsError(f"{directory}: {'is not a' if os.path.exists(directory) else 'no such'} directory")
    contents = ReportFiles()
    roots = _outermost(directories)
    for root in roots:
        before = len(contents.runs), len(contents.media), len(contents.tables)
        for folder, files in _folders(root):
            if _is_work_folder(folder) and (count := _unfinished_runs(folder)):
                contents.notes.append(f"left out: {count} run{'s' * (count != 1)} in {folder.name} not at the end yet")
            _add(folder, files, partial(_name, root=root, alone=len(roots) == 1), contents)
        runs, media, tables = len(contents.runs), len(contents.media), len(contents.tables)
        if runs == before[0] and (media == before[1] or tables == before[2]):
            raise SettingsError(
                f"no runs in {root}: a run is a directory with config.json and progress.csv, "
                "or NAME.csv with such columns beside NAME.json"
            )
    contents.runs = _with_unique_names(contents.runs)
    return contents


# ------------------------------------------------------------------ finding


def _outermost(directories: Sequence[Path]) -> list[Path]:
    """The directories without those that lie in another of them."""
    real = {directory.resolve(): directory for directory in reversed(directories)}
    return [directory for path, directory in reversed(real.items()) if not any(p in real for p in path.parents)]


def _folders(root: Path) -> Iterator[tuple[Path, dict[str, Path]]]:
    """Every directory from `root` down with its regular files by name."""

    def refuse(error: OSError) -> None:
        raise SettingsError(f"{error.filename} cannot be read: {error.strerror}")

    for folder, directories, names in os.walk(root, onerror=refuse):
        if len(Path(folder).parts) - len(root.parts) > DEEPEST:
            raise SettingsError(f"{root} has directories inside of directories more than {DEEPEST} deep")
        directories[:] = sorted(name for name in directories if name not in NOT_ENTERED and not name.startswith("."))
        if _is_work_folder(Path(folder)):
            directories.clear()
        paths = {name: Path(folder, name) for name in sorted(names) if not name.startswith(".")}
        yield Path(folder), {name: path for name, path in paths.items() if path.is_file() and not path.is_symlink()}


def _is_work_folder(folder: Path) -> bool:
    """Whether an experiment has the runs there that it is at, which are no results yet."""
    return folder.name == "work" and (folder.parent / "runs").is_dir()


def _unfinished_runs(work_folder: Path) -> int:
    """How many runs are there; one that failed, to be tried again, is among the results as far as it came."""
    return sum(
        place.is_dir() and not (work_folder.parent / "runs" / place.name).is_dir() for place in work_folder.iterdir()
    )


def _name(path: Path, root: Path, alone: bool) -> str:
    """What to call something below `root`: never where it lies on this machine."""
    inside = "" if path == root else path.relative_to(root).as_posix()
    if alone and inside:
        return inside
    return f"{root.resolve().name}/{inside}".rstrip("/")


def _with_unique_names(runs: Sequence[ReportRun]) -> list[ReportRun]:
    """The runs without the directory that all their names begin with, those of the same name with a number."""
    common = os.path.commonpath([os.path.dirname(run.name) for run in runs]) if runs else ""
    count: dict[str, int] = {}
    renamed = []
    for run in runs:
        name = run.name.removeprefix(f"{common}/" if common else "")
        count[name] = count.get(name, 0) + 1
        renamed.append(replace(run, name=name if count[name] == 1 else f"{name} ({count[name]})"))
    return renamed


def _add(folder: Path, files: dict[str, Path], call: Callable[[Path], str], contents: ReportFiles) -> None:
    """Adds what one directory holds; `call` names a path."""
    pictures = [MediaFile(call(path), path) for path in files.values() if path.suffix in MEDIA]
    tables = {name: path for name, path in files.items() if path.suffix == ".csv"}
    if "config.json" in files and "progress.csv" in files:
        shown = [picture for picture in pictures if picture.path.name not in KNOWN]
        run = _run(call(folder), tables.pop("progress.csv"), files["config.json"], files, shown)
        contents.runs.append(run)
        if run.failure:
            contents.notes.append(f"{run.name} {'diverged' if run.diverged else 'failed'}: {run.failure}")
        pictures = []
        tables = {name: path for name, path in tables.items() if name not in KNOWN}
    for name, path in tables.items():
        if name.endswith(".eval.csv") and name.removesuffix(".eval.csv") + ".csv" in tables:
            continue
        header, rows = _read_csv(path)
        if _is_progress(header):
            beside = {"eval.csv": files[f"{path.stem}.eval.csv"]} if f"{path.stem}.eval.csv" in files else {}
            shown = [picture for picture in pictures if picture.path.stem == path.stem]
            pictures = [picture for picture in pictures if picture not in shown]
            called = call(folder if name == "progress.csv" else path.with_suffix(""))
            contents.runs.append(_run(called, path, files.get(f"{path.stem}.json"), beside, shown))
        elif len(rows) <= LARGEST_TABLE[0] and len(header) <= LARGEST_TABLE[1]:
            contents.tables.append(Table(call(path), header, rows))
        else:
            contents.notes.append(f"left out: {call(path)}, a table of {len(rows):,} × {len(header)}")
    contents.media += [picture for picture in pictures if picture.path.name not in KNOWN]


def _is_progress(header: list[str]) -> bool:
    """Whether the columns are those of a run's log, and not of its evaluations."""
    return {"steps", "return_mean"} <= set(header) and "return_std" not in header


# ------------------------------------------------------------------ reading


def _run(
    name: str, progress: Path, settings: Path | None, beside: dict[str, Path], media: list[MediaFile]
) -> ReportRun:
    """Reads one run; `beside` holds its evaluations, if there are any."""
    guess = _guess(name.rpartition("/")[2], progress.parent.resolve().name)
    values, agent = _read_settings(settings) if settings else (guess, "")
    result = _read_json(beside["result.json"]) if "result.json" in beside else {}
    method, failure = (of if isinstance(of := result.get(key), str) else "" for key in ("method", "error"))
    env, algo = values.get("env"), values.get("algo")
    evaluations = _read_evaluations(beside["eval.csv"]) if "eval.csv" in beside else []
    if "eval.json" in beside:
        evaluations.append(_read_played(beside["eval.json"]))
    return ReportRun(
        name=name,
        env=env if isinstance(env, str) and env else guess["env"],
        algo=algo if isinstance(algo, str) and algo else UNKNOWN,
        agent=agent or method,
        settings=values,
        columns=_read_progress(progress),
        evaluations=evaluations,
        media=media,
        failure=failure,
        diverged=result.get("diverged") is True,
    )


def _guess(name: str, folder: str) -> dict[str, Any]:
    """Environment, algorithm and seed of a run without settings, from a name like `CartPole-v1-acer-0`.

    A name that does not begin with an environment's stands for a trial of what its directory is called.
    """
    rest = re.compile(rf"(?:-(?P<algo>{'|'.join(map(re.escape, ALGORITHMS))}))?(?:-(?P<seed>\d+)(?:-\d+)?)?")
    for env_in_name, env in _names():
        if name.startswith(env_in_name) and (match := rest.fullmatch(name.removeprefix(env_in_name))):
            return {"env": env} | {key: value for key, value in match.groupdict().items() if value}
    return {"env": folder}


@cache
def _names() -> list[tuple[str, str]]:
    """Environments by their names in files, longest first."""
    return sorted(((name.replace("/", "-"), name) for name in known_names()), key=lambda pair: -len(pair[0]))


def _read_text(path: Path) -> str:
    try:
        content = read_file(path, LARGEST_TEXT)
        if path.suffix == ".csv":
            check_memory(content, path)
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} cannot be read: {error}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(_read_text(path))
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is damaged: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path} is damaged: it must hold one JSON object")
    return values


def _read_settings(path: Path) -> tuple[dict[str, Any], str]:
    """A run's settings, whatever version wrote them, and the name of its agent, if there is one."""
    values = _read_json(path)
    settings, agent = values.get("config", values), values.get("agent", "")
    if not isinstance(settings, dict):
        raise SettingsError(f"{path} is damaged: config must be an object")
    return settings, agent if isinstance(agent, str) else ""


def _read_csv(path: Path) -> tuple[list[str], Rows]:
    """Header and rows. A last row that is shorter is being written and is left out."""
    try:
        lines = [line for line in csv.reader(io.StringIO(_read_text(path), newline=""), strict=True) if line]
    except csv.Error as error:
        raise SettingsError(f"{path} is damaged: {error}") from None
    if not lines:
        return [], []
    header, rows = lines[0], lines[1:]
    if rows and len(rows[-1]) < len(header):
        del rows[-1]
    for number, row in enumerate(rows, 2):
        if len(row) != len(header):
            raise SettingsError(f"{path} is damaged: row {number} has {len(row)} values for {len(header)} columns")
    return header, rows


def _numbers(path: Path, header: list[str], rows: Rows, names: Iterable[str]) -> Columns:
    """The columns of these names; NaN for what is empty or not finite."""

    def number(row: int, name: str, text: str) -> float:
        try:
            value = float(text) if text else math.nan
        except ValueError:
            raise SettingsError(f"{path} is damaged: row {row}, {name}: {text[:40]!r} is not a number") from None
        return value if math.isfinite(value) else math.nan

    places = {name: header.index(name) for name in names if name in header}
    return {
        name: np.array([number(i, name, row[place]) for i, row in enumerate(rows, 2)], dtype=np.float64)
        for name, place in places.items()
    }


def _read_progress(path: Path) -> Columns:
    header, rows = _read_csv(path)
    if not _is_progress(header):
        raise SettingsError(f"{path} is damaged: it has no columns steps and return_mean")
    columns = _numbers(path, header, rows, COLUMNS)
    order = np.argsort(columns["steps"], kind="stable")
    order = order[np.isfinite(columns["steps"][order])]
    return {name: values[order] for name, values in columns.items()}


def _read_evaluations(path: Path) -> list[Evaluation]:
    header, rows = _read_csv(path)
    columns = _numbers(path, header, rows, [name for name in EVALUATIONS if name != "policy"])
    policies = [row[header.index("policy")] if "policy" in header else "" for row in rows]
    return [
        {name: float(values[i]) for name, values in columns.items() if math.isfinite(values[i])} | {"policy": policy}
        for i, policy in enumerate(policies)
    ]


def _read_played(path: Path) -> Evaluation:
    """What `acer eval --json` printed."""
    values = _read_json(path)
    try:
        returns = [float(value) for value in values["returns"]]
        numbers = [float(values[name]) for name in ("episodes", "mean", "std")] + [min(returns), max(returns)]
    except (KeyError, TypeError, ValueError, OverflowError):
        raise SettingsError(f"{path} is damaged: it is not what `acer eval --json` prints") from None
    names = ("episodes", "return_mean", "return_std", "return_min", "return_max")
    found = {name: value for name, value in zip(names, numbers, strict=True) if math.isfinite(value)}
    return found | {"policy": "eval.json"}
