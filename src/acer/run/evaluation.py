"""Evaluation: a policy's returns in environments and on seeds that it did not train on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acer.envs import EnvBatch
from acer.learner.actor_learner import Agent


@dataclass(frozen=True)
class Evaluation:
    """Raw return and length of every episode."""

    returns: list[float]
    lengths: list[int]
    deterministic: bool  # mode action, or sampled
    cut: int = 0  # episodes that did not end within `limit` steps
    limit: int = 0

    @property
    def mean(self) -> float:
        return float(np.mean(self.returns))

    @property
    def std(self) -> float:
        return float(np.std(self.returns))

    def said_of_cut(self) -> str:
        """What has to be said of episodes that were cut; empty if none was."""
        return f" ({self.cut} of {len(self.returns)} cut at {self.limit:,} steps: --eval-limit)" if self.cut else ""

    def row(self) -> dict[str, Any]:
        """As eval.csv has it."""
        return {
            "episodes": len(self.returns),
            "return_mean": self.mean,
            "return_std": self.std,
            "return_min": min(self.returns),
            "return_max": max(self.returns),
            "length_mean": float(np.mean(self.lengths)),
            "policy": "mode" if self.deterministic else "sampled",
        }


def evaluate(
    agent: Agent,
    env: EnvBatch,
    episodes: int,
    seeds: np.random.SeedSequence,
    deterministic: bool,
    limit: int,
    interrupted: Callable[[], bool] = lambda: False,
) -> Evaluation:
    """Plays `episodes` episodes. Each environment has its own share of them, so that short ones are not favoured.

    An episode of `limit` steps is cut: it counts as it stands.
    """
    env_seeds, acting = seeds.spawn(2)
    rng = np.random.default_rng(acting)
    quota = np.full(env.count, episodes // env.count) + (np.arange(env.count) < episodes % env.count)
    x: NDArray[Any] = env.reset([int(seed) for seed in env_seeds.generate_state(env.count) >> 1])
    alive, memory = np.ones(env.count, np.bool_), agent.memory(env.count)
    returns, lengths = np.zeros(env.count), np.zeros(env.count, np.int64)
    finished: list[list[tuple[float, int, bool]]] = [[] for _ in range(env.count)]
    while any(len(done) < share for done, share in zip(finished, quota, strict=True)):
        if interrupted():
            raise KeyboardInterrupt
        noise = None if deterministic else agent.distribution.noise(rng, (env.count,))
        actions, _ = agent.act(x, noise, env.masks(), memory)
        step = env.step(actions)
        x = step.observations
        returns += step.rewards
        lengths += alive
        memory[~alive] = 0  # after a dead step an episode begins
        alive = ~step.ends_episode
        too_long = alive & (lengths >= limit)
        for i in np.flatnonzero(step.ends_episode | too_long):
            finished[i].append((float(returns[i]), int(lengths[i]), bool(too_long[i])))
            returns[i], lengths[i] = 0.0, 0
        if too_long.any():
            x, memory[too_long] = env.restart(too_long), 0
    kept = [episode for done, share in zip(finished, quota, strict=True) for episode in done[:share]]
    cut = sum(is_cut for _, _, is_cut in kept)
    return Evaluation([r for r, _, _ in kept], [n for _, n, _ in kept], deterministic, cut, limit)
