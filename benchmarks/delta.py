"""How tight the trust region must be on Pendulum: results/classic/delta.csv.

`classic` with δ of 0.1, 0.3 and 1, three seeds each, 300,000 steps: return of 100 episodes (mode action) at the end and
the best mean of 100 training episodes on the way, which tells a policy that was lost from one that was never found.
"""

from pathlib import Path

from acer import ACER, Callback
from table import measure

FILE = Path("results/classic/delta.csv")


class Best(Callback):
    """The best mean of 100 training episodes."""

    value = float("-inf")

    def on_rollout(self, run, report):
        if run.metrics["episodes"] >= 100:
            self.value = max(self.value, run.metrics["return_mean"])


def measured(job):
    delta, seed = job
    best = Best()
    model = ACER("Pendulum-v1", delta=delta, seed=seed, steps=299_000, eval_episodes=1).learn(callbacks=[best])
    return [delta, seed, round(model.evaluate(100, seed=1000).mean, 1), round(best.value, 1)]


def main() -> None:
    jobs = [(delta, seed) for delta in (0.1, 0.3, 1.0) for seed in range(3)]
    measure(measured, jobs, ["delta", "seed", "eval_mean", "best_training_mean"], FILE)


if __name__ == "__main__":
    main()
