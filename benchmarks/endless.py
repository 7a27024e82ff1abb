"""An environment for `soak.py`: one episode that never ends."""

from typing import Any

import gymnasium as gym
import numpy as np


class Endless(gym.Env[Any, Any]):
    """A ball on a ring is pushed left or right, and pays most at the top. Its seed and the actions decide where it is:
    the episode can be played again."""

    def __init__(self) -> None:
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.angle = float(self.np_random.uniform(-np.pi, np.pi))
        return self._observe(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.angle += 0.2 * (2 * int(action) - 1) + 0.1 * float(self.np_random.normal())
        return self._observe(), float(np.cos(self.angle)), False, False, {}

    def _observe(self) -> Any:
        return np.array([np.cos(self.angle), np.sin(self.angle)], np.float32)
