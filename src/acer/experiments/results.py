"""What an experiment has found, and the tables that it writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from acer.errors import SettingsError
from acer.experiments import runs
from acer.experiments.plan import Job, Scale
from acer.experiments.runs import RunResult

Say = Callable[[str], None]


@dataclass(frozen=True)
class Results:
    """The finished runs of an experiment, and where figures and tables go."""

    scale: Scale
    shown: Sequence[Job]  # those with which every method of an environment has been run, or has failed
    runs: Sequence[RunResult]  # those of them that have come to an end
    caption: str
    stem: Path  # of the files: directory and name without its ending

    def write(self, ending: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> Path:
        """A table."""
        return write(self.stem, ending, columns, rows)


def write(stem: Path, ending: str, columns: Sequence[str], rows: Sequence[dict[str, Any]]) -> Path:
    """A table as `stem` + `ending`.csv."""
    path = stem.with_name(f"{stem.name}{ending}.csv")
    try:
        path.write_text(runs.table(columns, rows))
    except OSError as error:
        raise SettingsError(f"cannot write {path}: {error.strerror}") from None
    return path
