"""What a run writes down: rows of CSV files, and what trackers make of them."""

from collections import deque
from typing import Any, Self

import numpy as np

from acer.config import Config
from acer.console import warn
from acer.errors import CheckpointError
from acer.learner.actor_learner import Report, Summary
from acer.learner.metrics import PROGRESS
from acer.run import tables
from acer.run.files import Directory
from acer.run.tables import Table
from acer.run.trackers import EVENTS, IDENTITIES, Trackers

PROGRESS_FILE = "progress.csv"
EPISODES = ["steps", "return", "length"]
EVALUATIONS = [
    "steps",
    "seconds",
    "episodes",
    "return_mean",
    "return_std",
    "return_min",
    "return_max",
    "length_mean",
    "policy",
]


class Meter:
    """Collects reports of Algorithm 1 between two rows of progress.csv."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, int]] = deque(maxlen=100)  # return and length of the last episodes
        self.episodes = 0
        self.updates = 0
        self.replays = 0
        self._steps = 0
        self._diagnostics = Summary()

    def add(self, report: Report) -> None:
        self.recent.extend(report.episodes)
        self.episodes += len(report.episodes)
        self.updates += report.updates
        self.replays += report.replays
        self._steps += report.steps
        self._diagnostics.add(report.diagnostics)

    @property
    def return_mean(self) -> float:
        """Mean raw return of the last 100 finished episodes."""
        return float(np.mean([r for r, _ in self.recent])) if self.recent else float("nan")

    def row(self, seconds: float, final: bool = False) -> dict[str, Any]:
        """Values since the last row, `seconds` ago; begins the next, but after a final one."""
        lengths = [n for _, n in self.recent]
        row: dict[str, Any] = {
            "episodes": self.episodes,
            "return_mean": self.return_mean if self.recent else "",
            "length_mean": float(np.mean(lengths)) if lengths else "",
            "steps_per_second": self._steps / max(seconds, 1e-9),
            "updates": self.updates,
            "replays": self.replays,
        }
        row |= self._diagnostics.values()
        if not final:
            self._steps, self._diagnostics = 0, Summary()
        return row

    def state(self) -> dict[str, Any]:
        return {
            "recent": [list(e) for e in self.recent],
            "episodes": self.episodes,
            "updates": self.updates,
            "replays": self.replays,
            "since_row": {"steps": self._steps, "diagnostics": self._diagnostics.state()},
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.recent.clear()
        self.recent.extend((float(r), int(n)) for r, n in state["recent"])
        self.episodes, self.updates, self.replays = (int(state[name]) for name in ("episodes", "updates", "replays"))
        self._steps = int(state["since_row"]["steps"])
        self._diagnostics = Summary(state["since_row"]["diagnostics"])


def logged(run: Directory) -> list[dict[str, str]]:
    """Rows of progress.csv, as far as they are whole; those of a run without a checkpoint were not flushed."""
    if not run.exists(PROGRESS_FILE):
        return []
    content, _ = tables.whole_lines(run.read(PROGRESS_FILE, tables.LARGEST))
    return tables.parse(content, run.path / PROGRESS_FILE)


def put_aside(run: Directory) -> None:
    """Keeps a run's tables and events, if they have rows, under other names: it begins again."""
    if not logged(run):
        return
    for name in (PROGRESS_FILE, "episodes.csv", "eval.csv", EVENTS, IDENTITIES):
        if run.exists(name):
            run.rename(name, f"{name}.old")
    warn(f"{run.path} has no checkpoint: it begins again; what was logged before is kept in *.old")


class Logs:
    """A run's files, if it has a directory. A disk that is full costs rows, not the run."""

    def __init__(self, run: Directory | None, rows: dict[str, int], steps: int, config: Config) -> None:
        """rows: how many of each file belong to the run so far; the others give way. steps: where it stands."""
        self._rows = rows
        self._tables: dict[str, Table] = {}
        if run is not None:
            columns = {"progress": PROGRESS, "episodes": EPISODES, "eval": EVALUATIONS}
            self._tables = {name: Table(run, f"{name}.csv", of, rows[name], warn) for name, of in columns.items()}
            self._trackers = Trackers(config.track, run, config, steps)

    def rows(self) -> dict[str, int]:
        """Rows of each file that belong to the run whether it goes on or not."""
        return {name: table.rows for name, table in self._tables.items()} or self._rows

    def progress(self, row: dict[str, Any], final: bool = False) -> None:
        self._add("progress", "train", [row], final)

    def episodes(self, steps: int, finished: list[tuple[float, int]]) -> None:
        if finished:
            self._add("episodes", "", [{"steps": steps, "return": r, "length": n} for r, n in finished])

    def evaluation(self, row: dict[str, Any], final: bool = False) -> None:
        self._add("eval", "eval", [row], final)

    def flush(self) -> None:
        """Makes the rows so far last."""
        for table in self._tables.values():
            try:
                table.flush()
            except (OSError, CheckpointError) as error:  # rows are less than what is saved after them
                warn(f"cannot flush {table.path}: {getattr(error, 'strerror', None) or error}; the run goes on")

    def _add(self, name: str, group: str, rows: list[dict[str, Any]], final: bool = False) -> None:
        if not self._tables:
            return
        table = self._tables[name]
        try:
            table.add(*rows)
            table.rows -= len(rows) * final
            if group:
                self._trackers.add(group, rows[0])
        except (OSError, CheckpointError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            warn(f"cannot write {table.path}: {reason}; the run goes on")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._tables:
            self._trackers.close()
