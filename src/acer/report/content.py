"""What the page shows, as plain values for JSON: curves thinned, settings told apart, pictures encoded.

Everything that comes from files is text or a finite number here; the page treats it as untrusted all the same.
"""

import base64
import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acer import __version__
from acer.config import AGENT_SETTINGS, ALGORITHMS, descriptions
from acer.errors import SettingsError
from acer.learner.metrics import CHARTS
from acer.report.gather import Columns, Evaluation, MediaFile, ReportFiles, ReportRun
from acer.run.files import read as read_file

MOST_POINTS = 1_000  # of a curve
FEWEST_POINTS = 100
ALL_NUMBERS = 1_500_000  # of all curves together: about 12 MB of text
LARGEST_FILE = 8 << 20  # bytes of a picture or film
ALL_FILES = 48 << 20

FIRST = ("replay_ratio", "on_policy", "returns", "trust_region", "delta_unit", "statistic")
TELLING = (*FIRST, *(name for name in AGENT_SETTINGS if name not in FIRST))
"""Settings that tell agents of the same algorithm apart, those that say most first."""

KINDS = {".png": "image/png", ".svg": "image/svg+xml", ".mp4": "video/mp4"}


def content(contents: ReportFiles, title: str) -> dict[str, Any]:
    """All that the page needs."""
    notes = list(contents.notes)
    runs = sorted(contents.runs, key=_order)
    settings = [{name: shown(value) for name, value in run.settings.items()} for run in runs]
    shared, differing = split_settings(settings)
    agents = agent_names(runs)
    most = points_per_curve(runs)
    longest = max((len(run.columns["steps"]) for run in runs), default=0)
    album = _Album(notes)
    texts = descriptions()
    return {
        "title": title,
        "version": __version__,
        "metrics": [
            {"name": metric.name, "label": metric.label, "about": metric.about, "spiky": metric.spiky}
            for metric in CHARTS
            if any(np.isfinite(run.columns.get(metric.name, ())).any() for run in runs)
        ],
        "environments": list(dict.fromkeys(run.env for run in runs)),
        "agents": sorted(set(agents), key=agents.index),
        "shared": shared,
        "differing": differing,
        "about": {name: texts[name] for name in [*shared, *differing] if name in texts},
        "runs": [
            {
                "name": run.name,
                "env": run.env,
                "agent": agent,
                "settings": {name: values[name] for name in differing if name in values},
                "curves": curves(run.columns, most),
                "evaluations": [_finite(evaluation) for evaluation in run.evaluations],
                **results(run),
                "failed": bool(run.failure) and not run.diverged,
                "diverged": run.diverged,
                "media": album.add(run.media),
            }
            for run, agent, values in zip(runs, agents, settings, strict=True)
        ],
        "media": album.add(_one_of_each(contents.media)),
        "tables": [{"name": t.name, "header": t.header, "rows": t.rows} for t in contents.tables],
        "thinned": most if longest > most else 0,
        "notes": notes,
    }


def _order(run: ReportRun) -> tuple[Any, ...]:
    """Runs by environment, then algorithms as the paper lists them, then names with numbers as people count."""
    algorithms = list(ALGORITHMS)
    place = algorithms.index(run.algo) if run.algo in algorithms else len(algorithms)
    return run.env, place, run.algo, run.agent, natural(run.name)


def natural(text: str) -> list[str | int]:
    """A key that sorts `run-2` before `run-10`."""
    return [int(part) if i % 2 else part for i, part in enumerate(re.split(r"(\d+)", text))]


# ------------------------------------------------------------------ settings


def shown(value: Any) -> str:
    """A setting as text, so that equal ones look equal; of what lists hold, only what is simple."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    if isinstance(value, dict):
        return "{…}"
    if isinstance(value, list):
        return shorten(", ".join("[…]" if isinstance(item, list) else shown(item) for item in value))
    return shorten(str(value))


def shorten(text: str, most: int = 300) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def split_settings(settings: Sequence[dict[str, str]]) -> tuple[dict[str, str], list[str]]:
    """What is the same in every run that records it, and the names of what differs, in the files' order.

    A setting that older files do not have is no difference.
    """
    values: dict[str, dict[str, None]] = {}
    for one in settings:
        for name, value in one.items():
            values.setdefault(name, {})[value] = None
    shared = {name: next(iter(found)) for name, found in values.items() if len(found) == 1}
    return shared, [name for name, found in values.items() if len(found) > 1]


def agent_names(runs: Sequence[ReportRun]) -> list[str]:
    """Each run's agent: what its file calls it, or its algorithm with the settings that tell it from its like."""
    alike: dict[tuple[str, str], list[ReportRun]] = {}
    for run in runs:
        alike.setdefault((run.env, run.algo), []).append(run)
    told_apart = {(algo, name) for (_, algo), of in alike.items() for name in _telling(of)}

    def agent(run: ReportRun) -> str:
        names = [name for name in TELLING if (run.algo, name) in told_apart and name in run.settings]
        words = [f"{name.replace('_', ' ')} {shown(run.settings[name])}" for name in names]
        return ", ".join([run.algo, *words])

    return _short_names([run.agent or agent(run) for run in runs])


def _telling(runs: Sequence[ReportRun]) -> list[str]:
    """Settings that tell apart all runs that differ as agents, as few as come first."""
    groups, names = [list(runs)], []
    for name in TELLING:
        parts: list[list[ReportRun]] = []
        for group in groups:
            by_value: dict[str | None, list[ReportRun]] = {}
            for run in group:
                by_value.setdefault(shown(run.settings[name]) if name in run.settings else None, []).append(run)
            parts += list(by_value.values()) if len(by_value.keys() - {None}) > 1 else [group]
        if len(parts) > len(groups):
            groups = parts
            names.append(name)
    return names


def _short_names(names: Sequence[str], most: int = 80) -> list[str]:
    """The names shortened; different ones stay different."""
    short: dict[str, str] = {}
    for name in names:
        number, called = 1, shorten(name, most)
        while name not in short and called in short.values():
            number += 1
            called = f"{shorten(name, most - 5)} ({number})"
        short.setdefault(name, called)
    return [short[name] for name in names]


# ------------------------------------------------------------------ curves


def points_per_curve(runs: Sequence[ReportRun]) -> int:
    """How many points each curve may have so that the page stays small enough for a browser."""
    drawn = [sum(metric.name in run.columns for metric in CHARTS) for run in runs]
    rows = [min(MOST_POINTS, len(run.columns["steps"])) for run in runs]
    if sum(count * (curves + 2) for count, curves in zip(rows, drawn, strict=True)) <= ALL_NUMBERS:
        return MOST_POINTS
    return max(FEWEST_POINTS, ALL_NUMBERS // (3 * sum(drawn)))  # a thinned curve has steps and seconds of its own


def curves(columns: Columns, most: int = MOST_POINTS) -> list[dict[str, Any]]:
    """Tables of at most `most` rows: one for all curves if they are short, else one for each."""
    names = [metric.name for metric in CHARTS if np.isfinite(columns.get(metric.name, ())).any()]
    rows = np.arange(len(columns["steps"]))
    if len(rows) <= most:
        return [_table(columns, names, rows)] if names else []
    return [_table(columns, [name], thin(columns[name], most)) for name in names]


def _table(columns: Columns, names: Iterable[str], rows: NDArray[np.intp]) -> dict[str, Any]:
    return {name: _plain(columns[name][rows]) for name in ("steps", "seconds", *names) if name in columns}


def thin(values: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Indexes of at most `most` finite values: the first, the last, and the least and greatest of every stretch."""
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) <= most:
        return finite
    kept = {finite[0], finite[-1]}
    for stretch in np.array_split(finite, (most - 2) // 2):
        kept |= {stretch[values[stretch].argmin()], stretch[values[stretch].argmax()]}
    return np.array(sorted(kept))


def _plain(values: NDArray[np.float64]) -> list[float | int | None]:
    """Numbers for JSON, with six digits; None for NaN."""
    return [_rounded(value) for value in values.tolist()]


def _rounded(value: float) -> float | int | None:
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() and abs(value) < 1e15 else float(f"{value:.6g}")


def _finite(evaluation: Evaluation) -> dict[str, Any]:
    return {
        name: shorten(value, 40) if isinstance(value, str) else _rounded(value) for name, value in evaluation.items()
    }


def results(run: ReportRun) -> dict[str, Any]:
    """Where a run stands: steps, seconds, last and best return, last evaluation; None for what it does not have."""

    def last(values: NDArray[np.float64]) -> float | int | None:
        finite = values[np.isfinite(values)]
        return _rounded(float(finite[-1])) if len(finite) else None

    nothing = np.empty(0)
    returns = run.columns["return_mean"]
    best = float(np.nanmax(returns)) if np.isfinite(returns).any() else math.nan
    evaluated = [evaluation["return_mean"] for evaluation in run.evaluations if "return_mean" in evaluation]
    return {
        "steps": last(run.columns["steps"]),
        "seconds": last(run.columns.get("seconds", nothing)),
        "final": last(returns),
        "best": _rounded(best),
        "evaluation": _rounded(float(evaluated[-1])) if evaluated else None,
    }


# ------------------------------------------------------------------ pictures and films


class _Album:
    """Encodes files as long as there is room; what does not fit is noted."""

    def __init__(self, notes: list[str]) -> None:
        self._room, self._notes = ALL_FILES, notes

    def add(self, files: Iterable[MediaFile]) -> list[dict[str, str]]:
        return [picture for file in files if (picture := self._encode(file))]

    def _encode(self, file: MediaFile) -> dict[str, str] | None:
        try:
            size = os.lstat(file.path).st_size
            if size > min(self._room, LARGEST_FILE):
                self._notes.append(
                    f"left out: {file.name}, {size / (1 << 20):.1f} MB; a picture or film may have "
                    f"{LARGEST_FILE >> 20} MB, all of them {ALL_FILES >> 20} MB"
                )
                return None
            data = read_file(file.path, LARGEST_FILE)
        except OSError as error:
            raise SettingsError(f"{file.path} cannot be read: {error.strerror}") from None
        _check(file.path, data)
        self._room -= size
        kind = KINDS[file.path.suffix]
        return {"name": file.name, "uri": f"data:{kind};base64,{base64.b64encode(data).decode()}"}


def _check(path: Path, data: bytes) -> None:
    """Refuses a file that is not what its ending says, or that ends too early."""
    whole = {
        ".png": data.startswith(b"\x89PNG\r\n\x1a\n") and b"IEND" in data[-64:],
        ".svg": b"<svg" in data and b"</svg>" in data[-64:],
        ".mp4": data[4:8] == b"ftyp",
    }
    if not whole[path.suffix]:
        raise SettingsError(f"{path} is damaged: it is not a whole {path.suffix[1:].upper()} file")


def _one_of_each(files: Sequence[MediaFile]) -> list[MediaFile]:
    """Without the second of a picture that is there as PNG and as SVG: the SVG stays, unless it is much the larger."""
    sizes = {file.path: file.path.stat().st_size for file in files}

    def other_is_better(path: Path) -> bool:
        other = path.with_suffix(".png" if path.suffix == ".svg" else ".svg")
        if path.suffix not in (".png", ".svg") or other not in sizes:
            return False
        drawing, pixels = sorted((path, other), key=lambda p: p.suffix, reverse=True)
        return path == (drawing if sizes[drawing] > 4 * sizes[pixels] + (1 << 20) else pixels)

    return [file for file in files if not other_is_better(file.path)]
