"""Trains what a library is expected to train, three seeds each: the evidence in results/library/learning.csv.

    python benchmarks/library_learning.py              all runs, one after the other
    python benchmarks/library_learning.py dials 0      only tasks whose name begins so, only this seed
    python benchmarks/library_learning.py --collect    none: writes the table from those that are finished

Each run is `acer train ENV --seed S --steps N FLAGS`, then `acer eval RUN --episodes 100 --seed 1000`: final
parameters, mode action unless the flags say otherwise, seeds that were not trained on. Runs live in runs/library/, or
below $RUNS, and go on where they stopped; a run that is finished is not run again. It needs the extras classic and
box2d, and `pip install minatar minigrid`.

`share` is the mean return over the best that a policy can have, where that is known.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "tests")]

from environments import Market  # noqa: E402
from runs import COMMAND, steps_of, train  # noqa: E402
from table import write  # noqa: E402

RUNS = Path(os.environ.get("RUNS", "runs/library"))
TABLE = Path("results/library/learning.csv")
COLUMNS = ["task", "env", "seed", "steps", "seconds", "eval_mean", "eval_std", "share", "mark", "reached", "flags"]


def blind_cart_pole() -> gym.Env[Any, Any]:
    """CartPole without its velocities."""
    env = gym.make("CartPole-v1")
    assert isinstance(env.observation_space, gym.spaces.Box)
    shown = gym.spaces.Box(env.observation_space.low[[0, 2]], env.observation_space.high[[0, 2]])
    return gym.wrappers.TransformObservation(env, lambda x: x[[0, 2]], shown)


@dataclass(frozen=True)
class Task:
    """One row for each seed."""

    name: str
    env: str
    steps: int
    flags: str = ""
    mark: float | None = None  # return that is to be reached
    best: Callable[[], float] | None = None  # return of the best policy
    share: float | None = None  # of the best that is to be reached


@functools.cache
def best_of_market(episodes: int = 2_000) -> float:
    """Mean of what the best policy has in an episode."""
    market, rng, best = Market(), np.random.default_rng(0), []
    for seed in range(episodes):
        market.reset(seed=seed)
        over, info = False, {}
        while not over:
            legal = np.flatnonzero(market.action_masks())
            _, _, over, _, info = market.step(int(rng.choice(legal)))
        best.append(info["best"])
    return float(np.mean(best))


def ten() -> float:
    """One for each step of an episode."""
    return 10.0


BRICKS = "--reward-scale 1 --entropy-weight 0.03 --learning-rate 3e-4"
AT_ONCE = "--reward-scale 1 --gamma 0 --learning-rate 2e-3"  # each step's reward is all there is to learn
TASKS = (  # by cost
    Task("dials", "environments:Dials", 30_000, AT_ONCE, best=ten, share=0.95),
    Task("market", "environments:Market", 30_000, AT_ONCE, best=best_of_market, share=0.95),
    Task("pendulum, fixed σ", "Pendulum-v1", 150_000),
    Task("pendulum, free σ", "Pendulum-v1", 150_000, "--learn-sigma free"),
    Task("pendulum, σ by state", "Pendulum-v1", 150_000, "--learn-sigma state"),
    Task("cartpole blind, gru", "library_learning:blind_cart_pole", 150_000, "--recurrent gru", mark=450.0),
    Task(
        "minigrid",
        "minigrid:MiniGrid-Empty-8x8-v0",
        100_000,
        "--normalize-observations --eval-policy sampled --reward-scale 1 --entropy-weight 0.003",
        mark=0.9,
    ),
    Task("minatar breakout", "MinAtar/Breakout-v1", 300_000, BRICKS, mark=5.0),
    Task("lunar lander, fixed σ", "LunarLanderContinuous-v3", 300_000),
    Task("lunar lander, free σ", "LunarLanderContinuous-v3", 300_000, "--learn-sigma free"),
    Task("lunar lander, σ by state", "LunarLanderContinuous-v3", 300_000, "--learn-sigma state"),
)
SEEDS = 3


def place(task: Task, seed: int) -> Path:
    return RUNS / f"{task.name.replace(',', '').replace(' ', '-').replace('σ', 'sigma')}-{seed}"


def run(task: Task, seed: int) -> None:
    out = place(task, seed)
    train(out, task.env, task.steps, "--seed", str(seed), "--threads", "1", *task.flags.split())
    if not (out / "eval.json").exists():
        named = ["--env", task.env] if ":" in task.env else []
        how = ["--episodes", "100", "--seed", "1000", "--json"]
        command = [*COMMAND, "eval", str(out), *named, *how]
        (out / "eval.json").write_text(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def collect() -> None:
    """Writes the table from the runs that are finished."""
    rows = []
    for task in TASKS:
        for seed in range(SEEDS):
            out = place(task, seed)
            if not (out / "eval.json").exists():
                continue
            result = json.loads((out / "eval.json").read_text())
            with (out / "progress.csv").open() as stream:
                names, *lines = (line.rstrip("\n").split(",") for line in stream)
            seconds = round(float(lines[-1][names.index("seconds")]))
            mean, target, share = result["mean"], task.mark, ""
            if task.best is not None and task.share is not None:
                target, share = task.share * task.best(), str(round(mean / task.best(), 3))
            reached = "" if target is None else "yes" if mean >= target else "no"
            digits = 3 if abs(mean) < 10 else 1
            rows.append([task.name, task.env, seed, steps_of(out), seconds, round(mean, digits),
                         round(result["std"], digits), share, "" if target is None else round(target, 2), reached,
                         task.flags])  # fmt: skip
    write(TABLE, COLUMNS, rows)
    for row in rows:
        print(*row, sep="\t")


def main() -> None:
    words = [word for word in sys.argv[1:] if word != "--collect"]
    name = words[0] if words else ""
    seeds = [int(word) for word in words[1:]] or range(SEEDS)
    folders = [str(HERE), str(HERE.parent / "tests"), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))  # where the runs find our environments
    if "--collect" not in sys.argv:
        for task in TASKS:
            for seed in seeds if task.name.startswith(name) else ():
                run(task, seed)
    collect()


if __name__ == "__main__":
    main()
