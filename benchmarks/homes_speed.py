"""How actor-learners add up: the figures of results/homes/speed.csv.

    python benchmarks/homes_speed.py

Slow simulator: a step sleeps 10 ms and burns no CPU; replay ratio 0, one environment for each actor-learner; 16
actor-learners beside one, in memory of this machine and on Ray. CPU-bound simulator: a step computes for about 1 ms;
two actor-learners beside two independent processes, each training by itself; in turns, medians of five. Steps are
counted from one second after every actor-learner has reported to the end.
"""

import csv
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np

from acer import ACER, Callback

RESULTS = Path("results/homes")
SECONDS = 12.0
TURNS = 5
ONE_EACH = {"environments": 1, "replay_ratio": 0.0, "eval_episodes": 1, "eval_limit": 1}


class Waiting(gym.Env[Any, Any]):
    """A step takes 10 ms, spent waiting as for a robot or a remote simulator."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (8,), np.float32)
        self.action_space = gym.spaces.Discrete(4)
        self.at = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        self.work()
        self.at += 1
        return np.full(8, action / 4, np.float32), float(action), False, self.at == 200, {}

    def work(self) -> None:
        time.sleep(0.01)


class Computing(Waiting):
    """A step takes about 1 ms of one core."""

    def work(self) -> None:
        total = 0
        for i in range(12_000):
            total += i * i


class Clock(Callback):
    """Steps per second once everybody works."""

    def __init__(self, actors: int) -> None:
        self.seen: set[int] = set()
        self.actors = actors
        self.began = self.at = 0.0
        self.steps = 0
        self.speed = 0.0

    def on_rollout(self, training: Any, report: Any) -> bool:
        now = time.monotonic()
        members = training._crew.members
        if all(member.steps for member in members) or not members:
            if not self.at:
                self.at = now + 1
            elif now >= self.at and not self.began:
                self.began, self.steps = now, training.steps
        if self.began and now - self.began >= SECONDS:
            self.speed = (training.steps - self.steps) / (now - self.began)
            return False
        return True


def speed(env: Any, home: str, actors: int) -> float:
    """Steps per second of `actors` actor-learners."""
    where = {} if home == "local" else {"home": home, "actors": actors}
    more = {"cpus_per_actor": min(1.0, os.cpu_count() / actors)} if home == "ray" else {}
    clock = Clock(actors)
    model = ACER(env, **ONE_EACH, **where, **more)
    model.learn(10**9, callbacks=[clock])
    model.close()
    return clock.speed


def independent(count: int) -> float:
    """Steps per second of processes that know nothing of each other."""
    command = [sys.executable, __file__, "alone"]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return sum(float(process.communicate()[0].split()[-1]) for process in started)


def main() -> None:
    if sys.argv[1:] == ["alone"]:
        print(speed(Computing, "local", 1))
        return
    rows: list[list[Any]] = []
    for home in ("shared", "ray"):
        one, many = [], []
        for _ in range(3):
            one.append(speed(Waiting, home, 1))
            many.append(speed(Waiting, home, 16))
            print(f"waiting {home}: {one[-1]:.1f} {many[-1]:.1f}", flush=True)
        rows.append(["waiting 10 ms", home, 16, median(many), "one actor-learner", median(one),
                     median(many) / median(one)])  # fmt: skip
    for home in ("shared", "ray"):
        pair, alone = [], []
        for _ in range(TURNS):
            pair.append(speed(Computing, home, 2))
            alone.append(independent(2))
            print(f"computing {home}: {pair[-1]:.1f} {alone[-1]:.1f}", flush=True)
        rows.append(["computing 1 ms", home, 2, median(pair), "two independent processes", median(alone),
                     median(pair) / median(alone)])  # fmt: skip
    RESULTS.mkdir(parents=True, exist_ok=True)
    with (RESULTS / "speed.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["simulator", "home", "actors", "steps_per_second", "beside", "its_steps_per_second", "ratio"])
        writer.writerows([f"{value:.4g}" if isinstance(value, float) else value for value in row] for row in rows)


if __name__ == "__main__":
    main()
