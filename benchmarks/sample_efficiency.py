"""How many steps ACER and A3C need to reach 475 on CartPole: results/classic/sample_efficiency.csv.

Both with the `classic` preset, on the same five learning rates, five seeds each, within 300,000 steps. "Reaches 475" is
measured in three ways, all in the file:

    solved      the last 100 training episodes have a mean return of 475, Gymnasium's own definition of solved
    sustained   five evaluations in a row (every 2,000 steps, 16 episodes, mode action) give 475: the first of them
    touched     one evaluation gives 475

A run ends when it is solved and sustained. For each algorithm the best learning rate counts, by the median over seeds;
runs that do not arrive count as the whole budget.
"""

import statistics
from pathlib import Path

from acer import ACER, Callback
from table import measure

RATES = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
SEEDS, BUDGET, EVERY, MARK, IN_A_ROW = 5, 300_000, 2_000, 475.0, 5
WAYS = ("solved", "sustained", "touched")
FILE = Path("results/classic/sample_efficiency.csv")


class Arrive(Callback):
    """Notes when the run arrives, in each of the three ways."""

    def __init__(self):
        self.at = dict.fromkeys(WAYS, BUDGET)
        self.row = []  # steps of the latest evaluations that reached the mark, one after the other

    def on_rollout(self, run, report):
        if run.metrics["episodes"] >= 100 and run.metrics["return_mean"] >= MARK:
            self.at["solved"] = min(self.at["solved"], run.steps)
        return self.at["solved"] == BUDGET or self.at["sustained"] == BUDGET

    def on_evaluation(self, run, evaluation):
        self.row = [*self.row, run.steps] if evaluation.mean >= MARK else []
        if self.row:
            self.at["touched"] = min(self.at["touched"], run.steps)
        if len(self.row) >= IN_A_ROW:
            self.at["sustained"] = min(self.at["sustained"], self.row[0])


def needed(job):
    algo, rate, seed = job
    arrive = Arrive()
    settings = {"learning_rate": rate, "seed": seed, "steps": BUDGET, "eval_every": EVERY, "eval_episodes": 16}
    ACER("CartPole-v1", algo=algo, **settings).learn(callbacks=[arrive])
    return [algo, rate, seed, *(arrive.at[way] for way in WAYS)]


def main() -> None:
    jobs = [(algo, rate, seed) for algo in ("acer", "a3c") for rate in RATES for seed in range(SEEDS)]
    rows = measure(needed, jobs, ["algo", "learning_rate", "seed", *WAYS], FILE)
    for column, way in enumerate(WAYS, 3):
        best = {}
        for algo in ("acer", "a3c"):
            medians = {rate: statistics.median(r[column] for r in rows if r[:2] == [algo, rate]) for rate in RATES}
            best[algo] = min(medians.values())
            print(way, algo, medians)
        print(f"{way}: ACER needs {best['acer'] / best['a3c']:.2f} of the steps of A3C")


if __name__ == "__main__":
    main()
