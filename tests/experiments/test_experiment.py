"""`acer experiment`: mistakes, whole experiments, killed and taken up again, here and on a cluster."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from acer import config as configuration
from acer.experiments import experiment, plans, runs
from acer.experiments.display import JobsDisplay
from acer.experiments.plan import Selection
from acer.run.tables import read
from experiment_runs import ALL, TESTS, contents, small_job

MISTAKES = [
    (["control", "--tasks", "fihs"], "did you mean fish"),
    (["control", "--games", "pong"], "--games has no meaning for control"),
    (["atari", "--tasks", "fish"], "--tasks has no meaning for atari"),
    (["atari", "--settings", "1"], "--settings has no meaning for atari"),
    (["atari", "--games", "pog"], "did you mean pong"),
    (["atari", "--methods", "acer"], "did you mean acer-"),
    (["ablation", "--tasks", "cheetah"], "there are fish, walker, humanoid"),
    (["control", "--draw", "--jobs", "2"], "--draw runs nothing: leave out --jobs"),
    (["theory", "--draw"], "--draw has no meaning here"),
    (["control", "--methods", "acer", "acer"], "--methods has something twice: acer acer"),
    (["control", "--settings", "x"], "--settings takes whole numbers and ranges, for example 0 2 5-7, not 'x'"),
    (["control", "--settings", "3-1"], "--settings takes numbers from 0 to 999"),
    (["control", "--seeds", "1000"], "--seeds takes numbers from 0 to 999"),
    (["control", "--seeds", "9" * 5_000], "--seeds takes numbers from 0 to 999"),
    (["control", "--ray-address", ""], "--ray-address is empty"),
    (["control", "--steps", "0"], "--steps must be at least 1"),
    (["control", "--threads", "0"], "--threads must be at least 1"),
    (["control", "--jobs", "-1"], "--jobs must be at least 0"),
    (["theory", "--tasks", "fish"], "theory has no tasks"),
    (["theory", "--jobs", "2"], "--jobs has no meaning here"),
    (["control", "--ray-address", "auto", "--jobs", "2"], "--jobs is for runs on this machine"),
    (["theory", "--scale", "huge"], "huge"),
    (["flight"], "flight"),
    (["control", "--tasks"], "--tasks names nothing; to have all of them, leave it out"),
    (["atari", "--seeds"], "--seeds names nothing"),
    (["control", "--set", "alpha"], "--set takes settings as name=value"),
    (["control", "--set", "alfa=0.9"], "unknown setting 'alfa'; did you mean 'alpha'?"),
    (["control", "--set", "alpha=high"], "--alpha must be a number, not 'high'"),
    (["control", "--set", "alpha=0.9"], "a3c: --alpha has no meaning here"),
    (["control", "--set", "steps=9"], "--set steps is not possible here: use --steps"),
    (["control", "--set", "gamma=0.9", "gamma=0.8"], "--set has something twice: gamma gamma"),
    (["control", "--set"], "--set names nothing"),
    (["control", "--preset", "classic"], "classic"),
    (["theory", "--preset", "paper"], "theory has no"),
    (["control", "--ray-address", "auto"], "pip install 'acer-rl[ray]'"),
]


@pytest.mark.parametrize(("args", "message"), MISTAKES, ids=[" ".join(args)[:60] for args, _ in MISTAKES])
def test_a_mistake_gets_one_clear_line_and_leaves_nothing(args, message, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, out, err = call("experiment", *args)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not list(Path().iterdir())


def test_runs_on_images_all_have_one_precision(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(experiment, "faster_precision", lambda device: tried.append(device) or "bfloat16")
    planned = plans.jobs("atari", "small", ALL)
    assert {job.config.precision for job in experiment.with_one_precision(planned, tmp_path)} == {"bfloat16"}
    assert len(tried) == 1
    begun = replace(planned[3].config, precision="float32")
    runs.work(tmp_path, planned[3]).mkdir(parents=True)
    (runs.work(tmp_path, planned[3]) / "config.json").write_text(configuration.to_json(begun))
    assert {job.config.precision for job in experiment.with_one_precision(planned, tmp_path)} == {"float32"}
    assert len(tried) == 1
    control = plans.jobs("control", "small", ALL)
    assert experiment.with_one_precision(control, tmp_path) == control


def test_a_figure_says_what_was_left_out():
    jobs = plans.jobs("control", "small", Selection(tasks=("fish", "walker"), settings=(0,)))
    assert "; only fish, walker;" in experiment.caption("control", "small", ALL, jobs, 10, 10)
    jobs = plans.jobs("control", "small", Selection(methods=("acer", "tis")))
    assert "; only acer, tis;" in experiment.caption("control", "small", ALL, jobs, 72, 72)
    asked = Selection(preset="paper", changes=(("alpha", 0.9),))
    assert "small; preset: paper; alpha = 0.9;" in experiment.caption("control", "small", asked, jobs, 72, 72)
    assert "only" not in experiment.caption("control", "small", ALL, plans.jobs("control", "small", ALL), 180, 180)


TINY = ["experiment", "control", "--tasks", "fish", "--methods", "acer", "--steps", "5000", "--jobs", "1"]


def started(*args):
    command = [sys.executable, "-m", "acer", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.01)


def rows_of(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_files(call):
    pytest.importorskip("mujoco")
    whole, parts = Path("whole"), Path("parts")
    code, out, err = call(*TINY, "--out", whole)
    assert code == 0, err
    assert out.split() == [f"whole/control{ending}" for ending in (".png", ".svg", ".csv", "-pairs.csv")]
    assert "2 runs of 5,000 steps, 0 of them done" in err
    assert "2/2 runs  fish-acer-1-0: done" in err
    assert not (whole / "work").exists()

    first, second = (parts / "work" / f"fish-acer-{i}-0" for i in (0, 1))
    process = started(*TINY, "--out", str(parts))
    wait_for(lambda: rows_of(first / "progress.csv") > 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "give the same command again" in err
    assert (first / "checkpoints" / "LATEST").exists()  # it goes on from there
    assert not (parts / "runs").exists()

    process = started(*TINY, "--out", str(parts))
    wait_for(lambda: rows_of(second / "progress.csv") > 3, process)
    process.kill()
    process.communicate()
    assert [path.name for path in (parts / "runs").iterdir()] == ["fish-acer-0-0"]

    code, _, err = call(*TINY, "--out", parts)  # waits for the orphan, which saves and ends
    assert code == 0, err
    assert "1 of them done" in err
    assert contents(parts) == contents(whole)
    before = {path: path.stat().st_mtime_ns for path in (parts / "runs").rglob("*")}
    assert call(*TINY, "--out", parts)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in (parts / "runs").rglob("*")} == before

    files = [path.read_bytes() for path in sorted(parts.glob("control.*"))]
    code, out, err = call(*TINY[:-2], "--settings", "0-2", "--draw", "--out", parts)  # of three settings two are there
    assert code == 0 and "2 of 3 runs" in (parts / "control.svg").read_text(), err
    assert not (parts / "runs" / "fish-acer-2-0").exists()
    assert call(*TINY[:-2], "--draw", "--out", parts)[0] == 0
    assert [path.read_bytes() for path in sorted(parts.glob("control.*"))] == files
    code, _, err = call(*TINY[:-2], "--settings", "7", "--draw", "--out", parts)
    assert code == 2 and "nothing to draw in parts yet" in err

    code, _, err = call(*TINY[:-4], "--steps", "4000", "--out", parts)
    assert code == 2
    assert "parts/runs/fish-acer-0-0 was made with other settings" in err

    # Another experiment finds the runs that it shares, and the run's directory is one that `acer plot` draws.
    code, _, err = call("experiment", "sensitivity", *TINY[2:], "--out", parts)
    assert code == 0 and "2 of them done" in err
    assert len(read(parts / "sensitivity.csv")) == 2
    assert call("plot", parts / "runs" / "fish-acer-0-0")[0] == 0

    # And one whose agent plays.
    code, out, err = call("eval", parts / "runs" / "fish-acer-0-0", "--episodes", "1", "--json")
    assert code == 0 and json.loads(out)["episodes"] == 1, err


def test_atari_from_the_command_line(call):
    pytest.importorskip("ale_py")
    code, out, err = call("experiment", "atari", "--methods", "acer-0", "--out", "a", "--jobs", "1")
    assert code == 0, err
    assert "a/atari.png" in out
    (row,) = read(Path("a/atari.csv"))
    assert row["method"] == "acer-0" and float(row["median_maximum"]) < 0.5
    config = json.loads(Path("a/runs/pong-acer-0-0-0/config.json").read_text())
    assert (config["algo"], config["replay_ratio"]) == ("acer", 0)


def test_a_run_that_fails_is_written_down_and_stops_no_other(call, monkeypatch):
    planned = [small_job("acer", i, env) for i, env in enumerate(["environments:NanObservation", "CartPole-v1"])]
    monkeypatch.syspath_prepend(TESTS)
    monkeypatch.setattr(plans, "jobs", lambda *_: planned)
    code, out, err = call("experiment", "control", "--out", "x", "--jobs", "1")
    assert code == 3
    bad = "environments-NanObservation-acer-0-0"
    assert f"acer: {bad} failed: " in err and "NaN or infinity" in err
    assert "1 run failed; to try again, give the same command again" in err
    assert "x/control.png" in out
    result = json.loads(Path("x/runs", bad, "result.json").read_text())
    assert "NaN or infinity" in result["error"] and result["evaluation"] is None
    assert {row["task"]: row["failed"] for row in read(Path("x/control.csv"))} == {
        "environments:NanObservation": "1",
        "CartPole-v1": "0",
    }
    assert "1 of 2 runs" in Path("x/control.svg").read_text()


def test_a_ray_cluster_gives_the_same_runs(call, monkeypatch):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    bad, good = (small_job("acer", i, env) for i, env in enumerate(["environments:NanObservation", "CartPole-v1"]))
    monkeypatch.syspath_prepend(TESTS)
    monkeypatch.setattr(plans, "jobs", lambda *_: [bad, good])
    assert call("experiment", "control", "--out", "here")[0] == 3
    shown = []
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        monkeypatch.setattr(JobsDisplay, "show", lambda _, name, steps: shown.append((name, steps)))
        code, _, err = call("experiment", "control", "--out", "there", "--ray-address", cluster.address)
    finally:
        cluster.shutdown()
    assert code == 3 and f"{bad.name} failed: " in err and "NaN or infinity" in err
    assert runs.error_of(Path("there"), bad) == runs.error_of(Path("here"), bad)
    one, other = (contents(out / "runs" / good.name) for out in (Path("here"), Path("there")))
    assert one == other and "progress.csv" in one and "model.safetensors" in one
    assert any(name == good.name and steps > 0 for name, steps in shown)


def test_a_run_whose_learning_fails_is_a_result(call, monkeypatch):
    settings = {"learning_rate": 1e30, "max_gradient_norm": 1e30, "most_skipped": 3}
    bad, good = small_job("acer", 0, "CartPole-v1"), small_job("acer", 1, "CartPole-v1")
    bad = replace(bad, config=replace(bad.config, **settings))
    monkeypatch.setattr(plans, "jobs", lambda *_: [bad, good])
    code, _, err = call("experiment", "control", "--out", "x", "--jobs", "2")
    assert (
        code == 0 and "CartPole-v1-acer-0-0 diverged" in err and "3 updates in a row had gradients that are not" in err
    )
    assert json.loads(Path("x/runs/CartPole-v1-acer-0-0/result.json").read_text())["diverged"] is True
    assert [run.diverged for run in runs.load(Path("x"), [bad, good])] == [True, False]
    assert {(row["failed"], row["diverged"]) for row in read(Path("x/control.csv"))} == {("0", "1")}
    before = {file: file.read_bytes() for file in Path("x").rglob("*.*")}
    assert call("experiment", "control", "--out", "x", "--jobs", "2")[0] == 0  # a result: it is not trained further
    assert {file: file.read_bytes() for file in Path("x").rglob("*.*")} == before


def test_a_directory_that_cannot_be_written_is_one_clear_line(call):
    Path("file").write_text("mine")
    code, _, err = call("experiment", "theory", "--out", "file")
    assert code == 2
    assert "cannot write to file" in err and Path("file").read_text() == "mine"
