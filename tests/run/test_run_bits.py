"""What decides a run's bits is saved with it; when it goes on, it is restored or said."""

import shutil

import pytest
import torch

from acer import ACER
from acer.config import defaults
from acer.envs import spaces_of
from acer.errors import CheckpointError
from acer.machine import versions
from acer.run import bits, opening
from environments import Corridor
from run_files import latest, read_state, rewrite_state

SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "eval_episodes": 1}  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    out = tmp_path_factory.mktemp("bits") / "run"
    ACER("CartPole-v1", **SMALL).learn(60, out=out).close()
    return out


@pytest.fixture
def run(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


def resumed(run, capsys, **parts):
    """What is said when a run is taken up whose state has other versions and another machine."""
    where = latest(run).path
    state = read_state(where)
    rewrite_state(where, state | {name: state[name] | of for name, of in parts.items()})
    capsys.readouterr()
    opening.resume(run).close()
    return capsys.readouterr().err


def test_on_the_same_machine_nothing_is_said(run, capsys):
    assert resumed(run, capsys) == ""


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"versions": {"torch": "1.0.0"}}, f"torch 1.0.0, here {versions()['torch']}"),
        ({"versions": {"numpy": "1.0.0"}}, "NumPy 1.0.0, here"),
        ({"versions": {"code": "0123456789ab"}}, "acer's code 0123456789ab, here"),
        ({"machine": {"threads": 64}}, "threads: 64, here 1"),
        ({"machine": {"instructions": "abacus"}}, "instructions abacus, here"),
        ({"machine": {"instructions": "\x1b[2J\n" * 1_000}}, "instructions \\x1b[2J\\n"),
    ],
)
def test_what_is_different_is_said_in_one_line(parts, said, run, capsys):
    line = resumed(run, capsys, **parts)
    assert said in line and "may round otherwise" in line and line.count("\n") == 1 and len(line) < 600


def test_two_differences_make_one_line(run, capsys):
    line = resumed(run, capsys, versions={"torch": "1.0.0"}, machine={"threads": 64})
    assert "torch 1.0.0" in line and "threads: 64" in line and line.count("\n") == 1


def test_one_from_before_it_was_saved_goes_on_silently(run, capsys):
    where = latest(run).path
    state = read_state(where)
    del state["machine"]
    rewrite_state(where, state)
    opening.resume(run).close()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("machine", ["fast", {"threads": [1]}, {"threads": None}])
def test_what_makes_no_sense_is_refused(machine, run):
    where = latest(run).path
    rewrite_state(where, read_state(where) | {"machine": machine})
    with pytest.raises(CheckpointError, match="machine is"):
        opening.resume(run)


def image_config(**settings):
    observation, _ = spaces_of(lambda: Corridor("image"))
    return defaults("Corridor", False, **settings), observation


def test_threads_are_those_of_the_saved_run(monkeypatch):
    monkeypatch.setattr(bits, "cores", lambda: 8)
    config, observation = image_config()
    assert bits.with_threads_of({"machine": {"threads": 3}}, config, observation).threads == 3
    for state in ({}, {"machine": {}}, {"machine": {"threads": 9}}, {"machine": {"threads": 0}}):
        assert bits.with_threads_of(state, config, observation).threads == 0
    config, _ = image_config(threads=2)  # the user's word
    assert bits.with_threads_of({"machine": {"threads": 3}}, config, observation).threads == 2


def test_a_run_takes_up_its_threads(tmp_path):
    maker = Images
    ACER(maker, **SMALL | {"threads": 2}).learn(20, out=tmp_path / "run").close()
    where = latest(tmp_path / "run").path
    state = read_state(where)
    assert state["machine"]["threads"] == 2
    state["config"]["threads"] = 0  # as where the run left it open, on a machine of two cores
    rewrite_state(where, state | {"machine": state["machine"] | {"threads": 1}})
    try:
        training = opening.resume(tmp_path / "run", maker)
        assert training.config.threads == 1 and torch.get_num_threads() == 1
        training.close()
    finally:
        torch.set_num_threads(1)


def test_small_networks_have_one_thread_everywhere():
    observation, _ = spaces_of("CartPole-v1")
    config = defaults("CartPole-v1", False)
    assert bits.with_threads_of({"machine": {"threads": 3}}, config, observation) == config


class Images(Corridor):
    def __init__(self):
        super().__init__("image")


def test_threads_of_another_machine_are_not_the_runs_own(tmp_path):
    """Else a machine with fewer cores would refuse it."""
    ACER(Images, **SMALL).learn(20, out=tmp_path / "run").close()
    where = latest(tmp_path / "run").path
    rewrite_state(where, read_state(where) | {"machine": read_state(where)["machine"] | {"threads": 1}})
    try:
        opening.resume(tmp_path / "run", Images).close()
        training = opening.resume(tmp_path / "run", Images)
        training.extend(40)
        training.run()
        training.close()
        assert training.config.threads == 1 and read_state(latest(tmp_path / "run").path)["config"]["threads"] == 0
        assert '"threads": 0' in (tmp_path / "run" / "config.json").read_text()
    finally:
        torch.set_num_threads(1)
