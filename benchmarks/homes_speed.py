"""How actor-learners add up: the figures of results/homes/speed.csv.

    python benchmarks/homes_speed.py          simulators that wait or compute
    python benchmarks/homes_speed.py pong     only two actor-learners on Pong, on Ray beside shared memory

Slow simulator: a step sleeps 10 ms and burns no CPU; replay ratio 0, one environment for each actor-learner; 16
actor-learners beside one, in memory of this machine and on Ray; in turns, medians of six. CPU-bound simulators: a
step computes for about 10 ms, or for about 1 ms; two actor-learners beside two independent processes, each training by
itself; in turns, medians of six. Pong: the preset with 8 environments each, replay from 640 steps on. Steps are counted
from one second after every actor-learner has reported to the end. Rows of what is not measured stay.
"""

import csv
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium as gym
import numpy as np

from acer import ACER, Callback
from acer.machine import cores
from table import write

RESULTS = Path("results/homes")
SECONDS = 12.0
TURNS = 6
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
    """A step takes about 10 ms of one core."""

    rounds = 120_000

    def work(self) -> None:
        total = 0
        for i in range(self.rounds):
            total += i * i


class Quick(Computing):
    """A step takes about 1 ms of one core."""

    rounds = 12_000


COMPUTING = {"computing 10 ms": Computing, "computing 1 ms": Quick}


class Clock(Callback):
    """Steps per second once everybody works."""

    def __init__(self) -> None:
        self.began = self.at = 0.0
        self.steps = 0
        self.speed = 0.0

    def on_rollout(self, run: Any, report: Any) -> bool:
        now = time.monotonic()
        members = run._run._workers.members
        if all(member.steps for member in members) or not members:
            if not self.at:
                self.at = now + 1
            elif now >= self.at and not self.began:
                self.began, self.steps = now, run.steps
        if self.began and now - self.began >= SECONDS:
            self.speed = (run.steps - self.steps) / (now - self.began)
            return False
        return True


def speed(env: Any, home: str, actors: int, **settings: Any) -> float:
    """Steps per second of `actors` actor-learners."""
    where = {} if home == "local" else {"home": home, "actors": actors}
    more = {"cpus_per_actor": min(1.0, cores() / actors)} if home == "ray" else {}
    clock = Clock()
    model = ACER(env, **ONE_EACH | where | more | settings)
    model.learn(10**9, callbacks=[clock])
    model.close()
    return clock.speed


def independent(simulator: str, count: int) -> float:
    """Steps per second of processes that know nothing of each other."""
    command = [sys.executable, __file__, simulator]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return sum(float(process.communicate()[0].split()[-1]) for process in started)


def simulators() -> list[list[Any]]:
    """Rows of the simulators that wait or compute."""
    rows: list[list[Any]] = []
    for home in ("shared", "ray"):
        one, many = [], []
        for _ in range(TURNS):
            one.append(speed(Waiting, home, 1))
            many.append(speed(Waiting, home, 16))
            print(f"waiting {home}: {one[-1]:.1f} {many[-1]:.1f}", flush=True)
        rows.append(["waiting 10 ms", home, 16, median(many), "one actor-learner", median(one),
                     median(many) / median(one)])  # fmt: skip
    for simulator, env in COMPUTING.items():
        pairs: dict[str, list[float]] = {"shared": [], "ray": []}
        alone = []
        for _ in range(TURNS):
            alone.append(independent(simulator, 2))
            for home, of in pairs.items():
                of.append(speed(env, home, 2))
            print(f"{simulator}: {alone[-1]:.1f} {pairs['shared'][-1]:.1f} {pairs['ray'][-1]:.1f}", flush=True)
        rows += [[simulator, home, 2, median(of), "two independent processes", median(alone),
                  median(of) / median(alone)] for home, of in pairs.items()]  # fmt: skip
    return rows


def pong() -> list[list[Any]]:
    """The row of Pong; its ratio is the median over the turns."""
    found: dict[str, list[float]] = {"shared": [], "ray": []}
    for _ in range(TURNS):
        for home, of in found.items():
            of.append(speed("pong", home, 2, environments=8, replay_ratio=4.0, replay_start=640))
        print(f"pong: {found['shared'][-1]:.1f} {found['ray'][-1]:.1f}", flush=True)
    ratio = median(ray / shared for shared, ray in zip(found["shared"], found["ray"], strict=True))
    return [["pong", "ray", 2, median(found["ray"]), "shared", median(found["shared"]), ratio]]


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in COMPUTING:
        print(speed(COMPUTING[sys.argv[1]], "local", 1))
        return
    rows = pong() if sys.argv[1:] == ["pong"] else simulators()
    table, names = RESULTS / "speed.csv", {row[0] for row in rows}
    with table.open(newline="") as file:
        there = [row for row in list(csv.reader(file))[1:] if row[0] not in names]
    rounded = [[f"{value:.4g}" if isinstance(value, float) else value for value in row] for row in rows]
    columns = ["simulator", "home", "actors", "steps_per_second", "beside", "its_steps_per_second", "ratio"]
    write(table, columns, [*there, *rounded])


if __name__ == "__main__":
    main()
