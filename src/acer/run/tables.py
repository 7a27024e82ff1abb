"""CSV files of a run: rows that are added as it goes, and read again to go on, to draw and to report."""

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acer.errors import CheckpointError
from acer.run.files import Directory

LARGEST = 1 << 30  # bytes of a CSV file that is read at all


class Table:
    """A CSV file that grows by rows. A row survives the process when `add` returns, and the machine after `flush`."""

    def __init__(
        self, directory: Directory, name: str, columns: list[str], rows: int, say: Callable[[str], None]
    ) -> None:
        """Goes on with an existing file after its first `rows`: the others belong to a future that a resume undoes."""
        self.directory, self.name, self.columns = directory, name, columns
        self.rows = rows
        if not rows or not directory.exists(name):
            kept: list[dict[str, str]] = []
        else:
            kept = parse(directory.read(name, LARGEST), self.path)[:rows]
        if len(kept) < rows:
            say(f"{self.path} has {len(kept):,} rows where the checkpoint counts {rows:,}: some were lost")
            self.rows = len(kept)
        directory.replace(name, self._text(kept, header=True))

    @property
    def path(self) -> Path:
        return self.directory.path / self.name

    def add(self, *rows: dict[str, Any]) -> None:
        formatted = [
            {key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()} for row in rows
        ]
        self.directory.append(self.name, self._text(formatted))
        self.rows += len(rows)

    def flush(self) -> None:
        """Makes the rows last."""
        self.directory.flush_file(self.name)

    def _text(self, rows: list[dict[str, Any]], header: bool = False) -> bytes:
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, self.columns, restval="", extrasaction="ignore" if header else "raise",
                                lineterminator="\n")  # fmt: skip
        if header:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()


def parse(content: bytes, path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file."""
    try:
        return list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    except (ValueError, csv.Error) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__}: {error}; mend it or remove it") from None


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a run's CSV file."""
    with Directory.open(path.parent) as directory:
        return parse(directory.read(path.name, LARGEST), path)


def column_pairs(path: Path, x: str, y: str = "return_mean") -> list[tuple[float, float]]:
    """Two columns of a run's CSV file, rows with a finite y only."""
    try:
        pairs = [(float(row[x]), float(row[y])) for row in read(path) if row.get(y)]
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is this the directory of a run?") from None
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    return [pair for pair in pairs if math.isfinite(pair[1])]
