"""Rollout: from stepping environments to trajectories of fixed length.

Time-major, `[T, B, …]`. Nothing downstream sees termination flags, only `discounts` and `live`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acer.envs import EnvBatch

Masks = NDArray[np.bool_]
Act = Callable[[NDArray[Any], Masks | None], tuple[NDArray[Any], NDArray[np.float32]]]
"""(x, masks) to actions and statistics."""


@dataclass(frozen=True)
class Trajectory:
    """k transitions of B environments, with the behaviour's whole statistics. Observations and rewards are raw."""

    observations: NDArray[Any]  # x_0 … x_k            [T+1, B, …]
    actions: NDArray[Any]  # a_t, unclipped             [T, B] or [T, B, d]
    rewards: NDArray[np.float32]  # r_t                 [T, B]
    discounts: NDArray[np.float32]  # γ, 0 where the return ends  [T, B]
    live: NDArray[np.bool_]  # False at dead steps      [T, B]
    mu: NDArray[np.float32]  # statistics of μ(·|x_t)   [T, B, n]
    masks: Masks | None = None  # legal choices, x_0 … x_k, in environments that have masks  [T+1, B, n]
    memory: NDArray[np.float32] | None = None  # what a recurrent policy remembered before x_0  [1, B, n]


OPTIONAL = ("masks", "memory")
FIELDS = tuple(name for name in Trajectory.__dataclass_fields__ if name not in OPTIONAL)
"""What every trajectory has."""


@dataclass
class Rollout:
    """Steps a batch of environments with a policy, k steps at a time; episodes go on across trajectories."""

    env: EnvBatch
    length: int
    gamma: float
    seeds: list[int]
    applied: Callable[[NDArray[Any]], NDArray[Any]] = lambda actions: actions  # to what the environments get
    remembers: int = 0  # numbers that a recurrent policy remembers of each environment
    observations: NDArray[Any] = field(init=False)  # where the environments stand
    alive: NDArray[np.bool_] = field(init=False)  # False: the next step is dead
    returns: NDArray[np.float64] = field(init=False)  # raw return of each unfinished episode
    lengths: NDArray[np.int64] = field(init=False)
    memory: NDArray[np.float32] = field(init=False)  # [B, n], moved on by who acts; nothing where an episode begins

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begins new episodes everywhere."""
        self.observations = self.env.reset(self.seeds)
        self.alive = np.ones(self.env.count, np.bool_)
        self.returns = np.zeros(self.env.count)
        self.lengths = np.zeros(self.env.count, np.int64)
        self.memory = np.zeros((self.env.count, self.remembers), np.float32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Where the environments stand, and how they came there if they can tell."""
        own = {name: getattr(self, name) for name in ("observations", "alive", "returns", "lengths")}
        if self.remembers:
            own["memory"] = self.memory
        return own | {f"env.{name}": array for name, array in self.env.state().items()}

    def restore(self, state: dict[str, NDArray[Any]]) -> list[int]:
        """Takes up the unfinished episodes; names the environments that cannot.

        One that does not end up at the stored observation is not what it was: it begins a new episode. If nothing is
        known of any, all are named and none has begun one.
        """
        past = {name.removeprefix("env."): array for name, array in state.items() if name.startswith("env.")}
        if not past:
            return list(range(self.env.count))
        self.observations = self.env.restore(past)
        self.alive, self.returns, self.lengths = (state[name].copy() for name in ("alive", "returns", "lengths"))
        if self.remembers:
            self.memory = state["memory"].copy()
        other = np.array(
            [not np.array_equal(*pair) for pair in zip(self.observations, state["observations"], strict=True)]
        )
        if other.any():
            self.observations[other] = self.env.restart(other)[other]
            self.alive[other], self.returns[other], self.lengths[other], self.memory[other] = True, 0, 0, 0
        return [int(i) for i in np.flatnonzero(other)]

    def collect(self, act: Act) -> tuple[Trajectory, list[tuple[float, int]]]:
        """Acts for k steps. Also gives the return and length of each episode that ended meanwhile."""
        steps: list[tuple[NDArray[Any], ...]] = []
        finished: list[tuple[float, int]] = []
        x, memory = self.observations, self.memory.copy()
        masks = [self.env.masks()]
        for _ in range(self.length):
            actions, mu = act(x, masks[-1])
            step = self.env.step(self.applied(actions))
            discounts = np.where(step.ends_return | ~self.alive, np.float32(0), np.float32(self.gamma))
            steps.append((x, actions, step.rewards, discounts, self.alive, mu))
            self.returns += step.rewards
            self.lengths += self.alive
            for i in np.flatnonzero(step.ends_episode):
                finished.append((float(self.returns[i]), int(self.lengths[i])))
                self.returns[i], self.lengths[i] = 0.0, 0
            self.memory[~self.alive] = 0  # after a dead step an episode begins
            x, self.alive = step.observations, ~step.ends_episode
            masks.append(self.env.masks())
        self.observations = x
        observations, *rest = (np.stack(of) for of in zip(*steps, strict=True))
        legal = [of for of in masks if of is not None]
        observations = np.concatenate((observations, x[None]))
        trajectory = Trajectory(observations, *rest)
        if legal:
            trajectory = replace(trajectory, masks=np.stack(legal))
        return (replace(trajectory, memory=memory[None]) if self.remembers else trajectory), finished
