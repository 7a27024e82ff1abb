"""What there is to know of a family of environments, in one declaration. `registry` lists the families."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from acer.envs.batch import EnvBatch


class Pictures(Protocol):
    """A second environment that shows what the first does, for the same seed and actions."""

    fps: float

    def reset(self, seed: int) -> list[NDArray[np.uint8]]: ...

    def step(self, action: NDArray[Any]) -> list[NDArray[np.uint8]]:
        """Frames [height, width, 3] since the last step."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class Family:
    """Environments that are named, made and trained alike."""

    knows: Callable[[str], bool]  # whether a name is one of the family's
    preset: Callable[[str], str]
    make: Callable[..., gym.Env[Any, Any]] | None = None  # one: (name, **kwargs); without it there are batches only
    batch: Callable[..., EnvBatch] | None = None  # many, which step in threads: (name, count, threads, **options)
    names: Callable[[], list[str]] = list  # what `acer envs` lists
    options: tuple[str, ...] = ()  # settings that environments are made with
    canonical: Callable[[str], str] = str  # of several names of the same environment, the one that a run keeps
    pictures: Callable[..., Pictures] | None = None  # (name, **options), where the environment does not render itself
    human_scores: bool = False  # `scores` has a human's
