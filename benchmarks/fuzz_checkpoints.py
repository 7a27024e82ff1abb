"""Mutates checkpoints, loads them and runs them for an iteration: results/reliability/fuzz.csv.

    python benchmarks/fuzz_checkpoints.py [MINUTES]

Each input is a list of mutations of a small run's checkpoint: of its arrays, its numbers, its configuration, its bytes.
Hashes are set right again, so that what is behind them is tried. A state is refused in one line, or it runs for an
iteration; then it ends with a named error or goes on. Anything else is a finding: the input is kept in
tests/fuzz/findings, and the program ends.

Coverage guides it: atheris (`pip install atheris`) instruments `acer.run`, `acer.learner` and `acer.envs`, and keeps
inputs that reach new branches in tests/fuzz/corpus. Memory is capped. Executions and hours add up over sessions.
"""

import atexit
import csv
import json
import resource
import shutil
import struct
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import atheris

with atheris.instrument_imports(include=["acer.run", "acer.learner", "acer.envs", "acer.config"]):
    from acer import ACER
    from acer.errors import AcerError
    from acer.run import opening

import numpy as np
import safetensors.numpy

from table import write

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from run_files import latest, read_state, rehash, rewrite_state

HERE = Path(__file__).parent.parent / "tests"
FILE = Path("results/reliability/fuzz.csv")
CORPUS, FINDINGS = HERE / "fuzz" / "corpus", HERE / "fuzz" / "findings"
MEMORY = 4 << 30  # bytes of address space beyond what the imports take
SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5, "threads": 1,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "eval_episodes": 1}  # fmt: skip
ODD: list[Any] = [None, -1, 0, 1, 2, 1e308, -1e308, "", "x", [], {}, True, 10**30, "../../etc/passwd", "os:abort", 3.5,
                  [[]], float("inf"), float("nan"), "inf", -(2**63), 2**53, 2**31, "\x1b[2J", [1], [10**9]]  # fmt: skip


class Bytes:
    """An input, read from its beginning."""

    def __init__(self, data: bytes) -> None:
        self._data = atheris.FuzzedDataProvider(data)

    def pick(self, of: Any) -> Any:
        return of[self._data.ConsumeIntInRange(0, len(of) - 1)]

    def number(self, most: int) -> int:
        return self._data.ConsumeIntInRange(0, most)

    def more(self) -> bool:
        return bool(self._data.remaining_bytes() > 1)


def mutate_json(source: Bytes, value: Any, depth: int = 0) -> Any:
    """One part of a JSON value, replaced."""
    if isinstance(value, dict) and value and (depth == 0 or source.number(7)):
        key = source.pick(sorted(value))
        if source.number(15) == 0:
            return {name: part for name, part in value.items() if name != key}
        return value | {key: mutate_json(source, value[key], depth + 1)}
    if isinstance(value, list) and value and source.number(3):
        at = source.number(len(value) - 1)
        return [*value[:at], mutate_json(source, value[at], depth + 1), *value[at + 1 :]]
    return source.pick(ODD)


def mutate_arrays(source: Bytes, path: Path) -> None:
    """One array: another number, shape or dtype; or none."""
    arrays = safetensors.numpy.load_file(path)
    name = source.pick(sorted(arrays))
    array, kind = arrays[name], source.number(7)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = np.concatenate((array, array)) if array.ndim else array
    elif kind == 2:
        arrays[name] = array.astype(source.pick([np.float64, np.float32, np.int64, np.int8, np.bool_, np.float16]))
    elif kind == 3:
        arrays[name] = array.reshape(-1)
    elif kind == 4:
        arrays[f"env.{name}"] = array
    elif array.size:
        flat = array.reshape(-1).copy()
        whole = [0, 1, -1, 2**62, -(2**62), 255, 2**31]
        odd = whole if array.dtype.kind in "iu" else [0.0, -1.0, 1e30, -1e30, 3e38, np.nan, np.inf, 1e-38]
        with np.errstate(all="ignore"):
            value = np.array(source.pick(odd)).astype(array.dtype)
        flat[source.number(flat.size - 1) :: 1 + source.number(3) * flat.size] = value
        arrays[name] = flat.reshape(array.shape)
    safetensors.numpy.save_file({key: np.ascontiguousarray(a) for key, a in arrays.items()}, path)


def mutate_bytes(source: Bytes, path: Path) -> None:
    content = bytearray(path.read_bytes())
    at, kind = source.number(max(0, len(content) - 1)), source.number(3)
    if kind == 0 and content:
        content[at] ^= 1 << source.number(7)
    elif kind == 1:
        del content[at:]
    elif kind == 2:
        content[at : at + 8] = struct.pack("<Q", source.pick([0, 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1]))
    else:
        content[at:at] = bytes([source.number(255)] * (1 + source.number(30)))
    path.write_bytes(content)


def apply(data: bytes, where: Path) -> None:
    """The mutations that an input stands for."""
    source = Bytes(data)
    for _ in range(4):
        name = source.pick(["state", "state", "config", "model", "run", "run", "replay", "replay", "bytes"])
        if name in ("state", "config"):
            state = read_state(where)
            part = mutate_json(source, state["config"] if name == "config" else state)
            state = state | {"config": part} if name == "config" else part
            if not isinstance(state, dict):
                return
            rewrite_state(where, state)
            if not isinstance(state.get("files"), dict):
                return
        elif name == "bytes":
            mutate_bytes(source, source.pick(sorted(p for p in where.iterdir() if p.name != "state.json")))
        else:
            try:
                mutate_arrays(source, where / f"{name}.safetensors")
            except (safetensors.SafetensorError, ValueError):  # its bytes were mutated before
                return
        if not source.more():
            break
    try:
        rehash(where)
    except (TypeError, AttributeError):
        return


def run(where: Path) -> str:
    """Loads a checkpoint and runs it for an iteration; what became of it."""
    training = None
    try:
        training = opening.resume(where)
        training.learner.iterate()
        training.state.row(final=True)
        training.state.describe()
    except AcerError as error:
        if "\n" in str(error):
            raise RuntimeError("an error of several lines") from error
        return "refused" if training is None else "stopped"
    finally:
        if training is not None:
            training.close()
    return "ran"


def original(env: str, place: Path) -> Path:
    ACER(env, **SMALL).learn(150, out=place / env)
    return latest(place / env).path


def target(originals: list[Path], place: Path, seen: dict[str, int]) -> Callable[[bytes], None]:
    def one(data: bytes) -> None:
        mutant = place / "mutant"
        shutil.rmtree(mutant, ignore_errors=True)
        shutil.copytree(originals[data[0] % len(originals)] if data else originals[0], mutant)
        apply(data[1:], mutant)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            what = run(mutant)
        seen[what] = seen.get(what, 0) + 1

    return one


def keep(seen: dict[str, int], seconds: float) -> None:
    """Adds a session to the sum of all."""
    rows = []
    if FILE.exists():
        with FILE.open() as file:
            rows = [list(row.values()) for row in csv.DictReader(file)]
    inputs = len(list(CORPUS.iterdir()))
    row = [round(seconds / 3600, 3), sum(seen.values()), *(seen.get(what, 0) for what in ("refused", "stopped", "ran"))]
    write(FILE, ["hours", "executions", "refused", "stopped", "ran", "inputs_in_corpus"], [*rows, [*row, inputs]])


def main() -> None:
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    for path in (CORPUS, FINDINGS):
        path.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        originals = [original(env, place) for env in ("CartPole-v1", "Pendulum-v1")]
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        seen: dict[str, int] = {}
        began = time.monotonic()
        try_one = target(originals, place, seen)
        last = [began]

        def one(data: bytes) -> None:
            try_one(data)
            if time.monotonic() - last[0] > 60:
                last[0] = time.monotonic()
                print(json.dumps(seen), flush=True)

        atexit.register(lambda: keep(seen, time.monotonic() - began))
        arguments = [sys.argv[0], str(CORPUS), f"-max_total_time={60 * minutes:.0f}", "-max_len=64", "-rss_limit_mb=0",
                     "-timeout=120", f"-artifact_prefix={FINDINGS}/", "-verbosity=0"]  # fmt: skip
        atheris.Setup(arguments, one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
