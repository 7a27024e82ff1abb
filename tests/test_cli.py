"""The command line: whole runs, and one clear line for every mistake."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from acer import ACER
from acer.config import PRESETS, SETTINGS, flag_name
from acer.run import plots, state, tables
from acer.run.files import Directory

SHORT = ["--steps", "700", "--log-every", "200", "--hidden", "16", "--eval-episodes", "3", "--replay-start", "320"]
HERE = str(Path(__file__).parent)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short CartPole run."""
    out = tmp_path_factory.mktemp("runs") / "cartpole"
    done = subprocess.run(
        [sys.executable, "-m", "acer", "train", "CartPole-v1", "--out", str(out), *SHORT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Training acer on CartPole-v1" in done.stderr
    return out


def test_a_run_leaves_everything_behind(run):
    rows = tables.read(run / "progress.csv")
    assert int(rows[-1]["steps"]) >= 700
    for column in ("seconds", "episodes", "return_mean", "steps_per_second", "trust_region_active", "entropy", "kl",
                   "q_loss", "grad_norm", "rho_above_c", "trace", "explained_variance"):  # fmt: skip
        assert np.isfinite(float(rows[-1][column])), column
    steps = [int(row["steps"]) for row in rows]
    assert steps == sorted(set(steps))
    assert len(tables.read(run / "eval.csv")) == 1
    assert (run / "curve.png").stat().st_size > 10_000
    assert list((run / "tensorboard").iterdir())
    assert json.loads((run / "config.json").read_text())["env"] == "CartPole-v1"
    assert (run / "checkpoints" / "LATEST").read_text().strip() == f"{steps[-1]:012d}"


def test_eval_prints_json_and_nothing_else(run, call):
    code, out, _ = call("eval", run, "--episodes", "5", "--json")
    values = json.loads(out)
    assert code == 0
    assert set(values) == {"episodes", "mean", "std", "returns"}
    assert values["episodes"] == len(values["returns"]) == 5
    assert values["mean"] == pytest.approx(np.mean(values["returns"]))
    again = json.loads(call("eval", run, "--episodes", "5", "--json")[1])
    assert again == values
    sampled = json.loads(call("eval", run, "--episodes", "5", "--json", "--policy", "sampled", "--seed", "3")[1])
    assert sampled["returns"] != values["returns"]


def test_eval_acts_as_the_runs_own_evaluations_did(run, call, tmp_path):
    assert "with mode actions" in call("eval", run, "--episodes", "1")[2]
    out = tmp_path / "sampling"
    call("train", "CartPole-v1", "--steps", "320", "--eval-episodes", "1", "--eval-policy", "sampled", "--out", out)
    assert "with sampled actions" in call("eval", out, "--episodes", "1")[2]
    assert "with mode actions" in call("eval", out, "--episodes", "1", "--policy", "mode")[2]


def test_record_writes_a_video(run, call, tmp_path):
    code, out, _ = call("record", run, "--output", tmp_path / "v.mp4", "--episodes", "2")
    assert code == 0
    assert out.count(",") == 1
    data = (tmp_path / "v.mp4").read_bytes()
    assert data[4:8] == b"ftyp"
    assert len(data) > 2_000


def test_plot_draws_several_runs(run, call, tmp_path):
    code, _, _ = call("plot", run, run, "--output", tmp_path / "c.svg", "--x", "seconds")
    assert code == 0
    assert "<svg" in (tmp_path / "c.svg").read_text()


def test_a_runs_configuration_is_a_configuration_file(run, call, tmp_path):
    code, _, err = call("train", "--config", run / "config.json", "--seed", "7", "--out", "second", "--quiet")
    assert code == 0, err
    first, second = (json.loads((path / "config.json").read_text()) for path in (run, Path("second")))
    assert second == {**first, "seed": 7}


def test_resume_goes_on(run, call, tmp_path):
    subprocess.run(["cp", "-r", str(run), "copy"], check=True)
    copy = Path("copy")
    before = tables.read(copy / "progress.csv")
    assert call("resume", copy)[0] == 0  # finished: nothing to do
    code, _, err = call("resume", copy, "--steps", "1400")
    assert code == 0, err
    rows = tables.read(copy / "progress.csv")
    assert rows[: len(before)] == before
    steps = [int(row["steps"]) for row in rows]
    assert steps == sorted(set(steps))
    assert steps[-1] >= 1400
    assert int(rows[-1]["episodes"]) > int(before[-1]["episodes"])
    assert json.loads((copy / "config.json").read_text())["steps"] == 1400


def test_resume_from_one_of_the_checkpoints_goes_back_to_it_in_the_same_run(run, call):
    subprocess.run(["cp", "-r", str(run), "copy"], check=True)
    copy = Path("copy")
    assert call("resume", copy, "--steps", "1400")[0] == 0
    whole = tables.read(copy / "progress.csv")
    first, last = sorted(path for path in (copy / "checkpoints").iterdir() if path.is_dir())
    assert "is finished" in call("resume", first)[2]
    assert last.is_dir()
    code, _, err = call("resume", first, "--steps", "1400")
    assert "Going on" in err
    assert code == 0, err
    assert not (first / "progress.csv").exists()
    assert [row["steps"] for row in tables.read(copy / "progress.csv")] == [row["steps"] for row in whole]
    assert (copy / "checkpoints" / "LATEST").read_text().strip() == last.name
    assert not list((copy / "checkpoints").glob("*.undone"))  # the run has passed it again


def test_a_checkpoint_is_of_its_run_by_any_name(run, call, monkeypatch):
    subprocess.run(["cp", "-r", str(run), "copy"], check=True)
    (name,) = (path.name for path in Path("copy/checkpoints").iterdir() if path.is_dir())
    monkeypatch.chdir("copy/checkpoints")
    assert call("resume", name, "--steps", "1400")[0] == 0
    assert not Path(name, "progress.csv").exists()


def test_one_process_trains_in_a_directory(run, call):
    subprocess.run(["cp", "-r", str(run), "copy"], check=True)
    before = {path: path.read_bytes() for path in Path("copy").rglob("*") if path.is_file()}
    descriptor = os.open("copy", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    code, _, err = call("resume", "copy", "--steps", "1400")
    os.close(descriptor)
    assert code == 2
    assert f"another process is training in {Path('copy').absolute()}" in err
    assert {path: path.read_bytes() for path in Path("copy").rglob("*") if path.is_file()} == before


def test_a_finished_run_without_its_checkpoints_keeps_its_results(run, call):
    subprocess.run(["cp", "-r", str(run), "copy"], check=True)
    shutil.rmtree("copy/checkpoints")
    before = {path: path.read_bytes() for path in Path("copy").rglob("*") if path.is_file()}
    code, _, err = call("resume", "copy")
    assert code == 2
    assert "its checkpoints are gone" in err
    assert {path: path.read_bytes() for path in Path("copy").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "damage", [b"steps,seconds,return_mean\n1,2,much\n", b"steps,return_mean\n1,2\n", b"\xff\xfe\n1\n"]
)
def test_a_damaged_curve_is_named(damage, run, call):
    subprocess.run(["cp", "-r", str(run), "copy"], check=True)
    Path("copy/progress.csv").write_bytes(damage)
    code, _, err = call("plot", "copy", "--x", "seconds")
    assert code == 2
    assert "copy/progress.csv is damaged" in err


def test_a_reader_that_leaves_is_no_error(run):
    command = f"{sys.executable} -m acer eval {run} --episodes 2 --json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "BrokenPipe" not in done.stderr


def test_an_interrupted_evaluation_comes_first_when_the_run_goes_on(monkeypatch, call):
    settings = [*SHORT[2:], "--eval-every", "320", "--seed", "5"]
    assert call("train", "CartPole-v1", "--out", "whole", "--steps", "1200", *settings)[0] == 0
    evaluate = state.evaluate
    calls = []

    def interrupted(*args, **more):
        calls.append(1)
        if len(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return evaluate(*args, **more)

    monkeypatch.setattr(state, "evaluate", interrupted)
    assert call("train", "CartPole-v1", "--out", "parts", "--steps", "1200", *settings)[0] == 130
    assert len(tables.read(Path("parts/eval.csv"))) == 1
    assert call("resume", "parts")[0] == 0
    whole, parts = (
        [{**row, "seconds": ""} for row in tables.read(Path(out, "eval.csv"))] for out in ("whole", "parts")
    )
    assert parts == whole


def test_an_interrupted_last_evaluation_is_said(monkeypatch, call):
    evaluate = state.evaluate

    def interrupted(*args, **more):
        os.kill(os.getpid(), signal.SIGINT)
        return evaluate(*args, **more)

    monkeypatch.setattr(state, "evaluate", interrupted)
    code, _, err = call("train", "CartPole-v1", "--out", "r", *SHORT)
    assert code == 130
    assert "acer eval r" in err


def test_a_model_without_its_run_cannot_be_resumed(run, call):
    model = ACER.load(run)
    model.save("model")
    model.close()
    code, _, err = call("resume", "model")
    assert code == 2
    assert "is a model without its run" in err


def test_a_row_that_cannot_be_written_leaves_nothing_of_itself(tmp_path):
    class Full:
        def __str__(self):
            raise OSError("No space left on device")

    with Directory.open(tmp_path) as directory:
        table = tables.Table(directory, "t.csv", ["steps", "return"], 0, pytest.fail)
        table.add({"steps": 1, "return": 2})
        before = table.path.read_text()
        with pytest.raises(OSError, match="No space"):
            table.add({"steps": 2, "return": 3}, {"steps": 3, "return": Full()})
    assert table.path.read_text() == before
    assert table.rows == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_is_saved_and_resumes(number, call):
    command = [sys.executable, "-m", "acer", "train", "CartPole-v1", "--out", "r", "--steps", "100000000", *SHORT[2:]]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while not Path("r/progress.csv").exists() or len(tables.read(Path("r/progress.csv"))) < 2:
        assert process.poll() is None, process.stderr.read()
    os.kill(process.pid, number)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "acer resume r" in err
    steps = int(tables.read(Path("r/progress.csv"))[-1]["steps"])
    assert (Path("r/checkpoints") / f"{steps:012d}").is_dir()
    assert call("resume", "r", "--steps", steps + 500)[0] == 0


def test_a_table_that_is_damaged_is_named(run, call, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    (tmp_path / "copy" / "episodes.csv").write_bytes(b"steps,return,length\n\xff\xfe,1,1\n")
    code, _, err = call("resume", tmp_path / "copy", "--steps", "100000")
    assert code == 2 and "episodes.csv is damaged" in err and len(err.strip().splitlines()) == 2


def test_a_run_that_lost_its_checkpoints_keeps_its_curves(run, call, tmp_path):
    shutil.copytree(run, tmp_path / "copy")
    shutil.rmtree(tmp_path / "copy" / "checkpoints")
    config = json.loads((run / "config.json").read_text())
    more = int(tables.read(run / "progress.csv")[-1]["steps"]) + 500
    (tmp_path / "copy" / "config.json").write_text(json.dumps(config | {"steps": more}))
    held = os.open(tmp_path / "copy", os.O_RDONLY)  # as if another process were at work there: nothing of its is moved
    fcntl.flock(held, fcntl.LOCK_EX)
    assert call("resume", tmp_path / "copy")[0] == 2
    os.close(held)
    assert (tmp_path / "copy" / "progress.csv").read_bytes() == (run / "progress.csv").read_bytes()
    code, _, err = call("resume", tmp_path / "copy")
    assert code == 0 and "it begins again" in err
    assert (tmp_path / "copy" / "progress.csv.old").read_bytes() == (run / "progress.csv").read_bytes()
    assert (tmp_path / "copy" / "tensorboard.old").is_dir()


def test_whole_numbers_may_be_written_as_people_do(call):
    code, _, err = call("train", "CartPole-v1", "--out", "r", "--steps", "1.5e2", *SHORT[2:])
    assert code == 0, err
    assert json.loads(Path("r/config.json").read_text())["steps"] == 150


@pytest.mark.parametrize("algo", ["a3c", "trust-tis", "no-retrace"])
def test_every_kind_of_algorithm_trains_from_the_command_line(algo, call):
    code, _, err = call("train", "CartPole-v1", "--algo", algo, "--out", "r", *SHORT[:-2])
    assert code == 0, err


def test_continuous_actions_and_own_environments(call, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    import environments

    code, _, err = call("train", "environments:Target", "--algo", "no-sdn", "--out", "r", *SHORT)
    assert code == 0, err
    code, _, err = call("train", "environments:Corridor", "--workers", "--environments", "4", "--out", "s", *SHORT)
    assert code == 0, err
    assert call("record", "s", "--env", "environments:Corridor")[0] == 0
    monkeypatch.setattr(environments.Corridor, "step", lambda self, action: 1 / 0)
    code, _, err = call("record", "s", "--env", "environments:Corridor")
    assert code == 2
    assert "cannot step: ZeroDivisionError" in err
    assert not list(Path("s").glob(".*.mp4"))


MISTAKES = [
    (["train", "CartPool-v1"], "did you mean CartPole-v1"),
    (["train", "CartPole-v7"], "unknown environment 'CartPole-v7'"),
    (["train"], "no environment given"),
    (["train", "nosuchmodule:Thing"], "no module named 'nosuchmodule'"),
    (["train", "CartPole-v1", "--learning-rate", "nan"], "--learning-rate must be positive, not nan"),
    (["train", "CartPole-v1", "--hidden", "1000000", "100000000"], "the networks do not fit in memory"),
    (["train", "environments:Corrido"], "did you mean Corridor"),
    (["train", "environments:Failing"], "no licence for this simulator"),
    (["train", "environments:TupleAction"], "acer needs Discrete, MultiDiscrete, MultiBinary or a bounded Box"),
    (["train", "environments:Unbounded"], "no finite bounds"),
    (["train", "environments:TextObservation"], "observation space"),
    (["train", "environments:NanAtReset"], "NaN or infinity at step 0"),
    (["train", "CartPole-v1", "--algo", "no-sdn"], "only continuous actions"),
    (["train", "CartPole-v1", "--algo", "a3c", "--replay-ratio", "4"], "a3c has no replay"),
    (["train", "CartPole-v1", "--algo", "a3c", "--replay-start", "7"], "--replay-start has no meaning here"),
    (["train", "CartPole-v1", "--torso", "conv"], "needs images"),
    (["train", "Pendulum-v1", "--entropy-weight", "0.1"], "no entropy gradient"),
    (["train", "Pendulum-v1", "--returns", "tree-backup"], "tree backup needs discrete"),
    (["train", "CartPole-v1", "--config", "missing.json"], "missing.json: no such file"),
    (["train", "CartPole-v1", "--device", "tpu9"], "--device"),
    (["resume", "nowhere"], "nowhere: no such directory"),
    (["eval", "nowhere"], "nowhere: no such directory"),
    (["record", "nowhere"], "nowhere: no such directory"),
    (["plot", "nowhere"], "nowhere"),
    (["bench", "classic", "--output", "/dev/null/x.json"], "/dev/null"),
    (["bench", "classic", "--output", "."], "cannot write .: Is a directory"),
    (["fly"], "unknown command 'fly'"),
]


@pytest.mark.parametrize(("args", "message"), MISTAKES, ids=[" ".join(args) for args, _ in MISTAKES])
def test_a_mistake_gets_one_clear_line_and_leaves_nothing(args, message, call, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    code, out, err = call(*args)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not list(Path().iterdir())


AFTER_A_RUN = [
    (["record", "RUN", "--output", "nowhere/x.mp4"], "nowhere is not a directory"),
    (["record", "RUN", "--episodes", "0"], "at least one episode"),
    (["plot", "RUN", "--output", "nowhere/x.png"], "cannot write nowhere/x.png"),
    (["plot", "RUN", "--output", "x.xyz"], "cannot write x.xyz"),
    (["plot", "RUN", "--output", "x"], "name a file that ends in .png"),
    (["plot", "RUN", "--output", "RUN"], "name a file that ends in .png"),
    (["record", "RUN", "--output", "/proc/x.mp4"], "cannot write /proc/x.mp4"),
    (["eval", "RUN", "--episodes", "0"], "--episodes must be at least 1"),
    (["eval", "RUN", "--seed", "-1"], "--seed must be at least 0"),
    (["record", "RUN", "--seed", "-1"], "--seed must be at least 0"),
    (["eval", "RUN", "--device", "meta"], "--device meta cannot be used here"),
    (["resume", "RUN", "--steps", "10"], "--steps must be more"),
    (["train", "--config", "RUN/progress.csv"], "not a JSON file of settings"),
    (["train", "--config", "RUN/checkpoints/LATEST"], "not a JSON file of settings"),
    (["eval", "RUN", "--nonsense"], "Unrecognized options: --nonsense"),
]


@pytest.mark.parametrize(("args", "message"), AFTER_A_RUN, ids=[" ".join(args) for args, _ in AFTER_A_RUN])
def test_a_mistake_with_a_run_leaves_it_as_it_was(args, message, run, call):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    code, out, err = call(*(arg.replace("RUN", str(run)) for arg in args))
    assert code == 2
    assert out == ""
    assert message in err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"env": "CartPole-v1", "algo": ["acer"]}', "--algo must be one of"),
        ('{"env": ["CartPole-v1"]}', "no environment given"),
        ('{"env": "environments:Corridor"}', "not run because a file names it"),
        ('{"env": "CartPole-v1", "continuous": true}', "unknown setting 'continuous'"),
        ('{"env": "CartPole-v1", "steps": "many"}', "--steps must be a whole number"),
        ("[1]", "one object"),
        ("[" * 100_000, "not a JSON file"),
    ],
)
def test_a_bad_configuration_file_is_refused(text, message, call):
    Path("c.json").write_text(text)
    code, _, err = call("train", "--config", "c.json")
    assert code == 2
    assert message in err


def test_another_algorithm_leaves_behind_what_the_files_own_brought(run, call):
    file = json.loads((run / "config.json").read_text())
    for algo, ratio, region in (("a3c", 0, "none"), ("trust-a3c", 0, "projection"), ("tis", 4, "none")):
        code, _, err = call("train", "--config", run / "config.json", "--algo", algo, "--out", algo)
        assert code == 0, err
        config = json.loads(Path(algo, "config.json").read_text())
        assert (config["replay_ratio"], config["trust_region"]) == (ratio, region)
        assert config["hidden"] == file["hidden"] == [16]
    code, _, err = call("train", "--config", "a3c/config.json", "--algo", "acer", "--out", "back")
    assert code == 0, err
    assert json.loads(Path("back/config.json").read_text()) == file


def test_what_is_about_to_happen_is_said(run, call):
    assert "Playing 2 episodes" in call("eval", run, "--episodes", "2")[2]
    assert "is finished at" in call("resume", run)[2]


def test_a_run_that_died_before_its_first_checkpoint_begins_again(run, call):
    Path("dead").mkdir()
    Path("dead/config.json").write_bytes((run / "config.json").read_bytes())
    code, _, err = call("resume", "dead", "--device", "meta")
    assert code == 2
    assert "--device meta cannot be used here" in err
    code, _, err = call("resume", "dead")
    assert code == 0, err
    assert "from 0 to 700 steps" in err


@pytest.mark.parametrize(
    ("name", "message", "exit_code"),
    [
        ("Raising", "step 3: environment 0 raised ZeroDivisionError at step 1 of its episode: division by zero", 3),
        ("WrongShape", "WrongShape: step", 3),
        ("OldStep", "OldStep: step 1 raised ValueError", 3),
        ("NotAnEnvironment", "not a gymnasium.Env", 2),
    ],
)
@pytest.mark.parametrize("workers", [[], ["--workers"]])
def test_an_environment_that_misbehaves_is_named(name, message, exit_code, workers, call, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    code, _, err = call("train", f"environments:{name}", "--environments", "4", "--out", "r", *workers, *SHORT)
    assert code == exit_code
    assert message in err if not workers else "environments:" in err
    assert "Traceback" not in err.splitlines()[-1]


def test_an_environment_that_goes_bad_ends_the_run_with_a_checkpoint(call, monkeypatch):
    monkeypatch.syspath_prepend(HERE)
    for name, what in (("NanObservation", "observation"), ("InfiniteReward", "reward")):
        code, _, err = call("train", f"environments:{name}", "--out", name, "--trajectory-length", "4", *SHORT)
        assert code == 3
        assert f"environment 0 gave a {what} with NaN or infinity at step" in err
        assert (Path(name) / "checkpoints" / "LATEST").exists()


def test_an_output_directory_in_use_is_left_alone(run, call):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    code, _, err = call("train", "CartPole-v1", "--out", run, *SHORT)
    assert code == 2
    assert "acer resume" in err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("precious")
    assert call("train", "CartPole-v1", "--out", "mine", *SHORT)[0] == 2
    assert [path.name for path in Path("mine").iterdir()] == ["notes.txt"]


def test_a_missing_extra_says_what_to_install(call, monkeypatch):
    monkeypatch.setitem(sys.modules, "Box2D", None)
    for name in [name for name in sys.modules if name.startswith("gymnasium.envs.box2d")]:
        monkeypatch.delitem(sys.modules, name)
    code, _, err = call("train", "LunarLander-v3")
    assert code == 2
    assert "pip install" in err
    assert "'acer-rl[box2d]'" in err


def test_a_damaged_checkpoint_is_refused(run, call):
    subprocess.run(["cp", "-r", str(run), "copy"], check=True)
    latest = next(path for path in Path("copy/checkpoints").iterdir() if path.is_dir())
    model = latest / "model.safetensors"
    model.write_bytes(model.read_bytes()[:1000])
    code, _, err = call("eval", "copy")
    assert code == 2
    assert "model.safetensors is damaged" in err
    (latest / "state.json").write_text("{")
    assert call("resume", "copy", "--steps", "1400")[0] == 2


def test_help_answers_everywhere(call):
    for command in ("train", "resume", "eval", "record", "plot", "experiment", "tune", "report", "bench", "envs"):
        code, out, _ = call(command, "--help")
        assert code == 0
        assert f"acer {command}" in out
    code, out, _ = call("--help")
    assert code == 0
    assert "resume" in out
    code, out, _ = call("train", "Pendulum-v1", "--help")
    assert code == 0
    assert "--learning-rate" in out
    code, out, _ = call("train", "fish", "--help")
    assert code == 0
    assert str(PRESETS["control"]["any"]["learning_rate"]) in out  # of the preset that fish trains with
    assert str(PRESETS["classic"]["discrete"]["reward_scale"]) in call("train", "--help")[1]
    assert str(PRESETS["control"]["any"]["learning_rate"]) in call("train", "--preset", "control", "--help")[1]
    assert "CartPole-v1" in call("envs")[1]


def test_the_help_of_train_has_the_environment_first_and_what_is_common_before_the_rest(call):
    out = call("train", "--help")[1]
    order = [out.index(f"\n  {what}") for what in ("ENV", "--algo", "--steps", "--out", "--home", "--rmsprop-decay")]
    assert order == sorted(order)
    assert all(f"{of.group}:" in out for of in SETTINGS.values())


def test_every_setting_is_a_flag(call):
    out = call("train", "--help")[1]
    assert all(f"{flag_name(name)}" in out for name in SETTINGS if name != "env")


@pytest.mark.parametrize("args", [["--help"], ["train", "--help"], ["train", "CartPole-v1", "--help"], ["envs"]])
def test_help_needs_no_pytorch(args):
    code = (
        "import sys, atexit; atexit.register(lambda: print('torch' in sys.modules, file=sys.stderr));"
        f"sys.argv = ['acer', *{args}]; from acer.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["train", "CartPole-v1", "--lerning-rate", "1"], "did you mean --learning-rate"),
        (["train", "CartPole-v1", "--algo", "acre"], "--algo must be one of acer"),
        (["train", "CartPole-v1", "--steps", "many"], "--steps must be a whole number, not 'many'"),
        (["train", "CartPole-v1", "--gamma", "much"], "--gamma must be a number, not 'much'"),
        (["train", "CartPole-v1", "--steps"], "--steps: expected one argument"),
        (["trian"], "did you mean train?"),
        (["eval"], "required: directory (acer eval --help)"),
    ],
)
def test_a_mistyped_command_gets_one_line(args, message, call):
    code, out, err = call(*args)
    assert (code, out) == (2, "")
    assert message in err and len(err.splitlines()) == 1


def test_a_flag_counts_as_given_whatever_the_default_is(call):
    code, _, err = call("train", "CartPole-v1", "--algo", "a3c", "--replay-start", "1000")  # the preset's own number
    assert code == 2
    assert "--replay-start has no meaning here" in err


def test_runs_are_numbered_unless_their_directory_is_named(call):
    for name in ("CartPole-v1-acer-0", "CartPole-v1-acer-0-2", "CartPole-v1-acer-0-3"):
        code, out, err = call("train", "CartPole-v1", *SHORT)
        assert code == 0, err
        assert f"runs/{name}:" in out and f"in runs/{name}" in err
    code, _, err = call("train", "CartPole-v1", "--out", "runs/CartPole-v1-acer-0", *SHORT)
    assert code == 2
    assert "choose another --out" in err


def test_without_a_terminal_there_is_a_line_at_each_row_of_the_log(call):
    _, _, err = call("train", "CartPole-v1", "--out", "r", *SHORT)
    rows = [int(row["steps"]) for row in tables.read(Path("r/progress.csv"))]
    said = [line for line in err.splitlines() if " of 700 steps" in line]
    assert len(said) in (len(rows), len(rows) - 1)  # the last row may be the run's end
    assert all(f"{steps:,} of 700 steps" in line for steps, line in zip(rows, said, strict=False))
    assert "steps/s" not in call("train", "CartPole-v1", "--out", "q", "--quiet", *SHORT)[2]


def test_evaluations_of_endless_episodes_are_bounded_and_say_so(call):
    pytest.importorskip("pygame", reason="CliffWalking needs the extra classic")
    code, out, err = call("train", "CliffWalking-v1", "--out", "r", "--steps", "1000", "--eval-episodes", "2")
    assert code == 0, err
    assert "evaluating: 2 episodes of at most 2,000 steps" in err
    assert "2 of 2 cut at 2,000 steps: --eval-limit" in err
    assert "(1,000 and the rest of their trajectories)" in out
    assert "2 of 2 cut" in call("eval", "r", "--episodes", "2")[2]


def test_the_same_signal_twice_in_a_row_is_one(call):
    command = [sys.executable, "-m", "acer", "train", "CartPole-v1", "--out", "r", "--steps", "100000000", *SHORT[2:]]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    while "of 100,000,000 steps" not in process.stderr.readline():
        assert process.poll() is None
    os.kill(process.pid, signal.SIGINT)
    time.sleep(0.01)  # one that is not yet delivered would swallow the other
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "acer resume r" in err and Path("r/checkpoints/LATEST").is_file()


def test_what_an_environment_is_made_with_is_a_flag_and_goes_along(call):
    flags = ["--env-kwargs", "goal_velocity=0.01", "--eval-limit", "10"]
    code, _, err = call("train", "MountainCar-v0", "--out", "r", *flags, *SHORT)
    assert code == 0, err
    assert json.loads(Path("r/config.json").read_text())["env_kwargs"] == {"goal_velocity": 0.01}
    assert call("eval", "r", "--episodes", "1")[0] == 0
    for bad, message in (("goal_velocity", "takes name=value"), ("nonsense=1", "nonsense")):
        code, _, err = call("train", "MountainCar-v0", "--env-kwargs", bad)
        assert code == 2
        assert message in err
    code, _, err = call("train", "cheetah", "--env-kwargs", "a=1")
    assert code == 2
    assert "--env-kwargs has no meaning here" in err


def test_an_id_that_a_module_registers_is_trained_by_its_name(call, monkeypatch):
    monkeypatch.chdir(Path().absolute())
    Path("simulator.py").write_text(
        "import gymnasium\nfrom gymnasium.envs.classic_control import CartPoleEnv\n"
        "gymnasium.register('Mine-v0', CartPoleEnv, max_episode_steps=50)\n"
    )
    code, _, err = call("train", "simulator:Mine-v0", "--out", "r", *SHORT)
    assert code == 0, err


def test_plot_draws_the_seeds_of_one_agent_as_one(run, call):
    runs = {"one": [], "two": ["--seed", "1"], "fast": ["--learning-rate", "1e-3"]}
    for name, flags in runs.items():
        assert call("train", "--config", run / "config.json", "--out", name, "--quiet", *flags)[0] == 0
    groups = plots.by_agent([Path(name) for name in runs])
    assert list(groups.values()) == [[Path("one"), Path("two")], [Path("fast")]]
    assert call("plot", *runs, "--output", "c.svg")[0] == 0
