"""Trains CartPole and Pendulum with many actor-learners: the evidence of results/homes/learning.csv.

    python benchmarks/homes_learning.py            all
    python benchmarks/homes_learning.py shards     only those whose name begins so

Three seeds each, as many steps and the marks of benchmarks/classic_learning.py. Runs live in runs/homes/ and go on
where they stopped; rows of others stay.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from acer.run.tables import column_pairs
from classic_learning import MARKS
from runs import COMMAND, train
from table import write

RUNS, RESULTS = Path("runs/homes"), Path("results/homes")
HOMES = {
    "shared": "--home shared --actors 4 --envs-per-actor 4",
    "ray": "--home ray --actors 2 --envs-per-actor 8",
    "shards": "--home ray --actors 2 --shards 2 --envs-per-actor 8",
    "groups": "--home ray --actors 2 --processes-per-actor 2 --shards 2 --envs-per-actor 4 --cpus-per-actor 0.5",
}


TABLE = RESULTS / "learning.csv"
COLUMNS = [
    "env", "home", "flags", "seed", "steps", "seconds", "eval_mean", "eval_std", "staleness", "mark", "reached"
]  # fmt: skip


def run(name: str, env: str, steps: int, seed: int, mark: float) -> list[Any]:
    """Trains and plays one; its row."""
    out = RUNS / f"{env}-{name}-{seed}"
    train(out, env, steps, *HOMES[name].split(), "--seed", str(seed))
    play = [*COMMAND, "eval", str(out), "--episodes", "100", "--seed", "1000", "--json"]
    result = json.loads(subprocess.run(play, check=True, stdout=subprocess.PIPE, text=True).stdout)
    seconds, _ = column_pairs(out / "progress.csv", "seconds")[-1]
    with (out / "progress.csv").open() as file:
        stale = [float(row["staleness"]) for row in csv.DictReader(file) if row["staleness"]]
    mean, std = round(result["mean"], 1), round(result["std"], 1)
    reached = "yes" if mean >= mark else "no"
    mean_staleness = round(sum(stale) / len(stale), 2)
    return [env, name, HOMES[name], seed, steps, round(seconds), mean, std, mean_staleness, mark, reached]


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    rows: dict[tuple[str, str, str], list[Any]] = {}
    if TABLE.exists():
        with TABLE.open() as file:
            rows = {(row["env"], row["home"], row["seed"]): list(row.values()) for row in csv.DictReader(file)}
    for seed in range(3):
        for name in HOMES:
            for env, steps, _, mark in MARKS[:2]:
                if name.startswith(wanted):
                    row = run(name, env, steps, seed, mark)
                    rows[env, name, str(seed)] = row
                    print(*row, sep="\t", flush=True)
                    write(TABLE, COLUMNS, rows.values())


if __name__ == "__main__":
    main()
