"""Checkpoints of every released format are read, and their runs go on."""

import json
import shutil
from pathlib import Path

import pytest
import safetensors.numpy

import formats
from acer import ACER
from acer.run import checkpoint, opening
from run_files import read_state, rewrite_state

FIXTURES = Path(__file__).parent.parent / "fixtures"
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


def test_the_format_has_not_changed_without_a_fixture(tmp_path):
    """If this fails: let older checkpoints still load, count `checkpoint.FORMAT` up if older versions cannot read the
    new ones, and keep some of the new ones beside the old: `python tests/formats.py FORMAT.NUMBER`."""
    newest = formats.newest()
    assert formats.number(newest)[0] == checkpoint.FORMAT, f"{newest} is of another format than the code writes"
    formats.make(tmp_path, [name for name in formats.RUNS if name != "shared"])
    kept = json.loads((newest / "layout.json").read_text())
    assert formats.layout(tmp_path) == {name: of for name, of in kept.items() if name != "shared"}


@pytest.mark.parametrize("change", ["a key of the state", "an array", "a dtype"])
def test_a_change_of_the_format_is_seen(change, tmp_path):
    shutil.copytree(formats.newest(), tmp_path / "new")
    where = next((tmp_path / "new").glob("cartpole/checkpoints/[0-9]*"))
    arrays = safetensors.numpy.load_file(where / checkpoint.RUN)
    if change == "a key of the state":
        rewrite_state(where, read_state(where) | {"mood": "good"})
    else:
        arrays |= {"more": arrays["alive"]} if change == "an array" else {"alive": arrays["alive"].astype("int8")}
        safetensors.numpy.save_file(arrays, where / checkpoint.RUN)
    assert formats.layout(tmp_path / "new") != json.loads((tmp_path / "new" / "layout.json").read_text())


def test_nothing_that_was_kept_is_gone():
    kept = {"format-5": 4, "format-5.1": 5}
    found = {path.name: sum(of.is_dir() for of in path.iterdir()) for path in FIXTURES.glob("format-*")}
    assert kept.items() <= found.items()
