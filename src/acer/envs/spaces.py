"""From Gymnasium's spaces to the learner's arrays and back.

Observations become one float32 vector, or one channels-first image; actions are an index, or a vector in [−1, 1].
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from acer.errors import EnvironmentFault, SettingsError

SMALLEST_IMAGE = 36  # pixels a side that the paper's three convolutions need


@dataclass(frozen=True)
class ObservationSpec:
    """How raw observations of `space` become arrays of `shape` and `dtype`."""

    space: gym.Space[Any]

    def __post_init__(self) -> None:
        _check_supported(self.space, "observation")

    @cached_property
    def is_image(self) -> bool:
        """Three dimensions, or two of bytes."""
        shape = self.space.shape if isinstance(self.space, spaces.Box) else ()
        return len(shape or ()) == 3 or (len(shape or ()) == 2 and self.space.dtype == np.uint8)

    @property
    def is_pixels(self) -> bool:
        """Images, or bytes of any shape: scaled by their range; one mean and deviation serves all of them."""
        return self.is_image or self.dtype == np.uint8

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Bytes stay bytes (a quarter of the memory); all else is float32."""
        is_bytes = isinstance(self.space, spaces.Box) and self.space.dtype == np.uint8
        return np.dtype(np.uint8 if is_bytes else np.float32)

    @cached_property
    def channels_last(self) -> bool:
        shape = self.space.shape or ()
        return self.is_image and len(shape) == 3 and shape[-1] < shape[0]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """(n,) for vectors, (channels, height, width) for images."""
        if not self.is_image:
            return (_flat_size(self.space),)
        shape = tuple(self.space.shape or ())
        if len(shape) == 2:
            return (1, *shape)
        return (shape[2], shape[0], shape[1]) if self.channels_last else shape

    def encode(self, raw: Any, count: int) -> NDArray[Any]:
        """A batch of `count` raw observations, as Gymnasium's vector environments give them, to [count, *shape]."""
        if not self.is_image:
            return _flatten(self.space, raw, count).astype(self.dtype, copy=False)
        images = _checked(self.space, raw, count).astype(self.dtype, copy=False)
        if self.channels_last:
            images = np.ascontiguousarray(np.moveaxis(images, -1, 1))
        return images.reshape(count, *self.shape)

    def describe(self) -> str:
        """What a saved model remembers of it."""
        return f"{self.dtype}{list(self.shape)}"

    def check(self, raw: Any) -> None:
        """Refuses what is neither one observation nor a batch of them, and numbers that are not finite."""
        _check_part(self.space, raw, "")

    def holds(self, raw: Any) -> bool:
        """Whether `raw` is one observation rather than a batch of them."""
        space, value = self.space, raw
        while isinstance(space, spaces.Dict | spaces.Tuple):
            key = next(iter(space.spaces)) if isinstance(space, spaces.Dict) else 0
            space, value = space[key], value[key]  # type: ignore[index]
        return np.ndim(value) == len(space.shape or ())

    def encode_one(self, raw: Any) -> NDArray[Any]:
        """One raw observation to [1, *shape]."""
        return self.encode(_batched(self.space, raw), 1)


@dataclass(frozen=True)
class ActionSpec:
    """How the policy's actions become actions of `space`."""

    space: gym.Space[Any]

    def __post_init__(self) -> None:
        space = self.space
        if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
            return
        if not isinstance(space, spaces.Box):
            raise EnvironmentFault(
                f"action space {space} is not supported; "
                "acer needs Discrete, MultiDiscrete, MultiBinary or a bounded Box"
            )
        if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
            raise EnvironmentFault(
                f"action space {space} has no finite bounds; give it some that suit: gymnasium.wrappers.TransformAction"
                f"(env, lambda action: action, gymnasium.spaces.Box(-1, 1, {space.shape}, {space.dtype}))"
            )

    @property
    def continuous(self) -> bool:
        return isinstance(self.space, spaces.Box)

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Choices in each part of an action; none if actions are continuous."""
        if isinstance(self.space, spaces.Discrete):
            return (int(self.space.n),)
        if isinstance(self.space, spaces.MultiDiscrete):
            return tuple(int(n) for n in self.space.nvec.reshape(-1))
        return (2,) * int(np.prod(self.space.shape)) if isinstance(self.space, spaces.MultiBinary) else ()

    @property
    def size(self) -> int:
        """Number of choices in all parts together, or of dimensions."""
        return int(np.prod(self.space.shape or (1,))) if self.continuous else sum(self.parts)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one action of the policy: an index, or one for each part; or a vector."""
        if self.continuous:
            return (self.size,)
        return () if isinstance(self.space, spaces.Discrete) else (len(self.parts),)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float32 if self.continuous else np.int64)

    def describe(self) -> str:
        """What a saved model remembers of it."""
        if isinstance(self.space, spaces.Box):
            return f"box from {self.space.low.reshape(-1).tolist()} to {self.space.high.reshape(-1).tolist()}"
        return f"{' × '.join(map(str, self.parts))} choices"

    def takes(self, actions: NDArray[Any]) -> bool:
        """Whether decoded actions [N, …] are all of this space."""
        if isinstance(self.space, spaces.Discrete):
            inside = (actions >= self.space.start) & (actions < self.space.start + self.space.n)
            return actions.ndim == 1 and np.issubdtype(actions.dtype, np.integer) and bool(inside.all())
        shape = self.space.shape or ()
        if not self.continuous and len(actions):
            inside = actions.shape[1:] == shape and np.issubdtype(actions.dtype, np.integer)
            return bool(inside) and all(self.space.contains(one.astype(self.space.dtype)) for one in actions)
        return len(actions) == 0 or (actions.shape[1:] == shape and bool(np.isfinite(actions).all()))

    def decode(self, actions: NDArray[Any]) -> NDArray[Any]:
        """[B] or [B, d] indices, or [B, d] samples, to what the environment takes; here samples are clipped."""
        space = self.space
        if isinstance(space, spaces.Discrete):
            return actions + space.start if space.start else actions
        if not isinstance(space, spaces.Box):
            start = space.start if isinstance(space, spaces.MultiDiscrete) else 0
            of_space: NDArray[Any] = (actions.reshape(len(actions), *(space.shape or ())) + start).astype(space.dtype)
            return of_space
        unit = np.maximum(np.minimum(actions, 1), -1).reshape(len(actions), *space.shape)
        low, half = self._range
        scaled: NDArray[Any] = low + (unit.astype(np.float64) + 1) * half
        if np.issubdtype(space.dtype, np.integer):
            scaled = np.rint(scaled)
        inside: NDArray[Any] = np.maximum(np.minimum(scaled.astype(space.dtype), space.high), space.low)
        return inside  # clipped once more, for rounding may leave the bounds

    @cached_property
    def _range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The bounds' lower end, and half of what lies between them."""
        assert isinstance(self.space, spaces.Box)
        low, high = self.space.low.astype(np.float64), self.space.high.astype(np.float64)
        return low, (high - low) / 2


def _check_supported(space: gym.Space[Any], what: str) -> None:
    if isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            _check_supported(part, what)
    elif isinstance(space, spaces.Tuple):
        for part in space.spaces:
            _check_supported(part, what)
    elif isinstance(space, spaces.Box):
        if space.dtype is not None and np.issubdtype(space.dtype, np.complexfloating):
            raise EnvironmentFault(f"{what} space {space} has complex numbers, which acer does not support")
    elif not isinstance(space, spaces.Discrete | spaces.MultiBinary | spaces.MultiDiscrete):
        raise EnvironmentFault(
            f"{what} space {space} is not supported; acer takes Box, Discrete, MultiBinary, MultiDiscrete, "
            "and Dict or Tuple of those"
        )


def _check_part(space: gym.Space[Any], raw: Any, where: str) -> None:
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in parts:
            try:
                value = raw[key]
            except (KeyError, IndexError, TypeError):
                raise SettingsError(f"the observation has no part {key!r}; the environment's is {space}") from None
            _check_part(part, value, f"{where}[{key!r}]")
        return
    try:
        array = np.asarray(raw)
    except ValueError:
        raise SettingsError(f"observation{where} is not one array: {raw!r:.80}") from None
    if array.dtype.kind not in "biuf":
        raise SettingsError(f"observation{where} holds no numbers: {raw!r:.80}")
    shape = space.shape or ()
    if array.shape[array.ndim - len(shape) :] != shape or array.ndim - len(shape) not in (0, 1):
        wanted = f"{shape}, or (n, {', '.join(map(str, shape))})" if shape else "(), or (n,)"
        raise SettingsError(f"observation{where} has shape {array.shape}; the environment's has {wanted}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise SettingsError(f"observation{where} has NaN or infinity")


def _flat_size(space: gym.Space[Any]) -> int:
    return int(spaces.flatdim(space))


def _flatten(space: gym.Space[Any], raw: Any, count: int) -> NDArray[Any]:
    """A batch of values of `space` to [count, n]; discrete values become one-hot."""
    if isinstance(space, spaces.Dict):
        return np.concatenate([_flatten(part, raw[key], count) for key, part in space.spaces.items()], axis=1)
    if isinstance(space, spaces.Tuple):
        return np.concatenate([_flatten(part, raw[i], count) for i, part in enumerate(space.spaces)], axis=1)
    if isinstance(space, spaces.Discrete):
        return _one_hot(space, np.asarray(raw, dtype=np.int64).reshape(count) - int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        values = np.asarray(raw, dtype=np.int64).reshape(count, -1) - space.start.reshape(-1)
        parts = [_one_hot(space, values[:, i], int(n)) for i, n in enumerate(space.nvec.reshape(-1))]
        return np.concatenate(parts, axis=1)
    return _checked(space, raw, count).reshape(count, -1)


def _one_hot(space: gym.Space[Any], values: NDArray[np.int64], n: int) -> NDArray[np.float32]:
    if ((values < 0) | (values >= n)).any():
        raise EnvironmentFault(f"an observation that is not in the space that the environment declares, {space}")
    encoded = np.zeros((len(values), n), np.float32)
    encoded[np.arange(len(values)), values] = 1
    return encoded


def _checked(space: gym.Space[Any], raw: Any, count: int) -> NDArray[Any]:
    """The batch as an array, which must have the shape that the space declares."""
    array = np.asarray(raw)
    if array.shape != (count, *(space.shape or ())):
        raise EnvironmentFault(f"observations of shape {array.shape[1:]} where the space declares {space.shape}")
    return array


def _batched(space: gym.Space[Any], raw: Any) -> Any:
    """One value of `space` to a batch of one."""
    if isinstance(space, spaces.Dict):
        return {key: _batched(part, raw[key]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_batched(part, raw[i]) for i, part in enumerate(space.spaces))
    return np.asarray(raw)[None]
