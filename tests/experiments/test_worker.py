"""One job in a process of its own."""

import pytest

from acer.errors import CheckpointError
from acer.experiments import plans, worker
from acer.experiments.plan import Selection


def test_a_run_whose_checkpoints_cannot_be_read_is_kept(tmp_path):
    pytest.importorskip("mujoco")
    (job,) = plans.jobs("control", "smoke", Selection(tasks=("fish",), methods=("acer",), settings=(0,), steps=200))
    training = worker.take_up(job, tmp_path / "work")
    training.run()
    training.close()
    for file in (tmp_path / "work" / "checkpoints").rglob("model.safetensors"):
        file.write_bytes(b"nothing")
    before = (tmp_path / "work" / "progress.csv").read_bytes()
    with pytest.raises(CheckpointError, match="to begin this run again, remove"):
        worker.take_up(job, tmp_path / "work")
    assert (tmp_path / "work" / "progress.csv").read_bytes() == before
