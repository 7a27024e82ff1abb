"""When ACER and A3C first reach 475 on CartPole, by the marks' own measure: results/classic/steps_to_475.csv.

The measure: 100 evaluation episodes, mode action, mean return of at least 475. Every 640 steps 16 episodes are played,
and if those reach 475, 100 more decide; the run ends there. `classic`, five learning rates for both, five seeds each.
"""

import statistics
from pathlib import Path

from acer import ACER, Callback
from sample_efficiency import BUDGET, MARK, RATES, SEEDS
from table import measure

FILE = Path("results/classic/steps_to_475.csv")


class Reach(Callback):
    """Ends the run when 100 episodes confirm what 16 promised."""

    steps = BUDGET

    def on_evaluation(self, run, evaluation):
        if len(evaluation.returns) < 100 and evaluation.mean >= MARK:
            confirmed = run.evaluate(100)
            if confirmed.mean >= MARK:
                self.steps = run.steps
                return False
        return None


def needed(job):
    algo, rate, seed = job
    reach = Reach()
    settings = {"learning_rate": rate, "seed": seed, "steps": BUDGET, "eval_every": 640, "eval_episodes": 16}
    ACER("CartPole-v1", algo=algo, **settings).learn(callbacks=[reach])
    return [algo, rate, seed, reach.steps]


def main() -> None:
    jobs = [(algo, rate, seed) for algo in ("acer", "a3c") for rate in RATES for seed in range(SEEDS)]
    rows = measure(needed, jobs, ["algo", "learning_rate", "seed", "steps"], FILE)
    medians = {
        algo: {rate: statistics.median(r[3] for r in rows if r[:2] == [algo, rate]) for rate in RATES}
        for algo in ("acer", "a3c")
    }
    print(medians)
    print("at each rate:", {rate: round(medians["acer"][rate] / medians["a3c"][rate], 2) for rate in RATES})
    print("best rate of each:", round(min(medians["acer"].values()) / min(medians["a3c"].values()), 2))


if __name__ == "__main__":
    main()
