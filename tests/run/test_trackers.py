"""Trackers: Weights & Biases and MLflow without network, and one that fails."""

import json
import sys

import pytest

from acer import ACER
from acer.config import from_dict
from acer.errors import CheckpointError, SettingsError
from acer.run import opening, tables, trackers

TINY = {"hidden": (8,), "environments": 4, "trajectories_per_update": 4, "replay_start": 320, "log_every": 80,
        "eval_episodes": 1, "eval_limit": 20, "checkpoint_minutes": 0.0}  # fmt: skip


class Kept:
    """A tracker that keeps what it is told."""

    def __init__(self, run, config, from_steps):
        self.rows, self.closed = [], False
        made.append(self)

    def add(self, group, row):
        self.rows.append((group, row))

    def close(self):
        self.closed = True


made: list[Kept] = []


@pytest.fixture
def kept(monkeypatch):
    made.clear()
    monkeypatch.setitem(trackers.TRACKERS, "wandb", Kept)
    return made


def test_a_tracker_has_the_rows_of_the_tables(kept, tmp_path):
    ACER("CartPole-v1", track="wandb", **TINY).learn(400, out=tmp_path / "run")
    (one,) = kept
    assert one.closed
    for group, file in (("train", "progress.csv"), ("eval", "eval.csv")):
        steps = [row["steps"] for where, row in one.rows if where == group]
        assert steps == [int(row["steps"]) for row in tables.read(tmp_path / "run" / file)]
        assert steps
    assert not (tmp_path / "run" / "tensorboard").exists()


@pytest.mark.parametrize("moment", ["__init__", "add", "close"])
def test_a_tracker_that_fails_is_said_once_and_does_not_end_the_run(moment, kept, tmp_path, monkeypatch, capsys):
    def fail(*_):
        raise ConnectionError("no such host")

    monkeypatch.setattr(Kept, moment, fail)
    model = ACER("CartPole-v1", track=["wandb", "tensorboard"], **TINY).learn(400, out=tmp_path / "run")
    assert model.steps >= 400
    assert len(tables.read(tmp_path / "run" / "progress.csv")) >= 3
    assert list((tmp_path / "run" / "tensorboard").iterdir())
    said = capsys.readouterr().err
    assert said.count("wandb: ConnectionError: no such host; the run goes on without it") == 1


def test_mlflow_keeps_settings_and_rows_and_goes_on_in_the_same_run(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "run"
    ACER("CartPole-v1", track="mlflow", **TINY).learn(400, out=run).close()
    with pytest.raises(CheckpointError, match="--track mlflow"):  # a file's word is not enough to send anything
        opening.resume(run, directory=run)
    training = opening.resume(run, directory=run, given={"track": ("mlflow",)})
    training.extend(800)
    training.run()
    training.close()

    client = mlflow.MlflowClient(f"sqlite:///{run / 'mlflow.db'}")
    (one,) = client.search_runs([client.get_experiment_by_name("acer").experiment_id])
    assert one.info.run_id == json.loads((run / "tracking.json").read_text())["mlflow"]
    assert (one.info.status, one.data.params["algo"], one.data.params["hidden"]) == ("FINISHED", "acer", "[8]")
    assert one.info.run_name == "run"
    steps = [point.step for point in client.get_metric_history(one.info.run_id, "train/updates")]
    rows = [int(row["steps"]) for row in tables.read(run / "progress.csv")]
    assert set(rows) <= set(steps) and max(steps) >= 800
    assert client.get_metric_history(one.info.run_id, "eval/return_mean")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_wandb_offline_keeps_rows_and_goes_on_in_the_same_run(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    run, ids = tmp_path / "run", []
    logged = []
    real = wandb.init

    def init(**settings):
        begun = real(**settings)
        ids.append(begun.id)
        log = begun.log
        monkeypatch.setattr(begun, "log", lambda row: (logged.append(row), log(row)))
        return begun

    monkeypatch.setattr(wandb, "init", init)
    ACER("CartPole-v1", track="wandb", **TINY).learn(400, out=run).close()
    training = opening.resume(run, directory=run, given={"track": ("wandb",)})
    training.extend(800)
    training.run()
    training.close()
    assert ids == [json.loads((run / "tracking.json").read_text())["wandb"]] * 2
    steps = [row["steps"] for row in logged if "train/updates" in row]
    assert set(steps) >= {int(row["steps"]) for row in tables.read(run / "progress.csv")}
    assert any("eval/return_mean" in row for row in logged)
    files = [path for path in (run / "wandb").rglob("*.wandb") if not path.is_symlink()]
    assert files and all(ids[0] in path.name for path in files)


def test_an_identity_that_makes_no_sense_is_not_used(tmp_path):
    from acer.run.files import Directory

    with Directory.open(tmp_path) as run:
        for text in ('{"wandb": "../../etc"}', '{"wandb": 3}', "[1]", "no JSON"):
            (tmp_path / "tracking.json").write_text(text)
            assert trackers._identity(run, "wandb", lambda: "new1") == "new1"
            assert trackers._identity(run, "wandb", lambda: "new2") == "new1"


def test_what_is_not_installed_is_said_before_anything_is_written(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    model = ACER("CartPole-v1", track="wandb", **TINY)
    with pytest.raises(SettingsError, match=r"track='wandb' needs wandb: pip install 'acer-rl\[wandb\]'"):
        model.learn(80, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_tracker_needs_a_directory():
    pytest.importorskip("wandb")
    with pytest.raises(SettingsError, match="track='wandb' is for a run with a directory"):
        ACER("CartPole-v1", track="wandb", **TINY).learn(80)


def test_the_list_is_checked():
    base = {"env": "CartPole-v1"}
    assert from_dict(base | {"track": "mlflow"}).track == ("mlflow",)
    assert from_dict(base | {"track": ["wandb", "mlflow", "wandb"]}).track == ("wandb", "mlflow")
    assert from_dict(base | {"track": []}).track == ()
    for wrong in ("neptune", ["wandb", "neptune"], 3, [3]):
        with pytest.raises(SettingsError, match="--track must be one of tensorboard, wandb, mlflow"):
            from_dict(base | {"track": wrong})


def test_the_flag_takes_several_words(tmp_path, call, kept):
    run = tmp_path / "run"
    code, _, complaint = call("train", "CartPole-v1", "--steps", 80, "--eval-episodes", 1, "--out", run, "--track",
                              "wandb", "tensorboard")  # fmt: skip
    assert code == 0, complaint
    assert kept and json.loads((run / "config.json").read_text())["track"] == ["wandb", "tensorboard"]
    code, _, complaint = call("train", "CartPole-v1", "--config", run / "config.json", "--out", tmp_path / "other")
    assert code == 2 and "--track wandb tensorboard" in complaint
