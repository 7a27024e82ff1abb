"""Torsos: which an observation gets, and what they compute."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import own_torsos
from acer import ACER, cli
from acer import config as configuration
from acer.config import defaults
from acer.envs import ObservationSpec
from acer.envs.spaces import channels_last
from acer.errors import CheckpointError, SettingsError
from acer.learner import algorithms
from acer.learner.categorical import Categorical
from acer.learner.networks import Encoder, Policy
from acer.learner.torsos import MLP, ConvNet, OwnTorso
from acer.run import trust
from environments import Corridor

SMALL: dict[str, Any] = {"environments": 4, "trajectory_length": 5, "hidden": (16,), "replay_start": 20}


def policy_for(shape: tuple[int, ...], dtype: Any = np.uint8, **settings: Any) -> Policy:
    observation = ObservationSpec(spaces.Box(0, 255, shape, dtype))
    config = defaults("torsos", False, precision="float32", **settings)
    return Policy(algorithms.architecture(config, observation, Categorical(3)))


@pytest.mark.parametrize(
    ("shape", "kernels", "features"),
    [
        ((5, 5, 2), [3, 3], 64),
        ((7, 7, 3), [3, 3], 576),  # MiniGrid
        ((10, 10, 4), [3, 3], 2304),  # MinAtar
        ((15, 40, 4), [3, 3], 64 * 11 * 36),
        ((16, 16, 1), [4, 3], 576),
        ((35, 35, 3), [4, 3], 3136),
        ((36, 36, 3), [8, 4, 3], 64),
        ((4, 84, 84), [8, 4, 3], 3136),  # the paper's
    ],
)
def test_convolutions_fit_the_image(shape: tuple[int, ...], kernels: list[int], features: int) -> None:
    policy = policy_for(shape, hidden=(16,))
    assert isinstance(policy.torso, ConvNet)
    convolutions = [layer for layer in policy.torso.convolutions if isinstance(layer, nn.Conv2d)]
    assert [layer.kernel_size[0] for layer in convolutions] == kernels
    assert policy.torso.layers[0].in_features == features


@pytest.mark.parametrize("shape", [(4, 9, 2), (3, 3)])
def test_images_too_small_for_convolutions_are_vectors_to_the_network(shape: tuple[int, ...]) -> None:
    assert isinstance(policy_for(shape).torso, MLP)
    with pytest.raises(SettingsError, match="too small for convolutions"):
        policy_for(shape, torso="conv")


def test_small_convolutions_are_those_of_torch() -> None:
    """Trajectories of images, channels first and bytes, through encoder and torso."""
    observation = ObservationSpec(spaces.Box(0, 255, (10, 10, 4), np.uint8))
    config = defaults("torsos", False, precision="float32", hidden=(16,))
    architecture = algorithms.architecture(config, observation, Categorical(3))
    encoder, policy = Encoder(architecture), Policy(architecture)
    images = torch.randint(256, (3, 2, 4, 10, 10), dtype=torch.uint8)
    _, found = policy(encoder(images))
    first, second = (layer for layer in policy.torso.convolutions if isinstance(layer, nn.Conv2d))
    x = (images.float() / 255).flatten(0, 1)
    for layer in (first, second):
        x = nn.functional.conv2d(x, layer.weight, layer.bias).relu()
    expected = nn.functional.linear(x.flatten(1), policy.torso.layers[0].weight, policy.torso.layers[0].bias).relu()
    torch.testing.assert_close(found.flatten(0, 1), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("torso", ["auto", "conv", "mlp"])
def test_small_images_train(torso: str) -> None:
    model = ACER(partial_named("small-image"), torso=torso, **SMALL).learn(80)
    assert isinstance(model.agent.network.policy.torso, MLP if torso == "mlp" else ConvNet)
    assert model.config.precision == "float32"
    model.close()


def partial_named(kind: str) -> Any:
    def corridor() -> Any:
        return gym.wrappers.TimeLimit(Corridor(kind), 30)

    return corridor


class Grid(Corridor):
    """An image, where one looks, and words, as MiniGrid has them."""

    def __init__(self) -> None:
        super().__init__("small-image")
        parts = {"image": self.observation_space, "look": spaces.Discrete(4), "mission": spaces.Text(9)}
        self.observation_space = spaces.Dict(parts)

    def _observe(self) -> Any:
        image = np.full((8, 8, 3), 10 * self.at, np.uint8)
        return {"image": image, "look": self.at % 4, "mission": "go right"}


def test_a_small_image_among_other_parts_trains_and_plays() -> None:
    model = ACER(limited_grid, **SMALL).learn(80)
    assert model.agent.observation.shape == (3 + 4, 8, 8)
    observation, _ = limited_grid().reset(seed=0)
    action, _ = model.predict(observation)
    assert action in (1, 2)
    assert len(model.evaluate(2).returns) == 2
    model.close()


def limited_grid() -> Any:
    return gym.wrappers.TimeLimit(Grid(), 30)


@pytest.mark.parametrize(
    ("package", "env", "channels", "size"),
    [("minigrid", "minigrid:MiniGrid-Empty-5x5-v0", 3 + 4, 7), ("minatar", "MinAtar/Breakout-v1", 4, 10)],
)
def test_grids_of_others_train_as_they_come(package: str, env: str, channels: int, size: int) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed: pip install {package}")
    model = ACER(env, **SMALL).learn(80)
    assert model.agent.observation.shape == (channels, size, size)
    assert isinstance(model.agent.network.policy.torso, ConvNet)
    model.close()


# ------------------------------------------------------------------ the user's own


def same_policy(one: ACER, other: ACER) -> bool:
    x = np.random.default_rng(0).normal(size=(5, *one.agent.observation.shape)).astype(np.float32)
    return np.array_equal(one.agent.act(x, None)[1], other.agent.act(x, None)[1])


@pytest.mark.parametrize("algo", ["acer", "a3c"])
@pytest.mark.parametrize("shared_torso", [True, False])
def test_a_torso_of_the_users_own_learns(algo: str, shared_torso: bool) -> None:
    model = ACER("CartPole-v1", torso=own_torsos.Wide, algo=algo, shared_torso=shared_torso, environments=4)
    torso = model.agent.network.policy.torso
    assert isinstance(torso, OwnTorso) and torso.features == 24
    before = [p.detach().clone() for p in torso.parameters()]
    model.learn(400)
    assert not any(torch.equal(*pair) for pair in zip(before, torso.parameters(), strict=True))
    again = ACER("CartPole-v1", torso="own_torsos:Wide", algo=algo, shared_torso=shared_torso, environments=4)
    again.learn(400)  # the seed decides its first weights, too
    assert same_policy(model, again)
    model.close()
    again.close()


def test_a_torso_of_the_users_own_reads_images_that_step_and_trajectories() -> None:
    model = ACER(partial_named("small-image"), torso=own_torsos.Wide, environments=4, trajectory_length=5,
                 replay_start=20).learn(80)  # fmt: skip
    assert isinstance(model.agent.network.policy.torso, OwnTorso)
    model.close()


def test_a_file_does_not_decide_a_torso(tmp_path: Path) -> None:
    """Saved runs and models say in one line that they need it again, and take it by name or as it is."""
    model = ACER("CartPole-v1", torso=own_torsos.Wide, environments=4).learn(320, out=tmp_path / "run")
    model.save(tmp_path / "model")
    for load in (partial(ACER.load, tmp_path / "model"), partial(ACER.load, tmp_path / "run", resume=True)):
        with pytest.raises(CheckpointError, match=r"Wide, a network of your own.* in Python torso=…") as error:
            load()
        assert "\n" not in str(error.value)
    for torso in (own_torsos.Wide, "own_torsos:Wide"):
        again = ACER.load(tmp_path / "model", torso=torso)
        assert same_policy(model, again)
        again.close()
    on = ACER.load(tmp_path / "run", resume=True, torso=own_torsos.Wide).learn(80)
    assert on.steps >= 400
    on.close()
    file = tmp_path / "run" / "config.json"
    with pytest.raises(CheckpointError, match="own_torsos:Wide, a network of your own"):
        trust.admit_file(file, configuration.read_file(file), {})
    model.close()


def test_a_local_function_cannot_be_named_and_is_said_so(tmp_path: Path) -> None:
    model = ACER("CartPole-v1", torso=lambda shape: own_torsos.Wide(shape, 8), environments=4).learn(80)
    assert "<lambda>" in model.config.torso
    model.save(tmp_path / "model")
    with pytest.raises(CheckpointError, match="--torso module:Class"):
        ACER.load(tmp_path / "model")
    with pytest.raises(CheckpointError, match="the network needs"):
        ACER.load(tmp_path / "model", torso=own_torsos.Wide)
    model.close()


def test_other_processes_get_the_users_torso() -> None:
    model = ACER("CartPole-v1", torso=lambda shape: own_torsos.Wide(shape, 8), home="shared", actors=2, environments=2)
    model.learn(200)
    assert model.agent.network.policy.torso.features == 8
    model.close()


@pytest.mark.parametrize(
    ("torso", "said"),
    [
        ("own_torsos:Wied", "has no 'Wied'; did you mean Wide"),
        ("nowhere:Wide", "no module named 'nowhere'"),
        ("own_torsos:number", "is not a class or a function"),
        ("own_torsos:Fails", r"cannot be used for observations of shape \(4,\): ValueError: not enough paint"),
        ("own_torsos:TwoOutputs", r"turns \[N, …\] into \[N, features\]"),
        ("own_torsos:Remembers", "running_mean.* layer or group normalisation"),
        ("own_torsos:InPlace", "changes its input"),
        ("wide", "torso must be one of auto, mlp, conv or module:Class, not 'wide'"),
    ],
)
def test_torsos_that_cannot_be_meant_are_refused_in_one_line(torso: str, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as error:
        ACER("CartPole-v1", torso=torso)
    assert "\n" not in str(error.value)


def test_sizes_are_for_our_own_torsos() -> None:
    with pytest.raises(SettingsError, match="hidden has no meaning here"):
        ACER("CartPole-v1", torso=own_torsos.Wide, hidden=(8,))


def test_the_command_line_takes_a_torso(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    named = ["--torso", "own_torsos:Wide"]
    small = ["--steps", "320", "--eval-episodes", "1", "--out", run, "--quiet"]
    assert cli._run(["train", "CartPole-v1", *named, *small]) == 0
    with pytest.raises(CheckpointError, match="a network of your own"):
        cli._run(["eval", run, "--episodes", "1"])
    assert cli._run(["eval", run, "--episodes", "1", *named]) == 0
    assert cli._run(["resume", run, "--steps", "700", *named, "--quiet"]) == 0


@pytest.mark.parametrize(
    ("shape", "last"),
    [((10, 10, 10), True), ((8, 8, 12), True), ((8, 8, 111), True), ((84, 84, 3), True), ((210, 160, 3), True),
     ((3, 84, 84), False), ((12, 8, 8), False), ((4, 210, 160), False)],
)  # fmt: skip
def test_which_dimension_has_the_channels(shape: tuple[int, ...], last: bool) -> None:
    assert channels_last(spaces.Box(0, 1, shape)) is last


def test_a_torso_that_is_the_same_module_each_time_learns_all_the_same() -> None:
    mine = own_torsos.Wide((4,))
    before = mine.layers[1].weight.clone()
    model = ACER("CartPole-v1", torso=lambda shape: mine, shared_torso=False, **SMALL | {"hidden": (64, 64)})
    first = model.agent.network.policy.torso.module.layers[1].weight.clone()
    model.learn(200)
    assert not torch.equal(first, model.agent.network.policy.torso.module.layers[1].weight)
    assert torch.equal(before, mine.layers[1].weight)


def frozen(shape: tuple[int, ...]) -> nn.Module:
    torso = own_torsos.Wide(shape)
    torso.layers[1].requires_grad_(False)
    return torso


def test_what_is_frozen_in_a_torso_stays_as_it_is() -> None:
    model = ACER("CartPole-v1", torso=frozen, **SMALL | {"hidden": (64, 64)})
    linear, norm = model.agent.network.policy.torso.module.layers[1:3]
    before = linear.weight.clone(), norm.weight.clone()
    model.learn(200)
    assert torch.equal(before[0], linear.weight) and not torch.equal(before[1], norm.weight)


def test_a_torso_that_no_other_process_can_have_is_saved_and_refused_there(tmp_path: Path) -> None:
    lock = threading.Lock()

    def torso(shape: tuple[int, ...]) -> nn.Module:
        with lock:
            return own_torsos.Wide(shape)

    ACER("CartPole-v1", torso=torso, target_rate=0.1, **SMALL | {"hidden": (64, 64)}).learn(100, out=tmp_path / "run")
    with pytest.raises(SettingsError, match=r"cannot be sent to another process .* use home='local'"):
        ACER("CartPole-v1", torso=torso, home="shared", actors=2, environments=2).learn(100)
