"""What a search drew best beside the preset, with fresh seeds: results/library/tune.csv, tune.png.

The search before it, which was killed once in the middle and given again:

    acer tune Pendulum-v1 --trials 30 --steps 20000 --eval-every 2500 --eval-episodes 5 --jobs 3 --out DIR
    python benchmarks/tune.py DIR

Trial 0 is the preset; beside it stands the best of those that came to their end and were drawn. Both have the search's
20,000 steps and seeds 100 to 104, which no trial had; each is evaluated on 100 episodes (mode action). The mean of the
evaluations on the way is what the search made large. DIR/trials.csv is kept as tune-trials.csv.
"""

import argparse
import json
import shutil
import statistics
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from acer import ACER, Callback
from acer.run.tables import read
from table import measure

OUT = Path("results/library")
SEEDS = range(100, 105)
NOT_SETTINGS = ("trial", "state", "value", "evaluations", "why")


class Evaluations(Callback):
    """Their mean."""

    def __init__(self):
        self.values = []

    def on_evaluation(self, run, evaluation):
        self.values.append(evaluation.mean)


def measured(job):
    name, settings, seed = job
    heard = Evaluations()
    fixed = {"steps": 20_000, "eval_every": 2_500, "eval_episodes": 5, "threads": 1}
    model = ACER("Pendulum-v1", seed=seed, **fixed, **settings).learn(callbacks=[heard])
    on_the_way = statistics.fmean(heard.values)
    return [name, seed, round(on_the_way, 1), round(model.evaluate(100, seed=1_000).mean, 1)]


def best_drawn(trials: Path) -> dict[str, float]:
    """The settings of the best trial at its end but for the preset's."""
    rows = [row for row in read(trials) if row["state"] == "complete" and row["trial"] != "0"]
    best = max(rows, key=lambda row: float(row["value"]))
    return {name: json.loads(of) for name, of in best.items() if name not in NOT_SETTINGS}


def draw(trials: Path) -> None:
    rows = [row for row in read(trials) if row["value"]]
    fresh = read(OUT / "tune.csv")
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(2, 1))
    whole = [(int(row["trial"]), float(row["value"])) for row in rows if row["state"] == "complete"]
    left.plot(*zip(*whole, strict=True), "o", color="C0", label="at its end")
    pruned = [int(row["trial"]) for row in rows if row["state"] == "pruned"]
    marks = left.get_xaxis_transform()
    left.plot(pruned, [0.02] * len(pruned), "x", color="0.6", label="pruned", transform=marks)
    left.set_xlabel("trial (0 is the preset)")
    left.set_ylabel("mean evaluation")
    left.legend(frameon=False)
    for place, name in enumerate(("preset", "drawn")):
        values = [float(row["eval_mean"]) for row in fresh if row["settings"] == name]
        right.plot([place] * len(values), values, "o", color="C0", alpha=0.6)
        right.plot(place, statistics.fmean(values), "_", color="C1", markersize=24)
    right.set_xticks((0, 1), ("preset", "best drawn"))
    right.set_xlim(-0.5, 1.5)
    right.set_ylabel("return after 20,000 steps, fresh seeds")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.3)
    figure.savefig(OUT / "tune.png", dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", type=Path)
    search = parser.parse_args().search
    OUT.mkdir(parents=True, exist_ok=True)
    drawn = best_drawn(search / "trials.csv")
    jobs = [(name, settings, seed) for seed in SEEDS for name, settings in (("preset", {}), ("drawn", drawn))]
    measure(measured, jobs, ["settings", "seed", "mean_on_the_way", "eval_mean"], OUT / "tune.csv")
    shutil.copy(search / "trials.csv", OUT / "tune-trials.csv")
    draw(OUT / "tune-trials.csv")


if __name__ == "__main__":
    main()
