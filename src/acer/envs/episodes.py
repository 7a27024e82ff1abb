"""Episodes that can be played again: each has a seed of its own, and remembers its actions.

An environment whose randomness comes from its seed alone ends up in the same state when an episode's seed and actions
are given to it again. That is how an unfinished episode survives a resume.
"""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from acer.errors import EnvironmentFault, in_one_line

MASKS = "action_masks"  # the method by which an environment says which choices are legal, as sb3-contrib has it
LONGEST = 200_000  # steps; of a longer episode the actions are forgotten, and a resume begins new ones


def seed_of(root: int, episode: int) -> int:
    """The seed of an environment's n-th episode; the first has the environment's own."""
    if episode == 0:
        return root
    return int(np.random.SeedSequence(root, spawn_key=(episode,)).generate_state(1)[0] >> 1)


class Replayable(gym.Wrapper[Any, Any, Any, Any]):
    """Gives each episode its own seed and keeps what is needed to play it again."""

    def __init__(self, env: gym.Env[Any, Any], index: int = 0) -> None:
        super().__init__(env)
        self.index = index
        self.root, self.episode = 0, -1
        self.actions: list[Any] = []
        self.past: tuple[int, int, NDArray[Any]] | None = None  # set before `replay`
        self._over = False  # an episode that was over when it was saved: the next step begins a new one

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.root, self.episode = seed, 0
        else:
            self.episode += 1
        self.actions, self._over = [], False
        return self.env.reset(seed=seed_of(self.root, self.episode), options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._over:
            observation, info = self.reset()
            return observation, 0.0, False, False, info
        if len(self.actions) <= LONGEST:
            self.actions.append(np.copy(action))
        try:
            return self.env.step(action)
        except Exception as error:
            where = f"environment {self.index} raised {type(error).__name__} at step {len(self.actions)} of its episode"
            raise EnvironmentFault(f"{where}: {in_one_line(error)}") from error

    def has_masks(self) -> bool:
        """Whether the environment says which choices are legal."""
        return self.env.has_wrapper_attr(MASKS)

    def legal(self) -> NDArray[np.bool_]:
        """Which choices of each part of the next action are legal, one part after the other."""
        return np.asarray(self.env.get_wrapper_attr(MASKS)(), np.bool_).reshape(-1)

    def record(self) -> tuple[int, int, NDArray[Any] | None]:
        """Root of the seeds, number of the episode, actions so far; None for those if they are too many."""
        return self.root, self.episode, np.array(self.actions) if len(self.actions) <= LONGEST else None

    def replay(self) -> Any:
        """Plays `past` again and returns where it ends."""
        assert self.past is not None
        self.root, self.episode, actions = self.past
        observation, _ = self.env.reset(seed=seed_of(self.root, self.episode))
        self.actions, self._over, self.past = [], False, None
        for action in actions:
            observation, _, terminated, truncated, _ = self.step(action)
            self._over = bool(terminated or truncated)
        return observation
