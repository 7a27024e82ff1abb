"""Mutated checkpoints and run directories, and what becomes of them: for `test_fuzz.py` and the fuzzer in `benchmarks`.

An input is a string of bytes. It says what is attacked and how: arrays, numbers, configuration, tables, bytes. Hashes
are set right again, so that what is behind them is tried. What comes of it is a refusal in one line, or a run of an
iteration that goes on or ends with a named error. Any other exception is a finding.
"""

import os
import shutil
import struct
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from acer import ACER
from acer.errors import AcerError
from acer.report.content import content
from acer.report.gather import gather
from acer.report.page import render
from acer.run import opening, plots
from acer.run.checkpoint import MODEL
from run_files import latest, read_state, rehash, rewrite_state

SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5, "threads": 1,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "eval_episodes": 1, "log_every": 50,
         "eval_every": 100, "eval_limit": 10, "steps": 150}  # fmt: skip
SHARED = Path(__file__).parent / "fixtures" / "format-5" / "shared"
ODD: list[Any] = [None, -1, 0, 1, 2, 1e308, -1e308, "", "x", [], {}, True, 10**30, "../../etc/passwd", "os:abort", 3.5,
                  [[]], float("inf"), float("nan"), "inf", -(2**63), 2**53, 2**31, "\x1b[2J", [1], [10**9], 1 << 40,
                  "1e400", "\ud800", 150, [[1.0, 2]] * 100]  # fmt: skip
CELLS = [b"", b"nan", b"inf", b"-1", b"1e400", b"x", b'"', b"\0", b"\xff", b",", b"\n", b"\x1b[2J", b"9" * 400, b"1_0",
         b"\r", b"\xef\xbb\xbf"]  # fmt: skip


class Bytes:
    """An input, read from its beginning; zeros after its end."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def number(self, most: int) -> int:
        value = 0
        for _ in range(max(1, (most.bit_length() + 7) // 8)):
            value = value << 8 | (self._data[self._at] if self._at < len(self._data) else 0)
            self._at += 1
        return value % (most + 1)

    def pick(self, of: Any) -> Any:
        return of[self.number(len(of) - 1)]

    def more(self) -> bool:
        return self._at < len(self._data)


# ------------------------------------------------------------------ mutations


def mutate_json(source: Bytes, value: Any, depth: int = 0) -> Any:
    """One part of a JSON value, replaced."""
    if isinstance(value, dict) and value and (depth == 0 or source.number(7)):
        key = source.pick(sorted(value))
        if source.number(15) == 15:
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
        with np.errstate(all="ignore"):
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


def mutate_text(source: Bytes, run: Path) -> None:
    """A file of a run's directory that is text: a cell or a line replaced, its bytes, or the whole file."""
    path = run / source.pick(["progress.csv", "eval.csv", "episodes.csv", "config.json", "checkpoints/LATEST",
                              "checkpoints/BEST"])  # fmt: skip
    if not path.is_file():
        return
    kind = source.number(4)
    if kind == 0:
        path.unlink()
    elif kind == 1:
        mutate_bytes(source, path)
    else:
        lines = path.read_bytes().split(b"\n")
        at = source.number(len(lines) - 1)
        cells = lines[at].split(b",")
        cells[source.number(len(cells) - 1)] = source.pick(CELLS)
        lines[at] = b",".join(cells)
        path.write_bytes(b"\n".join(lines * (1 if kind < 4 else 2)))


def mutate(source: Bytes, where: Path) -> None:
    """Up to four mutations of a checkpoint."""
    for _ in range(4):
        names = ["state", "state", "config", "model", "run", "run", "replay", "replay", "bytes"]
        name = source.pick(names if (where / "run.safetensors").exists() else ["state", "config", "model", "bytes"])
        if name in ("state", "config"):
            state = read_state(where)
            part = mutate_json(source, state.get("config") if name == "config" else state)
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


# ------------------------------------------------------------------ what is attacked


def go_on(where: Path, given: dict[str, Any] | None = None, iterate: bool = True) -> None:
    """Takes a checkpoint up; where the run is of one process, for an iteration."""
    training = opening.resume(where, given=given)
    try:
        if iterate:
            training.learner.iterate()
        training.state.row(final=True)
        training.state.describe()
    finally:
        training.close()


def run_on(run: Path) -> None:
    """Goes on with a run in its directory, and looks at it as `plot` and `report` do."""
    try:
        training = opening.resume(run, directory=run)
        try:
            training.extend(training.steps + 10)
            training.run()
        finally:
            training.close()
    finally:
        looks: list[Callable[[list[Path]], Any]] = [
            plots.by_agent,
            lambda runs: plots._returns(runs[0], "seconds"),
            lambda runs: render(content(gather(runs), "")),
        ]
        for look in looks:
            try:
                look([run])
            except AcerError as error:
                in_one_line(error)


def play(model: Path) -> None:
    training = opening.load(model)
    try:
        training.evaluate(1)
    finally:
        training.close()


def in_one_line(error: AcerError) -> None:
    if "\n" in str(error):
        raise RuntimeError("an error of several lines") from error


class Attacked:
    """Small runs and models, made once; each input has a copy of one."""

    def __init__(self, place: Path) -> None:
        self._mutant = place / "mutant"
        ACER("CartPole-v1", **SMALL).learn(out=place / "cartpole").close()
        pendulum = ACER("Pendulum-v1", normalize_observations=True, **SMALL).learn(out=place / "pendulum")
        pendulum.save(place / "model")
        pendulum.close()
        cartpole, shared = latest(place / "cartpole").path, {"home": "shared", "actors": 2}
        self._kinds: list[tuple[Path, Callable[[Path], None]]] = [
            (cartpole, go_on),
            (latest(place / "pendulum").path, go_on),
            (place / "cartpole", run_on),
            (latest(SHARED).path, lambda where: go_on(where, shared, iterate=False)),
            (place / "model", play),
        ]

    def __call__(self, data: bytes) -> str:
        """One input: "refused" or "went on"."""
        source = Bytes(data)
        original, act = self._kinds[source.pick([0, 0, 0, 1, 1, 2, 3, 4])]
        shutil.rmtree(self._mutant, ignore_errors=True)
        shutil.copytree(original, self._mutant)
        if (self._mutant / MODEL).exists():
            mutate(source, self._mutant)
        elif source.number(3) == 3:
            mutate(source, latest(self._mutant).path)
        else:
            mutate_text(source, self._mutant)
            if source.more():
                mutate_text(source, self._mutant)
        here = os.getcwd()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                act(self._mutant)
            except AcerError as error:
                in_one_line(error)
                return "refused"
        assert os.getcwd() == here
        return "went on"
