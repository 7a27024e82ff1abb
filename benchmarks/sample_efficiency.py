"""How many steps ACER and A3C need on CartPole: results/classic/sample_efficiency.csv.

Both with the `classic` preset, on the same five learning rates, five seeds each, within 300,000 steps. A run has
arrived when an evaluation (every 2,000 steps, 20 episodes, mode action) gives 475, and ends there. For each algorithm
the best learning rate counts, by the median over seeds; runs that never arrive count as the whole budget.
"""

import csv
import statistics
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from acer import ACER, Callback
from acer.bench.measure import cores

RATES = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3)
SEEDS, BUDGET, EVERY, MARK = 5, 300_000, 2_000, 475.0
FILE = Path("results/classic/sample_efficiency.csv")


class Arrive(Callback):
    """Ends the run at the first evaluation that reaches the mark."""

    steps = BUDGET

    def on_evaluation(self, training, evaluation):
        if evaluation.mean >= MARK:
            self.steps = training.steps
            return False
        return None


def needed(job):
    algo, rate, seed = job
    arrive = Arrive()
    model = ACER(
        "CartPole-v1", algo=algo, learning_rate=rate, seed=seed, steps=BUDGET, eval_every=EVERY, eval_episodes=20
    )
    model.learn(callbacks=[arrive])
    return [algo, rate, seed, arrive.steps]


def main() -> None:
    jobs = [(algo, rate, seed) for algo in ("acer", "a3c") for rate in RATES for seed in range(SEEDS)]
    rows = []
    with ProcessPoolExecutor(cores()) as pool:
        for row in pool.map(needed, jobs):
            rows.append(row)
            print(*row, sep="\t", flush=True)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    with FILE.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["algo", "learning_rate", "seed", "steps_to_475"])
        writer.writerows(rows)
    best = {}
    for algo in ("acer", "a3c"):
        medians = {rate: statistics.median(r[3] for r in rows if r[:2] == [algo, rate]) for rate in RATES}
        best[algo] = min(medians.values())
        print(algo, medians)
    print(f"ACER needs {best['acer'] / best['a3c']:.2f} of the steps of A3C")


if __name__ == "__main__":
    main()
