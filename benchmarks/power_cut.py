"""Cuts the power at every operation on files of a run, and lets it go on: results/reliability/power_cut.csv.

    python benchmarks/power_cut.py [local|shared [SECONDS]]

A run of CartPole-v1 is cut before its n-th operation, for every n: from the creation of its directory to its last
save, and once more from where it is resumed. What was not flushed is dropped, or kept in part. The run then goes on,
from a whole checkpoint or from its beginning, without a word of damage. In `local` what it leaves at its end is equal
to what a run that was never cut leaves: every tensor, the replay memory, random streams, counters and finished
episodes. A model that is saved over an older one is cut likewise. A session that ends after SECONDS is gone
on with by the next.
"""

import csv
import itertools
import json
import random
import shutil
import sys
import tempfile
import time
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
         "keep_checkpoints": 1, "eval_every": 100, "eval_episodes": 1, "eval_limit": 10, "steps": 140}  # fmt: skip
HOMES: dict[str, dict[str, Any]] = {"local": {}, "shared": {"home": "shared", "actors": 1}}


def begin(out: Path, home: str) -> None:
    model = ACER("CartPole-v1", **SMALL, **HOMES[home])
    try:
        model.learn(out=out)
    finally:
        model.close()


def go_on(out: Path, home: str, steps: int = 140) -> None:
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


def cuts(kind: str, home: str, place: Path, seconds: float) -> None:
    """Cuts a run at every n, from where the last session ended; stops after `seconds`."""
    prepared, expected = prepare(kind, home, place)
    began = time.monotonic()
    for n in itertools.count(so_far(home, kind) + 1):
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
        keep([home, kind, n if cut else n - 1, "no" if cut else "yes", "equal" if expected else "good"])
        if not cut:
            return
        if time.monotonic() - began > seconds:
            sys.exit(f"{kind}, {home}: {n} operations so far")


def prepare(kind: str, home: str, place: Path) -> tuple[Path | None, dict[str, Any] | None]:
    """What a run begins from, and what it has to leave: the same as one that was never cut, in one process."""
    if kind == "from its beginning":
        begin(place / "whole", home)
        return None, left(place / "whole") if home == "local" else None
    model = ACER("CartPole-v1", **{**SMALL, "steps": 70}, **HOMES[home])
    model.learn(out=place / "half")
    model.close()
    shutil.copytree(place / "half", place / "whole")
    go_on(place / "whole", home)
    return place / "half", left(place / "whole") if home == "local" else None


def models(place: Path, exchanges: bool) -> None:
    """Cuts the saving of a model over an older one at every n: one of them is there, whole."""
    model = ACER("CartPole-v1", **SMALL)
    model.save(place / "old")
    model.learn(30)
    for n in itertools.count(1):
        target = place / str(n) / "model"
        shutil.copytree(place / "old", target)
        cut = False
        with fragile(target.parent, n, exchanges=exchanges) as disk:
            try:
                model.save(target)
            except PowerCut:
                cut = True
            disk.cut(random.Random(n))
        assert store.find(target, lambda line: None).state["steps"] in ((0, model.steps) if cut else (model.steps,))
        model.save(target)
        assert store.find(target, complain).state["steps"] == model.steps
        kind = f"a model over an old one, {'by an exchange' if exchanges else 'by two renames'}"
        keep(["local", kind, n if cut else n - 1, "no" if cut else "yes", "whole"])
        if not cut:
            break
    model.close()


def rows() -> list[list[Any]]:
    if not FILE.exists():
        return []
    with FILE.open() as file:
        return list(csv.reader(file))[1:]


def so_far(home: str, kind: str) -> int:
    return next((int(row[2]) for row in rows() if row[:2] == [home, kind]), 0)


def keep(row: list[Any]) -> None:
    others = [one for one in rows() if one[:2] != row[:2]]
    write(FILE, ["home", "run", "operations_cut", "all_of_them", "what_is_left_is"], [*others, row])


def main() -> None:
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1e9
    for home in sys.argv[1:2] or list(HOMES):
        with tempfile.TemporaryDirectory() as directory:
            for exchanges in (True, False) if home == "local" else ():
                models(Path(directory) / str(exchanges), exchanges)
        for kind in ("from its beginning", "resumed"):
            if any(row[:2] == [home, kind] and row[3] == "yes" for row in rows()):
                continue
            with tempfile.TemporaryDirectory() as directory:
                cuts(kind, home, Path(directory), seconds)


if __name__ == "__main__":
    main()
