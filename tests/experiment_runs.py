"""Runs and jobs to test experiments with."""

import json
from pathlib import Path

import numpy as np

from acer import config as configuration
from acer.envs.tasks import TASKS
from acer.experiments import runs
from acer.experiments.plan import Job, Selection
from acer.experiments.runs import RunResult
from acer.run.tables import read

TESTS = str(Path(__file__).parent)
ALL = Selection()


def a_run(final, setting=0, method="acer", seed=0, env="fish", x=(100.0, 200.0), evaluation=0.0, diverged=False):
    """A run whose return rises from 0 to `final`."""
    config = configuration.defaults(env, env in TASKS, "control" if env in TASKS else "atari")
    columns = {"steps": np.array(x), "seconds": np.array(x) / 10, "return_mean": np.array([0.0, final])}
    columns |= {"score": columns["return_mean"], "kl": np.ones(2), "trust_region_active": np.array([0.0, 0.5])}
    return RunResult(Job(method, setting, seed, config), columns, evaluation, diverged)


def without_clock(path):
    """A file's contents but for what the clock says."""
    if path.suffix == ".csv":
        return [{name: value for name, value in row.items() if name not in runs.CLOCK} for row in read(path)]
    if path.name == "result.json":
        result = json.loads(path.read_text())
        return {**result, "evaluation": {**result["evaluation"], "seconds": ""}}
    if path.name == "state.json":
        clock = ("seconds", "row_seconds", "sha256")
        return {name: value for name, value in json.loads(path.read_text()).items() if name not in clock}
    return path.read_bytes()


def contents(out):
    return {str(path.relative_to(out)): without_clock(path) for path in out.rglob("*") if path.is_file()}


def small_job(method, setting, env):
    settings = {"steps": 700, "log_every": 100, "hidden": (16,), "eval_episodes": 2, "environments": 4, "threads": 1}
    return Job(method, setting, 0, configuration.defaults(env, False, **settings))
