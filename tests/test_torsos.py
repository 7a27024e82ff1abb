"""Torsos: which an observation gets, and what they compute."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from acer import ACER
from acer.config import defaults
from acer.envs import ObservationSpec
from acer.errors import SettingsError
from acer.learner import algorithms
from acer.learner.categorical import Categorical
from acer.learner.networks import Encoder, Policy
from acer.learner.torsos import MLP, ConvNet
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
