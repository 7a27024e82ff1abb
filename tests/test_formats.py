"""Checkpoints of every released format are read, and their runs go on."""

import json
import shutil
from pathlib import Path

import pytest

from acer import ACER
from acer.run import opening

FIXTURES = Path(__file__).parent / "fixtures"
RUNS = [path for path in sorted(FIXTURES.glob("format-*/*")) if (path / "config.json").is_file()]


@pytest.mark.parametrize("saved", RUNS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_run_goes_on(saved, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(saved, run)
    config = json.loads((run / "config.json").read_text())
    given = {name: config[name] for name in ("home", "actors") if config["home"] != "local"}
    training = opening.resume(run, directory=run, given=given)
    before = training.steps
    training.extend(before + 60)
    training.run()
    training.close()
    assert training.steps >= before + 60


@pytest.mark.parametrize("saved", sorted(FIXTURES.glob("format-*/model")), ids=lambda path: path.parent.name)
def test_a_model_plays(saved):
    model = ACER.load(saved)
    assert len(model.evaluate(2, seed=0).returns) == 2
    model.close()
