"""CSV files of a run: rows that are added as it goes, and read again to go on, to draw and to report."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from acer.errors import CheckpointError
from acer.machine import free_memory
from acer.run import files
from acer.run.files import Directory

LARGEST = 1 << 30  # bytes of a CSV file that is read at all
ROW, CELL = 400, 80  # bytes that a row and a cell take in memory, about

Row = TypeVar("Row")


class Table:
    """A CSV file that grows by rows. A row survives the process when `add` returns, and the machine after `flush`."""

    def __init__(
        self, directory: Directory, name: str, columns: list[str], rows: int, say: Callable[[str], None]
    ) -> None:
        """Goes on with an existing file after its first `rows`: the others belong to a future that a resume undoes."""
        self.directory, self.name, self.columns = directory, name, columns
        self.rows = rows
        kept, found = self._kept(rows) if rows and directory.exists(name) else (b"", 0)
        if found < rows:
            say(f"{self.path} has {found:,} rows where the checkpoint counts {rows:,}: some were lost")
            self.rows = found
        directory.replace(name, self._text([], header=True) + kept)

    @property
    def path(self) -> Path:
        return self.directory.path / self.name

    def _kept(self, rows: int) -> tuple[bytes, int]:
        """The first rows of the file, as it has them, up to one that a power cut has torn or filled with zeros; and how
        many they are. What is damaged otherwise is refused."""
        content, count = whole_lines(self.directory.read(self.name, LARGEST), rows)
        header = self._text([], header=True)
        if content.startswith(header):
            for _ in _checked(csv.reader(_lines(content)), self.path):
                pass
            return content[len(header) :], count
        return self._text(parse(content, self.path)), count  # a version's other columns

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


def whole_lines(content: bytes, most: int = LARGEST) -> tuple[bytes, int]:
    """A table's header and its rows, `most` at most, up to one that a power cut has torn or filled with zeros; and how
    many rows they are."""
    lines = io.BytesIO(content)
    end, count, commas = 0, -1, content.partition(b"\n")[0].count(b",")
    while count < most:
        line = lines.readline()
        if not line.endswith(b"\n") or line.count(b",") != commas or b"\0" in line:
            break
        end, count = end + len(line), count + 1
    return content[:end], max(0, count)


def parse(content: bytes, path: Path) -> list[dict[str, str]]:
    """Rows of a CSV file."""
    check_memory(content, path)
    return list(_checked(csv.DictReader(_lines(content)), path))


def check_memory(content: bytes, path: Path) -> None:
    """Refuses a table whose rows do not fit in memory, by what they take there."""
    rows = content.count(b"\n") + content.count(b"\r")
    if ROW * rows + CELL * content.count(b",") > free_memory():
        raise CheckpointError(f"{path} does not fit in memory: it has {rows:,} rows")


def _lines(content: bytes) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(content), "utf-8", newline="")


def _checked(rows: Iterable[Row], path: Path) -> Iterator[Row]:
    """Rows as they are read; what cannot be read is said."""
    try:
        yield from rows
    except (ValueError, csv.Error) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__}: {error}; mend it or remove it") from None


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a run's CSV file."""
    return parse(files.read(path, LARGEST), path)


def column_pairs(path: Path, x: str, y: str = "return_mean") -> list[tuple[float, float]]:
    """Two columns of a run's CSV file, rows with a finite y only."""
    try:
        pairs = [(float(row[x]), float(row[y])) for row in read(path) if row.get(y)]
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; is this the directory of a run?") from None
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {type(error).__name__}: {error}") from None
    return [pair for pair in pairs if math.isfinite(pair[1])]
