"""What stale gradients cost: the figures of results/homes/staleness.csv.

    python benchmarks/staleness.py            all runs, one after the other
    python benchmarks/staleness.py Pendulum   only environments whose name begins so

One process, whose every gradient is computed from parameters that lack the last 0, 10, 100 or 1,000 updates, its
own included: what a cluster of that many actor-learners does, without its noise. All else is the preset's, but for a
part of the learning rate where `rate` says so. Steps, marks and the evaluation (100 episodes, mode action, final
parameters) are those of benchmarks/classic_learning.py; the cheetah has a quarter of its preset's steps and no mark. A
row is written when its run ends; one that is there is not run again.
"""

import csv
import sys
from collections import deque
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from acer import ACER
from acer.homes.local import Local
from acer.learner.parameters import descend
from acer.run import state
from classic_learning import MARKS
from table import write

TABLE = Path("results/homes/staleness.csv")
COLUMNS = ["env", "staleness", "rate", "seed", "steps", "updates", "eval_mean", "eval_std", "mark", "reached"]
STALENESS = (0, 10, 100, 1_000)
SEEDS = range(3)
CHEETAH = ("cheetah", 500_000, None)
CARTPOLE, PENDULUM = ((env, steps, mark) for env, steps, _, mark in MARKS[:2])
CELLS: list[tuple[tuple[str, int, float | None], int, float, int]] = [  # environment, staleness, part of the rate, seed
    *((CARTPOLE, staleness, 1.0, seed) for seed in SEEDS for staleness in STALENESS),
    *((CHEETAH, staleness, 1.0, 0) for staleness in STALENESS),
    *((PENDULUM, 10, rate, 0) for rate in (0.1, 0.3)),
    *((PENDULUM, staleness, 1.0, seed) for seed in SEEDS for staleness in STALENESS),
    *((PENDULUM, 10, 0.1, seed) for seed in SEEDS[1:]),
]


class Delayed(Local):
    """The networks read parameters of `delay` updates ago; updates go to the newest."""

    delay = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.newest = self.theta.clone(), self.theta_a.clone()
        self.versions: deque[tuple[Tensor, Tensor]] = deque()  # older ones, at most `delay`

    def pull(self) -> None:
        oldest = self.versions[0] if self.versions else self.newest
        self.theta.copy_(oldest[0])
        self.theta_a.copy_(oldest[1])

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0) -> None:
        theta, theta_a = self.newest
        self.staleness = len(self.versions)
        if self.delay:
            self.versions.append((theta.clone(), theta_a.clone()))
        if len(self.versions) > self.delay:
            self.versions.popleft()
        descend(theta, theta_a, self.square, gradient, rate, self.constants, factor)

    def catch_up(self) -> None:
        """Hands the networks the newest parameters."""
        self.theta.copy_(self.newest[0])
        self.theta_a.copy_(self.newest[1])


def run(env: str, steps: int, mark: float | None, staleness: int, part: float, seed: int) -> list[Any]:
    Delayed.delay = staleness
    state.Local = Delayed  # type: ignore[misc]
    rate = part * ACER(env).config.learning_rate
    model = ACER(env, seed=seed, steps=steps, threads=1, eval_episodes=1, learning_rate=rate)
    model.learn()
    home = model._training.state.home
    assert isinstance(home, Delayed)
    home.catch_up()
    result = model.evaluate(100, seed=1000)
    updates = model._training.state.meter.updates
    model.close()
    reached = "" if mark is None else "yes" if result.mean >= mark else "no"
    mean, std = round(result.mean, 1), round(result.std, 1)
    return [env, staleness, part, seed, steps, updates, mean, std, mark, reached]


def main() -> None:
    torch.set_num_threads(1)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    rows: list[list[Any]] = []
    if TABLE.exists():
        with TABLE.open() as file:
            rows = [list(row.values()) for row in csv.DictReader(file)]
    there = {(row[0], int(row[1]), float(row[2]), int(row[3])) for row in rows}
    for (env, steps, mark), staleness, part, seed in CELLS:
        if env.startswith(wanted) and (env, staleness, part, seed) not in there:
            rows.append(run(env, steps, mark, staleness, part, seed))
            there.add((env, staleness, part, seed))
            print(*rows[-1], sep="\t", flush=True)
            write(TABLE, COLUMNS, sorted(rows, key=lambda row: (row[0], float(row[2]), int(row[1]), int(row[3]))))


if __name__ == "__main__":
    main()
