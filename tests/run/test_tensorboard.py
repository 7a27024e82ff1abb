"""TensorBoard reads what a run wrote for it, without what a resume has undone."""

import shutil

import pytest

from acer import ACER
from acer.config import Config
from acer.run import opening, tables
from acer.run.files import Directory
from acer.run.trackers import TensorBoard

SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5, "threads": 1,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "eval_episodes": 1, "log_every": 20,
         "checkpoint_every": 50, "keep_checkpoints": 9, "eval_limit": 10}  # fmt: skip


def scalars(run):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(run / "tensorboard"), purge_orphaned_data=True)
    events.Reload()
    return {tag: {event.step: event.value for event in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def test_it_has_the_rows_of_the_tables(tmp_path):
    ACER("CartPole-v1", **SMALL).learn(150, out=tmp_path / "run").close()
    found, rows = scalars(tmp_path / "run"), tables.read(tmp_path / "run" / "progress.csv")
    for column in ("return_mean", "entropy", "episodes"):
        wanted = {int(row["steps"]): float(row[column]) for row in rows if row[column]}
        assert found[f"train/{column}"] == pytest.approx(wanted, rel=1e-5)
    assert "eval/return_mean" in found


def test_what_a_resume_undoes_is_gone(tmp_path):
    run = tmp_path / "run"
    ACER("CartPole-v1", **SMALL).learn(150, out=run).close()
    before = max(scalars(run)["train/episodes"])
    oldest = sorted(path for path in (run / "checkpoints").iterdir() if path.name.isdigit())[0]
    training = opening.resume(oldest, directory=run)
    training.extend(100)
    training.run()
    training.close()
    assert before >= 150 > max(scalars(run)["train/episodes"])


def test_its_files_are_written_as_the_others(tmp_path):
    """Exclusively, and not through links."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "tensorboard").symlink_to(tmp_path / "outside")
    with Directory.open(tmp_path) as run, pytest.raises(Exception, match="a link is not followed"):
        TensorBoard(run, Config(env="CartPole-v1"), 0)
    (tmp_path / "tensorboard").unlink()
    with Directory.open(tmp_path) as run:
        board = TensorBoard(run, Config(env="CartPole-v1"), 0)
        shutil.rmtree(tmp_path / "tensorboard")
        with pytest.raises(OSError, match="No such file"):
            board.add("train", {"steps": 1, "x": 1.0})
        board.close()
