"""Stable-Baselines3's agents as methods of an experiment, and the table that compares them at equal steps."""

import math
import os
import signal

import numpy as np
import pytest

from acer.config import defaults
from acer.experiments import experiment, jobs, peers, plans, runs, worker
from acer.experiments.catalogue import peers as catalogue
from acer.experiments.plan import Selection
from acer.run.tables import read


def job(method, env, steps):
    changes = {"eval_episodes": 2, "eval_limit": 40, "eval_every": steps // 3, "environments": 2,
               "trajectories_per_update": 1}  # fmt: skip
    selection = Selection(tasks=(env,), methods=(method,), seeds=(3,), steps=steps, changes=tuple(changes.items()))
    (only,) = plans.jobs("peers", "small", selection)
    return only


def trained(method, env, steps, out):
    """The files that a run leaves behind, and what is read from them."""
    only = job(method, env, steps)
    said = []
    assert worker.train(only, runs.work(out, only), said.append)
    runs.write(out, only, runs.files_of(runs.work(out, only), only))
    (run,) = runs.load(out, [only])
    return run, read(runs.kept(out, only) / "eval.csv"), said


def test_each_environment_has_the_agents_for_its_actions():
    planned = plans.jobs("peers", "small", Selection())
    methods = {env: {job.method for job in planned if job.config.env == env} for env in catalogue.PLAN.environments}
    both = {"acer", "acer-efficient", "ppo", "a2c", "random"}
    assert methods["CartPole-v1"] == both | {"dqn"}
    assert methods["cheetah"] == both | {"sac", "td3"}
    assert {job.seed for job in planned} == {0, 1, 2}


@pytest.mark.parametrize("env", ["cheetah", "CartPole-v1"])
def test_the_efficient_runs_have_their_preset_and_change_no_more(env):
    one, other = (vars(job(method, env, 1_000).config) for method in ("acer", "acer-efficient"))
    preset = vars(defaults(env, env == "cheetah", "efficient"))
    changed = [name for name in one if one[name] != other[name]]
    assert "preset" in changed and all(other[name] == preset[name] for name in changed)


@pytest.mark.parametrize(
    ("method", "env", "steps"),
    [("ppo", "CartPole-v1", 600), ("a2c", "Acrobot-v1", 480), ("dqn", "CartPole-v1", 600)],
)
def test_a_peer_leaves_a_curve_and_evaluations(method, env, steps, tmp_path):
    pytest.importorskip("stable_baselines3")
    run, evaluations, said = trained(method, env, steps, tmp_path)
    assert run.columns["steps"][-1] == steps and np.all(np.diff(run.columns["steps"]) >= 0)
    assert np.all(np.diff(run.columns["seconds"]) >= 0) and said
    assert evaluations[-1]["steps"] == str(steps) and len(evaluations) == 3
    assert {row["episodes"] for row in evaluations} == {"2"} and {row["policy"] for row in evaluations} == {"mode"}
    assert run.evaluation == float(evaluations[-1]["return_mean"])
    assert not run.diverged and runs.is_finished(tmp_path, run.job)


@pytest.mark.parametrize("method", ["sac", "td3"])
def test_a_peer_learns_a_control_task(method, tmp_path):
    pytest.importorskip("stable_baselines3")
    pytest.importorskip("mujoco")
    run, evaluations, _ = trained(method, "cartpole-swingup", 120, tmp_path)
    assert evaluations[-1]["steps"] == "120" and math.isfinite(run.evaluation)


@pytest.mark.parametrize("env", ["CartPole-v1", "cartpole-swingup"])
def test_a_random_agent_is_evaluated_alone(env, tmp_path):
    if env != "CartPole-v1":
        pytest.importorskip("mujoco")
    run, evaluations, _ = trained("random", env, 500, tmp_path)
    assert len(evaluations) == 1 and not len(run.columns["steps"])
    assert run.evaluation <= 40


def test_one_that_is_asked_to_stop_is_not_finished(tmp_path):
    pytest.importorskip("stable_baselines3")
    only = job("a2c", "CartPole-v1", 4_000)

    def stop(message):
        if "steps" in message:
            os.kill(os.getpid(), signal.SIGTERM)

    assert not worker.train(only, runs.work(tmp_path, only), stop)
    assert int(read(runs.work(tmp_path, only) / "progress.csv")[-1]["steps"]) < 4_000
    assert not runs.is_finished(tmp_path, only)


def curve(steps, returns):
    steps, returns = (np.array(values, float) for values in (steps, returns))
    return {"steps": steps, "seconds": steps / 100, "return_mean": returns}


def test_the_table_is_read_between_evaluations_and_scored_from_random_to_the_best():
    curves = {
        ("fish", "acer"): [curve((20_000, 40_000, 120_000), (0, 200, 1_000))],
        ("fish", "sac"): [curve((26_000, 50_000), (10, 30)), curve((13_000, 52_000), (0, 39))],
        ("fish", "random"): [curve((120_000,), (-50,))],
    }
    rows = {(row["method"], row["steps"]): row for row in catalogue.table(curves)}
    assert set(rows) == {("acer", 26_000), ("acer", 50_000), ("acer", 100_000), ("sac", 26_000), ("sac", 50_000)}
    assert rows["acer", 26_000]["mean"] == pytest.approx(60)
    assert rows["acer", 100_000]["mean"] == pytest.approx(800)
    assert rows["acer", 100_000]["seconds"] == pytest.approx(1_000)
    assert rows["sac", 50_000]["seeds"] == 2 and rows["sac", 50_000]["mean"] == pytest.approx((30 + 37) / 2)
    assert rows["acer", 100_000]["score"] == 1.0
    assert rows["acer", 26_000]["score"] == pytest.approx(110 / 850)


def test_without_a_random_agent_there_is_no_score():
    (row,) = catalogue.table({("fish", "acer"): [curve((20_000, 30_000), (0, 200))]})
    assert math.isnan(row["score"])


def test_the_experiment_runs_once_and_is_drawn(tmp_path):
    pytest.importorskip("stable_baselines3")
    changes = (("eval_episodes", 1), ("eval_limit", 40), ("environments", 2), ("trajectories_per_update", 1))
    selection = Selection(tasks=("CartPole-v1",), methods=("a2c", peers.RANDOM), steps=200, changes=changes)
    result = experiment.run("peers", "smoke", selection, tmp_path, 1, jobs.here(1), lambda text: None)
    assert {path.name for path in result.files} == {"peers.png", "peers.svg", "peers.csv"} and not result.failures
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
    again = experiment.run("peers", "smoke", selection, tmp_path, 1, jobs.here(1), lambda text: None)
    assert again.files == result.files
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").rglob("*")}
