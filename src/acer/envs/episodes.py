"""Episodes that can be played again: each has a seed of its own, and remembers its actions.

An environment whose randomness comes from its seed alone ends up in the same state when an episode's seed and actions
are given to it again. That is how an unfinished episode survives a resume.
"""

import os
import zlib
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from acer.envs.guests import is_ours
from acer.envs.spaces import numbers_of, only_numbers
from acer.errors import EnvironmentFault, in_one_line

MASKS = "action_masks"  # the method by which an environment says which choices are legal, as sb3-contrib has it
LONGEST = 1_000_000  # steps of an episode that can be played again; a longer one gives way to a new one
LARGEST = 16 << 20  # bytes that their actions may take in a checkpoint
PIECE = 1_024  # actions that are packed together: a list of arrays takes many times their size


class _Packed:
    """An array in little memory: a million choices take some 200 kB."""

    __slots__ = ("_bytes", "_dtype", "_shape")

    def __init__(self, array: NDArray[Any]) -> None:
        self._dtype, self._shape = array.dtype, array.shape
        self._bytes = zlib.compress(array.tobytes())

    def array(self) -> NDArray[Any]:
        return np.frombuffer(zlib.decompress(self._bytes), self._dtype).reshape(self._shape)


def _narrow(actions: NDArray[Any]) -> NDArray[Any]:
    """Choices in one byte each, if they fit: a checkpoint has all of them, and copies them a few times."""
    fits = actions.dtype.kind in "iu" and actions.size and actions.min() >= 0 and actions.max() <= 255
    return actions.astype(np.uint8) if fits else actions


class Actions:
    """The actions of an episode, or none of them if they are too many."""

    def __init__(self) -> None:
        self._pieces: list[_Packed] = []
        self._new: list[Any] = []
        self._count = self._bytes = 0

    def add(self, action: Any) -> None:
        self._count += 1
        if self.forgotten:
            self._pieces, self._new = [], []
            return
        self._new.append(np.array(action))
        if len(self._new) == PIECE:
            piece = _narrow(np.array(self._new))
            self._pieces.append(_Packed(piece))
            self._bytes += piece.nbytes
            self._new = []

    @property
    def forgotten(self) -> bool:
        return self._count > LONGEST or self._bytes > LARGEST

    def __len__(self) -> int:
        return self._count

    def array(self) -> NDArray[Any]:
        """All of them, in order; the dtype need not be that in which they were taken."""
        if self.forgotten:
            return np.zeros(0, np.int64)
        parts = [piece.array() for piece in self._pieces]
        return np.concatenate([*parts, _narrow(np.array(self._new))] if self._new or not parts else parts)


def seed_of(root: int, episode: int) -> int:
    """The seed of an environment's n-th episode; the first has the environment's own."""
    if episode == 0:
        return root
    return int(np.random.SeedSequence(root, spawn_key=(episode,)).generate_state(1)[0] >> 1)


class Replayable(gym.Wrapper[Any, Any, Any, Any]):
    """Gives each episode its own seed and keeps what is needed to play it again. Of observations it passes on what is
    numbers: Gymnasium's batches hold no others."""

    def __init__(self, env: gym.Env[Any, Any], index: int = 0) -> None:
        super().__init__(env)
        self._whole: gym.Space[Any] | None = None  # the space, if some parts of it are left out
        if only_numbers(env.observation_space) is not env.observation_space:
            self._whole, self.observation_space = env.observation_space, only_numbers(env.observation_space)
        self.index = index
        self.root, self.episode = 0, -1
        self.actions = Actions()
        self._pid = os.getpid()
        self.past: tuple[int, int, NDArray[Any]] | None = None  # set before `replay`
        self._over = False  # an episode that was over when it was saved: the next step begins a new one

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.root, self.episode = seed, 0
        else:
            self.episode += 1
        self.actions, self._over = Actions(), False
        try:
            given: tuple[Any, dict[str, Any]] = self._numbers(
                self.env.reset(seed=seed_of(self.root, self.episode), options=options)
            )
            return given
        except BaseException as error:
            raise self._fault(error, "the beginning") from error
        finally:
            self._end_fork()

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        if self._over:
            observation, info = self.reset()
            return observation, 0.0, False, False, info
        self.actions.add(action)
        try:
            given: tuple[Any, Any, bool, bool, dict[str, Any]] = self._numbers(self.env.step(action))
            return given
        except BaseException as error:
            raise self._fault(error, f"step {len(self.actions)}") from error
        finally:
            self._end_fork()

    def _numbers(self, given: Any) -> Any:
        """What the environment gave, an observation first."""
        if self._whole is None:
            return given
        return numbers_of(self._whole, given[0]), *given[1:]

    def has_masks(self) -> bool:
        """Whether the environment says which choices are legal."""
        return self.env.has_wrapper_attr(MASKS)

    def legal(self) -> NDArray[np.bool_]:
        """Which choices of each part of the next action are legal, one part after the other."""
        return np.asarray(self.env.get_wrapper_attr(MASKS)(), np.bool_).reshape(-1)

    def _fault(self, error: BaseException, where: str) -> BaseException:
        """What the environment raised, with its place; in a process of its own Ctrl-C does not come here."""
        if is_ours(error):
            return error
        where = f"environment {self.index} raised {type(error).__name__} at {where} of its episode"
        return EnvironmentFault(f"{where}: {in_one_line(error)}")

    def _end_fork(self) -> None:
        if os.getpid() != self._pid:  # the environment has forked, and this is the copy
            os._exit(0)

    def record(self) -> tuple[int, int, NDArray[Any]]:
        """Root of the seeds, number of the episode, actions so far; without those if they are too many: where the
        episode stands is then not where it is played to, and a new one begins."""
        return self.root, self.episode, self.actions.array()

    def replay(self) -> Any:
        """Plays `past` again and returns where it ends."""
        assert self.past is not None
        self.root, self.episode, actions = self.past
        observation, _ = self._numbers(self.env.reset(seed=seed_of(self.root, self.episode)))
        self.actions, self._over, self.past = Actions(), False, None
        for action in actions.astype(self.env.action_space.dtype):  # as it was taken
            observation, _, terminated, truncated, _ = self.step(action)
            self._over = bool(terminated or truncated)
        return observation
