"""ACER beside Stable-Baselines3's SAC, TD3, PPO, A2C and DQN: return at equal steps, and in equal time."""

import math
from pathlib import Path
from typing import Any

import numpy as np

from acer.config import Config, defaults
from acer.envs import preset_of
from acer.envs.tasks import TASKS
from acer.experiments import figures, peers, runs
from acer.experiments.plan import Plan, Size
from acer.experiments.results import Results
from acer.experiments.runs import Array
from acer.run.tables import read

DISCRETE = ("CartPole-v1", "Acrobot-v1", "LunarLander-v3")
MARKS = (26_000, 50_000, 100_000, 300_000, 1_000_000)  # steps at which the table compares
EVALUATIONS = 20  # in a run


def configure(env: str, method: str, setting: int, seed: int, preset: str, **overrides: Any) -> Config:
    """ACER with its preset for the environment, or `efficient` for `acer-efficient`. Of a peer's configuration the
    environment, the number of steps, the seed and what concerns logs and evaluations count."""
    preset = "efficient" if method == "acer-efficient" else preset
    evaluated = {"eval_every": max(1, overrides["steps"] // EVALUATIONS), "eval_policy": "mode"}
    return defaults(env, env in TASKS, preset or preset_of(env), "acer", **{"seed": seed} | evaluated | overrides)


METHODS = ("acer", "acer-efficient", *peers.AGENTS, peers.RANDOM)
SMOKE = ("acer", "ppo", "a2c", peers.RANDOM)
PLAN = Plan(
    "task",
    (*TASKS, *DISCRETE),
    METHODS,
    {
        "smoke": Size(4_000, environments=("CartPole-v1",), methods=SMOKE, settings_of_all={"eval_episodes": 2}),
        "small": Size(100_000, seeds=3),
        "medium": Size(300_000, seeds=3),
        "paper": Size(1_000_000, seeds=3),
    },
    configure,
    settings_are_drawn=False,
    has=peers.has,
)

COLUMNS = ["task", "method", "steps", "seeds", "mean", "median", "low", "high", "score", "seconds"]


def draw(results: Results) -> list[Path]:
    """Evaluations against steps and against time, and the table at equal steps."""
    curves = evaluations(results)
    means = {key: _mean(of) for key, of in curves.items() if key[1] != peers.RANDOM}
    drawn = figures.peers(means, results.caption, results.stem)
    return [*drawn, results.write("", COLUMNS, table(curves))]


Curve = dict[str, Array]
"""A run's evaluations: columns steps, seconds and return_mean."""


def evaluations(results: Results) -> dict[tuple[str, str], list[Curve]]:
    """Those of every run, by task and method."""
    found: dict[tuple[str, str], list[Curve]] = {}
    for run in results.runs:
        rows = read(runs.kept(results.stem.parent, run.job) / "eval.csv")
        columns = {name: np.array([float(row[name]) for row in rows]) for name in ("steps", "seconds", "return_mean")}
        if rows:
            found.setdefault((run.job.config.env, run.job.method), []).append(columns)
    return found


def table(curves: dict[tuple[str, str], list[Curve]]) -> list[dict[str, Any]]:
    """For each task, method and mark that all its seeds have reached: the evaluation's mean return, between two
    evaluations on the line from one to the other; the seconds until there; and the score, 0 for a random agent's return
    and 1 for the best method's on that task at any mark."""
    rows: list[dict[str, Any]] = []
    for task in dict.fromkeys(task for task, _ in curves):
        own: list[dict[str, Any]] = []
        base = [float(curve["return_mean"][-1]) for curve in curves.get((task, peers.RANDOM), [])]
        for (env, method), of in curves.items():
            if env != task or method == peers.RANDOM:
                continue
            for mark in (mark for mark in MARKS if all(_covers(curve, mark) for curve in of)):
                returns = np.array([np.interp(mark, curve["steps"], curve["return_mean"]) for curve in of])
                seconds = [float(np.interp(mark, curve["steps"], curve["seconds"])) for curve in of]
                own.append({"task": task, "method": method, "steps": mark, "seeds": len(of),
                            "mean": float(returns.mean()), "median": float(np.median(returns)),
                            "low": float(returns.min()), "high": float(returns.max()),
                            "seconds": float(np.median(seconds))})  # fmt: skip
        random = float(np.mean(base)) if base else math.nan
        best = max((row["mean"] for row in own), default=math.nan)
        rows += [row | {"score": (row["mean"] - random) / (best - random) if best > random else math.nan}
                 for row in own]  # fmt: skip
    return rows


def _covers(curve: Curve, mark: int) -> bool:
    """Whether a run has been evaluated on both sides of that many steps, or there."""
    return bool(curve["steps"][0] <= mark <= curve["steps"][-1])


def _mean(of: list[Curve]) -> dict[str, tuple[Array, Array, Array, Array]]:
    """Against steps and against seconds: where, the mean over seeds, the least and the largest."""
    found = {}
    for axis in ("steps", "seconds"):
        begin, end = max(curve[axis][0] for curve in of), min(curve[axis][-1] for curve in of)
        x = np.unique(np.concatenate([curve[axis] for curve in of]))
        x = x[(x >= min(begin, end)) & (x <= end)]
        y = np.stack([np.interp(x, curve[axis], curve["return_mean"]) for curve in of])
        found[axis] = x, y.mean(0), y.min(0), y.max(0)
    return found
