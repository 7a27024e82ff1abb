"""A batch of environments that step together, in this process or in worker processes.

Episodes end by Gymnasium's NEXT_STEP rule: the observation at an episode's end is the true last one, and the step
after it is dead: its action is ignored, it pays 0 and returns the next episode's first observation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from acer.envs.spaces import ActionSpec, ObservationSpec
from acer.errors import EnvironmentFault


@dataclass(frozen=True)
class Step:
    """What one step of the batch gave; all arrays are [B, …]."""

    observations: NDArray[Any]
    rewards: NDArray[np.float32]  # raw
    ends_return: NDArray[np.bool_]  # no reward after this one counts: discount 0
    ends_episode: NDArray[np.bool_]  # the next step is dead


class EnvBatch:
    """Vectorised environments behind the learner's contract: encoded observations, finite numbers, unit actions."""

    def __init__(self, env: gym.vector.VectorEnv[Any, Any, Any], name: str) -> None:
        if env.metadata.get("autoreset_mode") != AutoresetMode.NEXT_STEP:
            raise EnvironmentFault(f"{name}: vector environments must reset by the NEXT_STEP rule")
        self.env, self.name = env, name
        self.count = env.num_envs
        self.observation = ObservationSpec(env.single_observation_space)
        self.action = ActionSpec(env.single_action_space)
        self._steps = 0
        self._dead = np.zeros(self.count, np.bool_)

    @classmethod
    def of(cls, makers: list[Callable[[], gym.Env[Any, Any]]], name: str, workers: bool) -> "EnvBatch":
        """In-process, or one worker process each: worth it when one step takes longer than a message (about 50 µs)."""
        if workers:
            env: gym.vector.VectorEnv[Any, Any, Any] = AsyncVectorEnv(
                makers, context="forkserver", autoreset_mode=AutoresetMode.NEXT_STEP
            )
        else:
            env = SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.NEXT_STEP)
        return cls(env, name)

    def reset(self, seeds: list[int]) -> NDArray[Any]:
        """Begins a new episode everywhere; each environment has a seed of its own."""
        self._dead[:] = False
        with self._named("reset"):
            observations = self._encode(self._reset(seeds))
        self._check(observations, np.zeros(self.count, np.float32))
        return observations

    def restart(self, which: NDArray[np.bool_]) -> NDArray[Any]:
        """Begins a new episode in some environments; returns the observations of all."""
        return self._encode(self._reset(None, {"reset_mask": which.copy()}))

    def step(self, actions: NDArray[Any]) -> Step:
        """actions: [B] indices, or [B, d] unclipped samples in the unit range."""
        self._steps += 1
        with self._named("step"):
            raw, rewards, terminated, truncated, info = self.env.step(self.action.decode(actions))
            rewards = np.where(self._dead, 0, rewards).astype(np.float32)
            observations = self._encode(raw)
        self._check(observations, rewards)
        ends_return = self._ends_return(terminated, info)
        self._dead = terminated | truncated
        return Step(observations, rewards, ends_return, self._dead)

    def close(self) -> None:
        self.env.close()

    def _reset(self, seeds: list[int] | None, options: dict[str, Any] | None = None) -> Any:
        return self.env.reset(seed=seeds, options=options)[0]  # type: ignore[arg-type]

    def _ends_return(self, terminated: NDArray[np.bool_], info: dict[str, Any]) -> NDArray[np.bool_]:
        return terminated.copy()

    @contextmanager
    def _named(self, what: str) -> Iterator[None]:
        """Whatever the user's environment raises, said in one line; the cause stays attached."""
        try:
            yield
        except EnvironmentFault as error:
            raise EnvironmentFault(f"{self.name}: {what} {self._steps}: {error}") from error
        except Exception as error:
            reason = " ".join(str(error).split()) or "no message"
            message = f"{self.name}: {what} {self._steps} raised {type(error).__name__}: {reason}"
            raise EnvironmentFault(message) from error

    def _encode(self, raw: Any) -> NDArray[Any]:
        """Arrays of our own: the environments write the next observations over these."""
        return np.array(self.observation.encode(raw, self.count))

    def _check(self, observations: NDArray[Any], rewards: NDArray[np.float32]) -> None:
        for what, values in (("observation", observations), ("reward", rewards)):
            if values.dtype != np.uint8 and not np.isfinite(values).all():
                index = int(np.argmin(np.isfinite(values).reshape(self.count, -1).all(1)))
                raise EnvironmentFault(
                    f"{self.name}: environment {index} gave a {what} with NaN or infinity at step {self._steps}; "
                    "mend the environment"
                )
