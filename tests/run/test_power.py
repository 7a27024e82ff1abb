"""Power cuts and failing disks at every operation of a save: one whole checkpoint is always there."""

import contextlib
import errno
import gc
import itertools
import os
import random
import shutil

import pytest

from acer import ACER
from acer.run import checkpoint, opening, store
from acer.run.files import Directory
from acer.run.tables import whole_lines
from power import PowerCut, fragile

SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5, "threads": 1,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "eval_episodes": 1}  # fmt: skip


@pytest.fixture(autouse=True)
def what_the_cut_left_open_is_closed(tmp_path):
    """As the end of a process would: thousands of handles are too many for the tests that follow in this one."""
    yield
    gc.collect()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{number}").startswith(str(tmp_path)):
                os.close(int(number))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A run's directory with one checkpoint, and what its next one holds."""
    out = tmp_path_factory.mktemp("power") / "run"
    model = ACER("CartPole-v1", **SMALL).learn(150, out=out)
    model.learn(60)
    model.close()
    return out, model._training.snapshot(), model.steps


def points(place, original, exchanges, error=None):
    """For every n: a copy of `original`, and a disk that stops at its n-th operation; ends with the first n that is
    never reached."""
    for n in itertools.count(1):
        target = place / f"{n}" / original.name
        shutil.copytree(original, target)
        with fragile(place / f"{n}", n, error, exchanges) as disk:
            yield n, target, disk
        if disk.count < n:  # of what was done before `cut` or with it
            return


def write_next(run, steps, snapshot):
    with Directory.open(run) as directory, directory.child(store.CHECKPOINTS, create=True) as root:
        store.write_numbered(root, steps, snapshot, keep=1, best=True)


@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("same_steps", [False, True])
def test_a_power_cut_anywhere_in_a_save_leaves_a_whole_checkpoint(same_steps, exchanges, saved, tmp_path):
    """same_steps: the new checkpoint takes the place of one with the same name."""
    run, snapshot, after = saved
    latest = store.find(run, pytest.fail).state["steps"]
    tried, new = 0, 0
    for n, target, disk in points(tmp_path, run, exchanges):
        steps = latest if same_steps else latest + 7
        with contextlib.suppress(PowerCut):
            write_next(target, steps, snapshot)
        disk.cut(random.Random(n))
        with Directory.open(target / "checkpoints") as root:
            root.recover()
        found = store.find(target, pytest.fail)  # without a word: nothing is damaged
        assert found.state["steps"] in (latest, after)
        new += int(found.path.name) == steps
        tried += 1
        with fragile(tmp_path / f"{n}"):
            write_next(target, steps + 1, snapshot)  # and the next save is as good as ever
        assert store.find(target, pytest.fail).path.name == f"{steps + 1:012d}"
    assert tried > 25 and new


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_power_cut_anywhere_in_a_save_over_an_old_model_leaves_one_of_them(exchanges, saved, tmp_path):
    _, snapshot, steps = saved
    old = tmp_path / "old" / "model"
    old.parent.mkdir()
    checkpoint.save(old, checkpoint.Snapshot(snapshot.tensors, snapshot.state | {"steps": 1}))
    for n, target, disk in points(tmp_path, old, exchanges):
        with contextlib.suppress(PowerCut):
            checkpoint.save(target, checkpoint.Snapshot(snapshot.tensors, snapshot.state))
        disk.cut(random.Random(n))
        assert store.find(target, lambda line: None).state["steps"] in (1, steps)
    checkpoint.save(target, checkpoint.Snapshot(snapshot.tensors, snapshot.state))
    assert {path.name for path in target.parent.iterdir()} == {"model"}


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_an_operation_that_fails_costs_this_save_and_no_other(number, saved, tmp_path):
    run, snapshot, after = saved
    latest = store.find(run, pytest.fail).state["steps"]
    for _, target, _disk in points(tmp_path, run, True, OSError(number, "no")):
        with contextlib.suppress(OSError):
            write_next(target, after + 7, snapshot)
        assert store.find(target, lambda line: None).state["steps"] in (latest, after)
        opening.load(target).close()


def test_a_checkpoint_counts_no_rows_that_a_power_cut_takes(tmp_path):
    """Rows last before the state that counts them."""
    counted = 0
    settings = {**SMALL, "steps": 130, "checkpoint_every": 40, "log_every": 10, "eval_every": 40, "eval_limit": 10}
    for n in range(30, 150, 6):
        out = tmp_path / f"{n}" / "run"
        out.parent.mkdir()
        with fragile(out.parent, n) as disk:
            model = ACER("CartPole-v1", **settings)
            with contextlib.suppress(PowerCut):
                model.learn(out=out)
            model.close()
            disk.cut(random.Random(n))
        if not (out / "config.json").exists() or store.is_unsaved_run(out):
            continue
        rows = store.find(out, pytest.fail).state["rows"]
        for name, count in rows.items():
            assert whole_lines((out / f"{name}.csv").read_bytes())[1] >= count
        counted += rows["progress"] > 0
    assert counted > 5


def test_rows_that_were_lost_all_the_same_are_said(saved, tmp_path, capsys):
    run = tmp_path / "run"
    shutil.copytree(saved[0], run)
    lines = (run / "episodes.csv").read_bytes().splitlines(keepends=True)
    (run / "episodes.csv").write_bytes(b"".join(lines[:-2]) + b"\0" * 20)
    training = opening.resume(run, directory=run)
    training.extend(training.steps + 20)
    training.run()
    training.close()
    said = " ".join(capsys.readouterr().err.split())
    assert f"has {len(lines) - 3} rows where the checkpoint counts {len(lines) - 1}: some were lost" in said
