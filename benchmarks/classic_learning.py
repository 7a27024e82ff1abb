"""Trains `classic` on four environments and plays each result for 100 episodes: the evidence under results/classic/.

    python benchmarks/classic_learning.py            all runs, as many at once as there are cores
    python benchmarks/classic_learning.py Pendulum   only environments whose name begins so

Each run is `acer train ENV --seed S --steps N`, then `acer eval RUN --episodes 100 --seed 1000`: final parameters, mode
action, seeds that were not trained on. Runs live in runs/classic/ and go on where they stopped; a run that is there is
not run again. What is kept: learning.csv (a row for each run), a progress.csv for each, and a picture.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from acer.machine import cores
from acer.run.tables import column_pairs, read
from runs import COMMAND, steps_of, train
from table import write

# Environment, steps (a run ends with the iteration that reaches them, at most 320 later), seeds, mark.
MARKS = [
    ("CartPole-v1", 59_600, 5, 475.0),
    ("Pendulum-v1", 299_000, 3, -250.0),
    ("LunarLander-v3", 999_000, 3, 200.0),
    ("LunarLanderContinuous-v3", 999_000, 3, 200.0),
]
RUNS, RESULTS = Path("runs/classic"), Path("results/classic")
TABLE = RESULTS / "learning.csv"
COLUMNS = ["env", "seed", "steps", "seconds", "eval_mean", "eval_std", "mark", "reached"]


def run(env: str, steps: int, seed: int) -> None:
    out = RUNS / f"{env}-{seed}"
    train(out, env, steps, "--seed", str(seed))
    if not (out / "eval.json").exists():
        command = [*COMMAND, "eval", str(out), "--episodes", "100", "--seed", "1000", "--json"]
        (out / "eval.json").write_text(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def collect() -> None:
    """Writes results/classic/ from the runs that are finished; what is there of others stays."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    known = {(row["env"], int(row["seed"])): list(row.values()) for row in read(TABLE)} if TABLE.exists() else {}
    rows = []
    figure, axes = plt.subplots(2, 2, figsize=(10, 6.4), layout="constrained")
    for (env, _, seeds, mark), panel in zip(MARKS, axes.flat, strict=True):
        for seed in range(seeds):
            out, curve = RUNS / f"{env}-{seed}", RESULTS / f"{env}-{seed}.csv"
            if (out / "eval.json").exists():
                curve.write_bytes((out / "progress.csv").read_bytes())
                result = json.loads((out / "eval.json").read_text())
                seconds = column_pairs(curve, "seconds")[-1][0]
                mean, std = round(result["mean"], 1), round(result["std"], 1)
                reached = "yes" if result["mean"] >= mark else "no"
                known[env, seed] = [env, seed, steps_of(out), round(seconds), mean, std, mark, reached]
            if (env, seed) in known:
                rows.append(known[env, seed])
                panel.plot(*zip(*column_pairs(curve, "steps"), strict=True), linewidth=1.2, label=f"seed {seed}")
        panel.axhline(mark, color="grey", linestyle=":", linewidth=1)
        panel.set_title(env, fontsize=10)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("environment steps")
    figure.supylabel("return while training (last 100 episodes); dotted: mark")
    figure.savefig(RESULTS / "learning.png", dpi=130)
    write(TABLE, COLUMNS, rows)
    for row in rows:
        print(*row, sep="\t")


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    jobs = [(env, steps, seed) for env, steps, seeds, _ in MARKS for seed in range(seeds) if env.startswith(wanted)]
    with ThreadPoolExecutor(cores()) as pool:
        list(pool.map(lambda job: run(*job), jobs))
    collect()


if __name__ == "__main__":
    main()
