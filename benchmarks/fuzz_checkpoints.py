"""Mutates checkpoints and run directories, and goes on with them: results/reliability/fuzz.csv.

    python benchmarks/fuzz_checkpoints.py WORK [MINUTES]
    python benchmarks/fuzz_checkpoints.py WORK distil
    python benchmarks/fuzz_checkpoints.py WORK coverage

WORK keeps the inputs that reach new branches. `distil` puts the fewest of them that reach as many lines into
tests/fuzz/corpus.txt, which `test_fuzz.py` replays. `coverage` counts those lines:
results/reliability/fuzz_coverage.csv.

What an input is and what may come of it says `tests/fuzzing.py`. Anything else is a finding: the input is kept in
WORK/findings, and the program ends.

Coverage guides it: atheris (`pip install atheris`, Python up to 3.13) instruments acer's modules, and keeps inputs that
reach new branches. Memory is capped. Executions and hours add up over sessions.
"""

import csv
import resource
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "tests"))
FILE = Path("results/reliability/fuzz.csv")
CORPUS = HERE.parent / "tests" / "fuzz" / "corpus.txt"
MEMORY = 4 << 30  # bytes of address space beyond what the imports take
WATCHED = ["run/checkpoint", "run/contents", "run/directory", "run/files", "run/logs", "run/opening", "run/saved",
           "run/state", "run/store", "run/tables", "run/trust", "learner/replay", "learner/rollout", "envs/batch",
           "envs/episodes", "report/gather", "config/files", "config/checks"]  # fmt: skip


def fuzz(work: Path, minutes: float) -> None:
    import atheris

    with atheris.instrument_imports(include=["acer"]):
        from fuzzing import Attacked

    from acer.console import errors

    errors.quiet = True
    inputs, findings = work / "inputs", work / "findings"
    for path in (inputs, findings):
        path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        attacked = Attacked(Path(directory))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        seen = {"refused": 0, "went on": 0}
        began = last = time.monotonic()
        before = read()

        def one(data: bytes) -> None:
            nonlocal last
            seen[attacked(data)] += 1
            now = time.monotonic()
            if now - last > 20 or now - began > 60 * minutes - 5:
                last = now
                hours = round((now - began) / 3600, 3)
                row = [hours, sum(seen.values()), *seen.values(), len(list(inputs.iterdir()))]
                write_csv(FILE, ["hours", "executions", "refused", "went_on", "inputs_kept"], [*before, row])

        arguments = [sys.argv[0], str(inputs), f"-max_total_time={60 * minutes:.0f}", "-max_len=64", "-rss_limit_mb=0",
                     "-len_control=0", "-timeout=120", f"-artifact_prefix={findings}/"]  # fmt: skip
        atheris.Setup(arguments, one)
        atheris.Fuzz()


def read() -> list[list[str]]:
    if not FILE.exists():
        return []
    with FILE.open() as file:
        return list(csv.reader(file))[1:]


def write_csv(path: Path, columns: list[str], rows: list[Any]) -> None:
    from table import write

    write(path, columns, rows)


# ------------------------------------------------------------------ which lines are reached


class Reached:
    """Lines of the watched modules that were run."""

    def __init__(self) -> None:
        import acer

        root = Path(acer.__file__).parent
        self.files = {str(root / f"{name}.py"): name for name in WATCHED}
        self.lines: set[tuple[str, int]] = set()

    def __enter__(self) -> "Reached":
        threading.settrace(self._call)
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        return self._line if frame.f_code.co_filename in self.files else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._line


def executable(path: str) -> set[int]:
    """Lines inside of functions: those of the module itself run at its import."""

    def of(code: CodeType, inside: bool) -> set[int]:
        lines = {line for _, _, line in code.co_lines() if line and inside and line != code.co_firstlineno}
        for part in code.co_consts:
            if isinstance(part, CodeType):
                lines |= of(part, inside or not part.co_name[0].isupper())
        return lines

    return of(compile(Path(path).read_text(), path, "exec"), False)


def coverage() -> None:
    from acer.console import errors
    from fuzzing import Attacked

    errors.quiet = True
    rows: list[list[Any]] = []
    with tempfile.TemporaryDirectory() as directory:
        attacked = Attacked(Path(directory))
        with Reached() as reached:
            for line in CORPUS.read_text().split():
                attacked(bytes.fromhex(line))
        for path, name in reached.files.items():
            lines = executable(path)
            found = {line for file, line in reached.lines if file == path} & lines
            rows.append([name, len(lines), len(found), f"{len(found) / len(lines):.0%}"])
            print(*rows[-1], "not reached:", *sorted(lines - found))
    write_csv(FILE.with_name("fuzz_coverage.csv"), ["module", "lines", "reached", "share"], rows)


def distil(work: Path, most: int = 150) -> None:
    """Keeps, input by input, those that reach a line which none before reached; the shortest first."""
    from acer.console import errors
    from fuzzing import Attacked

    errors.quiet = True
    kept, known = [], set[tuple[str, int]]()
    with tempfile.TemporaryDirectory() as directory:
        attacked = Attacked(Path(directory))
        for path in sorted((work / "inputs").iterdir(), key=lambda path: path.stat().st_size):
            with Reached() as reached:
                attacked(path.read_bytes())
            if reached.lines - known and len(kept) < most:
                known |= reached.lines
                kept.append(path.read_bytes().hex())
    CORPUS.parent.mkdir(exist_ok=True)
    CORPUS.write_text("\n".join(filter(None, kept)) + "\n")
    print(len(kept), "inputs kept")


if __name__ == "__main__":
    what = sys.argv[2] if len(sys.argv) > 2 else "10"
    if what == "coverage":
        coverage()
    elif what == "distil":
        distil(Path(sys.argv[1]))
    else:
        fuzz(Path(sys.argv[1]), float(what))
