"""Which statistic φ the trust region should be measured in, on CartPole: results/classic/statistic.csv.

Logits and probabilities, δ of 0.1 and 1, five seeds each, `classic` otherwise: return after 60,000 steps (100 episodes,
mode action) and the share of steps whose parameter gradient the projection changed, over the whole run.
"""

import statistics
from pathlib import Path

from acer import ACER, Callback
from table import measure

FILE = Path("results/classic/statistic.csv")


class Activity(Callback):
    """Collects the trust region's activity."""

    def __init__(self):
        self.active = []

    def on_rollout(self, training, report):
        if report.diagnostics:
            self.active.append(report.diagnostics["trust_region_active"])


def measured(job):
    statistic, delta, seed = job
    activity = Activity()
    model = ACER("CartPole-v1", statistic=statistic, delta=delta, seed=seed, steps=59_600, eval_episodes=1)
    model.learn(callbacks=[activity])
    result = model.evaluate(100, seed=1000)
    return [statistic, delta, seed, round(result.mean, 1), round(statistics.mean(activity.active), 4)]


def main() -> None:
    jobs = [
        (statistic, delta, seed)
        for statistic in ("logits", "probabilities")
        for delta in (0.1, 1.0)
        for seed in range(5)
    ]
    measure(measured, jobs, ["statistic", "delta", "seed", "eval_mean", "trust_region_active"], FILE)


if __name__ == "__main__":
    main()
