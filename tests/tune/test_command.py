"""`acer tune` as typed: a search with processes, and one line for every mistake."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest

from acer.experiments import jobs, runs
from acer.run.tables import read

SHORT = ["--steps", "640", "--hidden", "8", "--eval-every", "320", "--eval-episodes", "1", "--eval-limit", "50",
         "--replay-start", "100", "--search", "learning_rate=1e-4..1e-2:log", "--sampler", "random"]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "no environment given"),
        (("CartPole-v1", "--trials", "0"), "--trials must be at least 1"),
        (("CartPole-v1", "--sampler", "tp"), "--sampler must be one of tpe, gp, random, paper"),
        (("CartPole-v1", "--sampler", "paper", "--search", "gamma=0.9,0.99"), "leave out --search"),
        (("CartPole-v1", "--search", "gamma=0.9,0.99", "--gamma", "0.9"), "both given and searched"),
        (("CartPole-v1", "--search"), "there is nothing to search"),
        (("CartPole-v1", "--ray-address", "auto"), "--jobs N"),
        (("CartPole-v1", "--home", "shared"), "Unrecognized options: --home"),
        (("CartPole-v1", "--config", "none.json"), "no such file"),
    ],
)
def test_mistakes_are_one_line(call, args, said):
    code, out, err = call("tune", *args)
    assert code == 2 and said in err and not out and err.count("\n") == 1
    assert not Path("runs").exists()


def test_without_optuna_it_says_what_to_install(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = call("tune", "CartPole-v1")
    assert code == 2 and "pip install 'acer-rl[tune]'" in err


def test_a_file_with_another_home_is_refused(call):
    Path("c.json").write_text('{"home": "shared", "actors": 1}')
    code, _, err = call("tune", "CartPole-v1", "--config", "c.json")
    assert code == 2 and "trials are processes of their own" in err


def test_a_search_with_processes_ends_with_settings_to_train_with(call, monkeypatch):
    monkeypatch.setattr("acer.tune.study.Study.hear", lambda study, job, steps, value: prunes(study, job, steps))

    def prunes(study, job, steps):  # the second trial, at its first evaluation
        if job.setting == 1:
            study._pruned.add(1)
        return job.setting != 1

    long = [word.replace("640", "20000") for word in SHORT]  # so that it hears of its end before it comes there
    code, out, err = call("tune", "CartPole-v1", "--trials", "2", "--jobs", "1", "--out", "x", *long)
    assert code == 0, err
    assert "1 complete, 1 pruned, 0 fail" in out and "CartPole-v1-acer-1-0: pruned" in err
    first, second = read(Path("x/trials.csv"))
    assert first["state"] == "complete" and second["state"] == "pruned"
    assert int(read(Path("x/runs/CartPole-v1-acer-1-0/progress.csv"))[-1]["steps"]) < 20_000
    assert not Path("x/work").exists()
    assert call("train", "CartPole-v1", "--config", "x/best.json", "--steps", "320", "--out", "y")[0] == 0


@pytest.mark.slow
def test_a_search_whose_processes_are_killed_goes_on(call):
    """SIGKILL to the search at several moments; each trial is there once, with the values of one that ran through."""
    command = ["CartPole-v1", "--trials", "4", "--jobs", "1", *SHORT]
    assert call("tune", *command, "--out", "whole")[0] == 0
    deaths = 0
    while deaths < 3:
        process = subprocess.Popen([sys.executable, "-m", "acer", "tune", *command, "--out", "parts"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
        reached = Path("parts/runs") / f"CartPole-v1-acer-{deaths}-0"
        begun = Path("parts/work") / f"CartPole-v1-acer-{deaths + 1}-0" / "progress.csv"
        while process.poll() is None and not (reached.exists() and begun.exists()):
            time.sleep(0.01)
        assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deaths += 1
    assert call("tune", *command, "--out", "parts")[0] == 0
    assert Path("parts/trials.csv").read_text() == Path("whole/trials.csv").read_text()
    study = optuna.load_study(study_name="acer", storage="sqlite:///parts/study.db")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4


@pytest.mark.slow
def test_trials_are_tasks_of_a_ray_cluster_and_are_ended_early(monkeypatch):
    pytest.importorskip("ray")
    from acer.homes import cluster
    from experiment_runs import small_job

    monkeypatch.setattr(cluster, "join", lambda address: cluster._start(2))

    ended, kept = (small_job("acer", i, "CartPole-v1").changed(eval_every=100, steps=3_000) for i in (0, 1))
    heard: list[tuple[int, int]] = []

    def hear(job, steps, evaluation):
        heard.append((job.setting, steps))
        return job.setting == 1

    with jobs.at_work(Path("x")), jobs.JobsDisplay(2, 0, 6_000, 0) as display:
        jobs.on_ray("local")([[ended], [kept]], Path("x"), display, hear)
    assert runs.was_pruned(Path("x"), ended) and not runs.was_pruned(Path("x"), kept)
    assert runs.is_finished(Path("x"), kept) and len([one for one in heard if one[0] == 1]) > 5
