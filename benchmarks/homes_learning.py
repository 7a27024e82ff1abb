"""Trains CartPole and Pendulum with many actor-learners: the evidence of results/homes/learning.csv.

    python benchmarks/homes_learning.py

`shared` with 4 actor-learners of 4 environments, `ray` with 2 of 8, three seeds each, as many steps and the marks of
benchmarks/classic_learning.py. Runs live in runs/homes/ and go on where they stopped.
"""

import csv
import json
import subprocess
from pathlib import Path

from acer.run.tables import column_pairs
from classic_learning import MARKS
from runs import COMMAND, train
from table import write

RUNS, RESULTS = Path("runs/homes"), Path("results/homes")
HOMES = {"shared": ["--actors", "4", "--envs-per-actor", "4"], "ray": ["--actors", "2", "--envs-per-actor", "8"]}


def main() -> None:
    rows = []
    for home, flags in HOMES.items():
        for env, steps, _, mark in MARKS[:2]:
            for seed in range(3):
                out = RUNS / f"{env}-{home}-{seed}"
                train(out, env, steps, "--home", home, *flags, "--seed", str(seed))
                play = [*COMMAND, "eval", str(out), "--episodes", "100", "--seed", "1000", "--json"]
                result = json.loads(subprocess.run(play, check=True, stdout=subprocess.PIPE, text=True).stdout)
                seconds, _ = column_pairs(out / "progress.csv", "seconds")[-1]
                with (out / "progress.csv").open() as file:
                    stale = [float(row["staleness"]) for row in csv.DictReader(file) if row["staleness"]]
                mean, std = round(result["mean"], 1), round(result["std"], 1)
                rows.append([env, home, " ".join(flags), seed, steps, round(seconds), mean, std,
                             round(sum(stale) / len(stale), 2), mark, "yes" if mean >= mark else "no"])  # fmt: skip
                print(*rows[-1], sep="\t", flush=True)
    RESULTS.mkdir(parents=True, exist_ok=True)
    columns = "env home flags seed steps seconds eval_mean eval_std staleness mark reached"
    write(RESULTS / "learning.csv", columns.split(), rows)


if __name__ == "__main__":
    main()
