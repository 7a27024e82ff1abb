"""Cuts the power at every operation on files of a run, and lets it go on: results/reliability/power_cut.csv.

    python benchmarks/power_cut.py [local] [shared]

A run of CartPole-v1 is cut before its n-th operation, for every n: from the creation of its directory to its last
save, and once more from where it is resumed. What was not flushed is dropped, or kept in part. The run then goes on,
from a whole checkpoint or from its beginning, without a word of damage. In `local` what it leaves at its end is equal
to what a run that was never cut leaves: every tensor, the replay memory, random streams, counters and finished
episodes.
"""

import itertools
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from table import write

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from acer import ACER
from acer.run import opening, store
from power import PowerCut, fragile

FILE = Path("results/reliability/power_cut.csv")
SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5, "threads": 1,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "checkpoint_every": 60, "log_every": 50,
         "keep_checkpoints": 1, "eval_every": 100, "eval_episodes": 1, "eval_limit": 10, "steps": 200}  # fmt: skip
HOMES: dict[str, dict[str, Any]] = {"local": {}, "shared": {"home": "shared", "actors": 1}}


def begin(out: Path, home: str) -> None:
    model = ACER("CartPole-v1", **SMALL, **HOMES[home])
    try:
        model.learn(out=out)
    finally:
        model.close()


def go_on(out: Path, home: str, steps: int = 200) -> None:
    """As a user does: resume, or begin if there is nothing to resume."""
    if not (out / "config.json").exists():
        begin(out, home)
        return
    training = opening.resume(out, directory=out, given=HOMES[home])
    try:
        if training.steps < steps:
            training.extend(steps)
            training.run()
    finally:
        training.close()


def left(out: Path) -> dict[str, Any]:
    """What a run leaves, without what depends on the clock."""
    found = store.find(out, complain)
    rows = (out / "episodes.csv").read_text().splitlines()[: 1 + found.state["rows"]["episodes"]]
    kept = {name: found.state[name] for name in ("steps", "random_streams", "meter", "evaluations", "best", "rows")}
    names = ("model.safetensors", "replay.safetensors", "replay.blocks", "run.safetensors")
    return {"state": json.dumps(kept), "rows": rows, **{name: (found.path / name).read_bytes() for name in names}}


def complain(line: str) -> None:
    raise AssertionError(line)


def cuts(kind: str, home: str, place: Path, prepared: Path | None, expected: dict[str, Any] | None) -> int:
    """Cuts a run at every n; how many there are."""
    for n in itertools.count(1):
        out = place / kind / str(n) / "run"
        out.parent.mkdir(parents=True)
        if prepared is not None:
            shutil.copytree(prepared, out)
        cut = False
        with fragile(out.parent, n) as disk:
            try:
                (begin if prepared is None else go_on)(out, home)
            except PowerCut:
                cut = True
                disk.cut(random.Random(n))
        if cut:
            go_on(out, home)
        found = left(out)
        assert expected is None or found == expected, f"{kind}, {home}, operation {n}: the run ended otherwise"
        shutil.rmtree(out.parent)
        if not cut:
            return n - 1
        if n % 20 == 0:
            print(f"{kind}, {home}: {n} cuts", flush=True)
    raise AssertionError


def main() -> None:
    rows = []
    for home in sys.argv[1:] or list(HOMES):
        with tempfile.TemporaryDirectory() as directory:
            place = Path(directory)
            begin(place / "whole", home)
            expected = left(place / "whole") if home == "local" else None
            model = ACER("CartPole-v1", **{**SMALL, "steps": 100}, **HOMES[home])
            model.learn(out=place / "half")
            model.close()
            go_on(place / "half", home, 130)
            whole = place / "resumed"
            shutil.copytree(place / "half", whole)
            go_on(whole, home)
            resumed = left(whole) if home == "local" else None
            for kind, prepared, equal in (("from its beginning", None, expected), ("resumed", place / "half", resumed)):
                rows.append([home, kind, cuts(kind, home, place, prepared, equal), equal is not None])
                print(*rows[-1], sep="\t", flush=True)
                write(FILE, ["home", "run", "operations_cut", "equal_to_one_never_cut"], rows)


if __name__ == "__main__":
    main()
