"""CSV files of a run: rows that are added as it goes, and read again to go on, to draw and to report."""

import csv
import io
import itertools
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
        kept = self._kept(rows) if rows and directory.exists(name) else []
        if len(kept) < rows:
            say(f"{self.path} has {len(kept):,} rows where the checkpoint counts {rows:,}: some were lost")
            self.rows = len(kept)
        directory.replace(name, b"".join([self._text([], header=True), *kept]))

    @property
    def path(self) -> Path:
        return self.directory.path / self.name

    def _kept(self, rows: int) -> list[bytes]:
        """The first rows of the file, as it has them, up to one that a power cut has torn or filled with zeros."""
        header, *lines = whole_lines(self.directory.read(self.name, LARGEST))[: rows + 1] or [b""]
        parsed = parse(b"".join([header, *lines]), self.path)  # what is damaged otherwise is refused
        if header == self._text([], header=True):
            return lines
        return [self._text([row]) for row in parsed]  # a version's other columns

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
        writer = csv.DictWriter(text, self.columns, restval="", extrasaction="ignore", lineterminator="\n")
        if header:
            writer.writeheader()
        writer.writerows(rows)
        return text.getvalue().encode()


def whole_lines(content: bytes) -> list[bytes]:
    """The lines of a table up to one that a power cut has torn or filled with zeros."""
    lines = content.splitlines(keepends=True)
    commas = lines[0].count(b",") if lines else 0
    return list(
        itertools.takewhile(lambda one: one.endswith(b"\n") and one.count(b",") == commas and b"\0" not in one, lines)
    )


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
