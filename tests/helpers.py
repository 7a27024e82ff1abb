"""What several test files share: small learners in any dtype, and an environment that counts its steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acer.config import Config
from acer.envs import EnvBatch
from acer.homes.local import Local
from acer.learner import algorithms
from acer.learner.distributions import Distribution
from acer.learner.gaussian import LearntGaussian
from acer.learner.networks import Network, Policy
from acer.learner.parameters import Constants
from acer.learner.rollout import FIELDS, Rollout
from acer.learner.torsos import Architecture
from acer.learner.update import Batch, Method, update

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Learner:
    """A network, its average and their home."""

    network: Network
    average: Policy
    home: Local

    def parameters(self) -> Arrays:
        return {name: p.detach().numpy().copy() for name, p in self.network.named_parameters()}

    def average_parameters(self) -> Arrays:
        return {name: p.detach().numpy().copy() for name, p in self.average.named_parameters()}

    def gradients(self, batch: Batch, method: Method, noise: Tensor | None = None, burn_in: int = 0) -> Arrays:
        """The gradient of every parameter after one update on `batch`, for descent."""
        self.home.gradient.zero_()
        noise = torch.empty(0) if noise is None else noise
        update(self.network, self.average, batch, method, noise, burn_in=burn_in)
        return {name: p.grad.numpy().copy() for name, p in self.network.named_parameters() if p.grad is not None}


def learner(architecture: Architecture, seed: int, dtype: torch.dtype = torch.float64, drift: float = 0.5) -> Learner:
    """Parameters of about unit size in every layer, biases too; those of the average are `drift` away."""
    network, average = Network(architecture).to(dtype), Policy(architecture).to(dtype)
    home = Local(network, average, Constants(alpha=0.99, decay=0.99, epsilon=1e-6))
    generator = torch.Generator().manual_seed(seed)
    home.theta.normal_(0, 0.7, generator=generator)
    away = torch.empty_like(home.theta_a).normal_(0, 1, generator=generator)
    home.theta_a.copy_(home.theta[: len(home.theta_a)] + drift * away)
    return Learner(network, average, home)


def architecture(config: Config, f: Distribution, observation: int = 3) -> Architecture:
    """A network of a few units for `config`."""
    return Architecture(
        observation=(observation,),
        pixels=False,
        outputs=f.outputs,
        action_dimensions=f.inputs,
        choices=f.choices,
        free_outputs=f.dimensions if isinstance(f, LearntGaussian) and f.free else 0,
        critic=algorithms.critic_kind(config, f),
        hidden=config.hidden,
        advantage_hidden=config.advantage_hidden,
        activation=config.activation,
        shared_torso=config.shared_torso,
        memory=config.memory_size if config.recurrent != "no" else 0,
    )


def random_batch(
    f: Distribution, seed: int, steps: int, count: int, observation: int = 3, discount: float = 0.9
) -> Batch:
    """Unbroken trajectories, off-policy, in float64."""
    rng = np.random.default_rng(seed)
    x, r = rng.normal(size=(steps + 1, count, observation)), rng.normal(size=(steps, count))
    mu = f.statistics(torch.from_numpy(0.3 * rng.normal(size=(steps, count, f.outputs))))
    actions = f.sample(mu, f.noise(rng, (steps, count)).double())
    discounts = torch.full((steps, count), discount, dtype=torch.float64)
    live = torch.ones(steps, count, dtype=torch.bool)
    return Batch(torch.from_numpy(x), actions, torch.from_numpy(r), discounts, live, mu)


def step_of(batch: Batch, t: int, b: int) -> Batch:
    """One step of one of the batch's trajectories, alone."""
    return Batch(
        **{
            name: value[t : t + (2 if name in ("observations", "masks") else 1), b : b + 1]
            for name, value in vars(batch).items()
            if value is not None
        }
    )


def trajectory_of(batch: Batch, b: int) -> Batch:
    """One of the batch's trajectories, alone."""
    return batch.select(slice(b, b + 1))


class Counter(gym.Env[NDArray[np.float32], int]):
    """Episodes of a fixed length. x = (episode, step), counted from 0; the reward of a step is 1 + its number."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int, truncates: bool) -> None:
        self.length, self.truncates = length, truncates
        self.episode = -1
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode += 1
        self.steps = 0
        return self._x(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        ends = self.steps == self.length
        return self._x(), float(self.steps), ends and not self.truncates, ends and self.truncates, {}

    def _x(self) -> NDArray[np.float32]:
        return np.array([self.episode, self.steps], np.float32)


def counting_rollout(length: int, *, k: int, truncates: bool, gamma: float = 0.5) -> Rollout:
    """Trajectories of k steps through one `Counter`."""
    return Rollout(EnvBatch.of([lambda: Counter(length, truncates)], "Counter", workers=False), k, gamma, [0])


def always(action: int) -> Any:
    """A policy of two actions that stores even odds and takes `action`."""

    def act(x: NDArray[Any], masks: NDArray[np.bool_] | None) -> tuple[NDArray[Any], NDArray[np.float32]]:
        return np.full(len(x), action), np.full((len(x), 2), np.log(0.5), np.float32)

    return act


def trajectories(rollout: Rollout) -> Iterator[dict[str, Tensor]]:
    """One trajectory after another, as float64 tensors [T] of the rollout's only environment."""
    while True:
        trajectory, _ = rollout.collect(always(0))
        columns = {name: torch.from_numpy(getattr(trajectory, name)[:, 0].copy()) for name in FIELDS}
        yield {name: value.double() if value.is_floating_point() else value for name, value in columns.items()}
