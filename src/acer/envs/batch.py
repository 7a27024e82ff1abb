"""A batch of environments that step together, in this process or in worker processes.

Episodes end by Gymnasium's NEXT_STEP rule: the observation at an episode's end is the true last one, and the step
after it is dead: its action is ignored, it pays 0 and returns the next episode's first observation.
"""

import math
import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from types import FrameType
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from numpy.typing import NDArray

from acer.console import warn
from acer.envs.episodes import Replayable
from acer.envs.guests import House, hosted, is_ours
from acer.envs.spaces import ActionSpec, ObservationSpec
from acer.errors import EnvironmentFault, described

CLOSING = 10.0  # seconds that environments have to end
SHORTEST = 0.01  # seconds; with a shorter limit a process would do nothing but answer its alarms


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
        self.busy_since = math.inf  # when the step or reset began that is being waited for
        self.env, self.name = env, name
        self.count = env.num_envs
        self.observation = ObservationSpec(env.single_observation_space)
        self.action = ActionSpec(env.single_action_space)
        self.masked = False  # whether the environments say which choices are legal
        self.limit = 0.0  # seconds that a step or reset may take; 0 for any
        self._steps = 0
        self.broken = False  # an environment has failed: none of them can be trusted any more
        self._dead = np.zeros(self.count, np.bool_)

    @classmethod
    def of(cls, makers: list[Callable[[], gym.Env[Any, Any]]], name: str, workers: bool) -> "EnvBatch":
        """In-process, or one worker process each: worth it when one step takes longer than a message (about 0.1 ms)."""
        makers = [partial(_replayable, maker, index) for index, maker in enumerate(makers)]
        if workers:
            with hosted(f"{name}: a worker died while it made its environment"):
                env: gym.vector.VectorEnv[Any, Any, Any] = AsyncVectorEnv(
                    makers, context="forkserver", autoreset_mode=AutoresetMode.NEXT_STEP
                )
        else:
            with hosted(f"{name}: cannot make a batch"):
                env = SyncVectorEnv(makers, copy=False, autoreset_mode=AutoresetMode.NEXT_STEP)
        batch = cls(env, name)
        assert isinstance(env, SyncVectorEnv | AsyncVectorEnv)
        with batch._named("action_masks at step"):
            batch.masked = all(env.call("has_masks"))
        if batch.masked and batch.action.continuous:
            raise EnvironmentFault(f"{name} has action_masks, but its actions are continuous: masks are for choices")
        return batch

    def masks(self) -> NDArray[np.bool_] | None:
        """Which choices are legal now [B, n], in environments that say so; all of them where an episode is over and its
        environment leaves none."""
        if not self.masked:
            return None
        assert isinstance(self.env, SyncVectorEnv | AsyncVectorEnv)
        with self._named("action_masks at step"):
            masks: list[NDArray[np.bool_]] = list(self.env.call("legal"))
            ends = np.cumsum(self.action.parts)[:-1]
            for index, of in enumerate(masks):
                if of.shape != (self.action.size,):
                    raise EnvironmentFault(f"environment {index} masks {of.size} choices, but has {self.action.size}")
                if not all(part.any() for part in np.split(of, ends)):
                    if not self._dead[index]:
                        raise EnvironmentFault(f"environment {index} leaves no legal action; mend its action_masks")
                    masks[index] = np.ones_like(of)
        return np.stack(masks)

    def reset(self, seeds: list[int]) -> NDArray[Any]:
        """Begins a new episode everywhere; each environment has a seed of its own."""
        self._dead[:] = False
        with self._named("reset"):
            observations = self._encode(self._reset(seeds))
        self._check(observations, np.zeros(self.count, np.float32))
        return observations

    def restart(self, which: NDArray[np.bool_]) -> NDArray[Any]:
        """Begins a new episode in some environments; returns the observations of all."""
        self._dead[which] = False
        with self._named("reset"):
            observations = self._encode(self._reset(None, {"reset_mask": which.copy()}))
        self._check(observations, np.zeros(self.count, np.float32))
        return observations

    def step(self, actions: NDArray[Any]) -> Step:
        """actions: [B] indices, or [B, d] unclipped samples in the unit range."""
        self._steps += 1
        with self._named("step"):
            raw, rewards, terminated, truncated, info = self._step(self.action.decode(actions))
            rewards = np.where(self._dead, 0, rewards).astype(np.float32)
            observations = self._encode(raw)
        self._check(observations, rewards)
        ends_return = self._ends_return(terminated, info)
        self._dead = terminated | truncated
        return Step(observations, rewards, ends_return, self._dead)

    def state(self) -> dict[str, NDArray[Any]]:
        """Plain arrays from which `restore` can go on with every unfinished episode; none if that is impossible."""
        if self.broken or not isinstance(self.env, SyncVectorEnv | AsyncVectorEnv):
            return {}
        try:
            records = self.env.call("record")
        except Exception:  # worker processes that are gone
            self.broken = True
            return {}
        roots, episodes, actions = zip(*records, strict=True)
        return pack_episodes(roots, episodes, actions) | {"dead": self._dead.copy()}

    def restore(self, state: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Takes up the episodes that `state` gave; returns where they stand."""
        assert isinstance(self.env, SyncVectorEnv | AsyncVectorEnv)
        episodes = unpack_episodes(state)
        if len(episodes) != self.count or not self.action.takes(state["actions"]):
            raise ValueError("actions that the environment does not take")
        with self._named("replay of episodes at step", limited=False):
            self.env.set_attr("past", episodes)
            observations = [self.observation.encode_one(raw) for raw in self.env.call("replay")]
        self._dead = state["dead"].copy()
        return np.concatenate(observations)

    def close(self) -> None:
        """Ends the environments; one that fails at its end takes nothing with it."""
        if not self.broken:
            try:
                with hosted(f"{self.name}: close"), _alarm(CLOSING):
                    self.env.close()
                return
            except EnvironmentFault as error:
                warn(str(error))
        with suppress(Exception):
            self.env.close(**({"terminate": True} if isinstance(self.env, AsyncVectorEnv) else {}))
        self.env.closed = True
        for process in getattr(self.env, "processes", ()):
            process.kill()

    def _reset(self, seeds: list[int] | None, options: dict[str, Any] | None = None) -> Any:
        return self.env.reset(seed=seeds, options=options)[0]  # type: ignore[arg-type]

    def _step(self, actions: NDArray[Any]) -> Any:
        return self.env.step(actions)

    def _ends_return(self, terminated: NDArray[np.bool_], info: dict[str, Any]) -> NDArray[np.bool_]:
        return terminated.copy()

    @contextmanager
    def _named(self, what: str, limited: bool = True) -> Iterator[None]:
        """Whatever the user's environment raises, said in one line; the cause stays attached."""
        house = House()
        self.busy_since = time.monotonic()
        try:
            with _alarm(self.limit if limited else 0.0):
                yield
        except EnvironmentFault as error:
            self.broken = True
            raise EnvironmentFault(f"{self.name}: {what} {self._steps}: {error}") from error
        except BaseException as error:
            if is_ours(error):
                raise
            self.broken = True
            raise EnvironmentFault(f"{self.name}: {what} {self._steps} raised {described(error)}") from error
        finally:
            self.busy_since = math.inf
            house.tidy()

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


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Ends what takes longer. In the main thread only, and only where nobody else uses the alarm.

    The clock goes on while the process is stopped (Ctrl-Z): the first alarm leaves a tenth of the time to come back.
    """
    if seconds <= 0 or threading.current_thread() is not threading.main_thread() or not _alarm_is_ours():
        yield
        return
    if signal.getsignal(signal.SIGALRM) is not _hung:  # an environment has taken it since
        signal.signal(signal.SIGALRM, _hung)
    seconds = max(seconds, SHORTEST)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.9 * seconds, 0.1 * seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _alarms.clear()


@cache
def _alarm_is_ours() -> bool:
    """Takes the alarm, if there is one and nobody has; in the main thread."""
    if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        return False
    signal.signal(signal.SIGALRM, _hung)
    return True


_alarms: list[int] = []  # of the step that is being waited for


def _hung(number: int, frame: FrameType | None) -> None:
    _alarms.append(number)
    if len(_alarms) > 1:
        signal.setitimer(signal.ITIMER_REAL, 0)  # no third one: it could come while the second is answered
        raise TimeoutError("no answer within --step-limit")


def pack_episodes(roots: Any, episodes: Any, actions: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Unfinished episodes, one for each environment, as plain arrays."""
    lengths = np.array([len(of) for of in actions], np.int64)
    taken = [of for of in actions if len(of)]
    return {
        "roots": np.array(roots, np.int64),
        "episodes": np.array(episodes, np.int64),
        "lengths": lengths,
        "actions": np.concatenate(taken) if taken else np.zeros(0, np.int64),
    }


def unpack_episodes(state: dict[str, NDArray[Any]]) -> list[tuple[int, int, NDArray[Any]]]:
    """Root, number and actions of each environment's unfinished episode."""
    lengths = state["lengths"]
    if (lengths < 0).any() or lengths.sum() != len(state["actions"]):
        raise ValueError("episodes are not as long as they say")
    parts = np.split(state["actions"], np.cumsum(lengths)[:-1])
    roots, episodes = state["roots"].tolist(), state["episodes"].tolist()
    return list(zip(roots, episodes, parts, strict=True))


def _replayable(maker: Callable[[], gym.Env[Any, Any]], index: int) -> gym.Env[Any, Any]:
    if multiprocessing.parent_process() is not None:  # they are for the run, which ends its workers in order
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    return Replayable(maker(), index)
