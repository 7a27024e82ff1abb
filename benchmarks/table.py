"""Measurements as CSV files."""

import csv
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from acer.machine import cores


def measure(
    run: Callable[[Any], list[Any]], jobs: Iterable[Any], columns: Sequence[str], file: Path
) -> list[list[Any]]:
    """Runs jobs in as many processes as there are cores; each gives one row, shown as it comes."""
    rows = []
    with ProcessPoolExecutor(cores()) as pool:
        for row in pool.map(run, jobs):
            rows.append(row)
            print(*row, sep="\t", flush=True)
    write(file, columns, rows)
    return rows


def write(file: Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
