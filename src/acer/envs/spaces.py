"""From Gymnasium's spaces to the learner's arrays and back.

Observations become one float32 vector, or one channels-first image; actions are an index, or a vector in [−1, 1].

An observation of several parts becomes an image if there is one among them: images of one size are its channels, and
each number of the other parts is a channel that has the same value everywhere. Parts that are no numbers are left out.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from acer.errors import EnvironmentFault, SettingsError

NUMBERS = (spaces.Box, spaces.Discrete, spaces.MultiBinary, spaces.MultiDiscrete)
SMALLEST_IMAGE = 5  # pixels a side that convolutions are made for

Path = tuple[Any, ...]  # keys that lead to a part of an observation


@dataclass(frozen=True)
class ObservationSpec:
    """How raw observations of `space` become arrays of `shape` and `dtype`."""

    space: gym.Space[Any]

    def __post_init__(self) -> None:
        if not self.parts:
            raise EnvironmentFault(
                f"observation space {self.space} is not supported; acer takes Box, Discrete, MultiBinary, "
                "MultiDiscrete, and Dict or Tuple of those"
            )

    @cached_property
    def parts(self) -> tuple[tuple[Path, gym.Space[Any]], ...]:
        """The parts that are numbers, and where they are."""
        return tuple(_parts(self.space, ()))

    @cached_property
    def left_out(self) -> tuple[str, ...]:
        """What is no numbers."""
        return tuple(_words(self.space, ""))

    @cached_property
    def is_image(self) -> bool:
        """Whether there are images, all of one size."""
        return len({image_shape(space)[1:] for _, space in self.parts if is_image(space)}) == 1

    @property
    def is_pixels(self) -> bool:
        """Images, or bytes of any shape: scaled by their range; one mean and deviation serves all of them."""
        return self.dtype == np.uint8 or (self.is_image and len(self.parts) == 1)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Bytes stay bytes (a quarter of the memory), also with choices beside them; all else is float32."""
        spaces_ = [space for _, space in self.parts]
        if not self.is_image:
            return np.dtype(np.uint8 if len(spaces_) == 1 and _is_bytes(self.space) else np.float32)
        bytes_ = all(_is_bytes(space) or not isinstance(space, spaces.Box) for space in spaces_)
        return np.dtype(np.uint8 if bytes_ else np.float32)

    @property
    def channels_last(self) -> bool:
        """Whether it is one image that comes so."""
        return self.is_image and len(self.parts) == 1 and channels_last(self.space)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """(n,) for vectors, (channels, height, width) for images."""
        if not self.is_image:
            return (sum(int(spaces.flatdim(space)) for _, space in self.parts),)
        channels = sum(image_shape(space)[0] if is_image(space) else int(spaces.flatdim(space))
                       for _, space in self.parts)  # fmt: skip
        return (channels, *self._size)

    @cached_property
    def _size(self) -> tuple[int, ...]:
        """Height and width."""
        return next(image_shape(space)[1:] for _, space in self.parts if is_image(space))

    def encode(self, raw: Any, count: int) -> NDArray[Any]:
        """A batch of `count` raw observations, as Gymnasium's vector environments give them, to [count, *shape]."""
        return self._encode([_at(raw, path) for path, _ in self.parts], count)

    def encode_one(self, raw: Any) -> NDArray[Any]:
        """One raw observation to [1, *shape]."""
        return self._encode([np.asarray(_at(raw, path))[None] for path, _ in self.parts], 1)

    def _encode(self, values: list[Any], count: int) -> NDArray[Any]:
        """A batch of each part to [count, *shape]."""
        spaces_ = [space for _, space in self.parts]
        turn = self._channels if self.is_image else _flat
        encoded = [turn(space, value, count) for space, value in zip(spaces_, values, strict=True)]
        whole = encoded[0] if len(encoded) == 1 else np.concatenate(encoded, axis=1)
        return whole.astype(self.dtype, copy=False)

    def _channels(self, space: gym.Space[Any], raw: Any, count: int) -> NDArray[Any]:
        """One part of an image: [count, channels, height, width]."""
        bytes_become_fractions = self.dtype != np.uint8 and len(self.parts) > 1
        if is_image(space):
            images = _checked(space, raw, count)
            if channels_last(space):
                images = np.ascontiguousarray(np.moveaxis(images, -1, 1))
            images = images.reshape(count, *image_shape(space))
            return np.float32(1 / 255) * images if bytes_become_fractions and _is_bytes(space) else images
        flat = _flat(space, raw, count)
        if self.dtype == np.uint8 and not _is_bytes(space):
            flat = np.where(flat, np.uint8(255), np.uint8(0))  # of choices: 0 or 1, as the network sees bytes
        return np.broadcast_to(flat[:, :, None, None], (*flat.shape, *self._size))

    def describe(self) -> str:
        """What a saved model remembers of it."""
        return f"{self.dtype}{list(self.shape)}"

    def check(self, raw: Any) -> None:
        """Refuses what is neither one observation nor a batch of them, and numbers that are not finite."""
        for path, space in self.parts:
            where = "".join(f"[{key!r}]" for key in path)
            try:
                value = _at(raw, path)
            except (KeyError, IndexError, TypeError):
                raise SettingsError(
                    f"the observation has no part {path[-1]!r}; the environment's is {self.space}"
                ) from None
            _check_part(space, value, where)

    def holds(self, raw: Any) -> bool:
        """Whether `raw` is one observation rather than a batch of them."""
        path, space = self.parts[0]
        return np.ndim(_at(raw, path)) == len(space.shape or ())

    def count(self, raw: Any) -> int:
        """How many observations a batch has."""
        return len(_at(raw, self.parts[0][0]))


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
                f"(env, lambda action: action, gymnasium.spaces.Box(-1, 1, {space.shape}, '{space.dtype}'))"
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


def _parts(space: gym.Space[Any], path: Path) -> Iterator[tuple[Path, gym.Space[Any]]]:
    """The parts of a space that are numbers."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in _members(space):
            yield from _parts(part, (*path, key))
    elif isinstance(space, NUMBERS):
        if isinstance(space, spaces.Box) and np.issubdtype(space.dtype or np.float32, np.complexfloating):
            raise EnvironmentFault(f"observation space {space} has complex numbers, which acer does not support")
        yield path, space


def _words(space: gym.Space[Any], where: str) -> Iterator[str]:
    """The parts that are none, as people write them."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        for key, part in _members(space):
            yield from _words(part, f"{where}[{key!r}]" if where else str(key))
    elif not isinstance(space, NUMBERS):
        yield f"{where} ({type(space).__name__})"


def only_numbers(space: gym.Space[Any]) -> gym.Space[Any]:
    """A space without its parts that are no numbers; the same if it has none."""
    if not isinstance(space, spaces.Dict | spaces.Tuple) or not list(_words(space, "")):
        return space
    kept = {key: only_numbers(part) for key, part in _members(space) if list(_parts(part, ()))}
    return spaces.Dict(OrderedDict(kept)) if isinstance(space, spaces.Dict) else spaces.Tuple(list(kept.values()))


def numbers_of(space: gym.Space[Any], raw: Any) -> Any:
    """An observation of `space` as `only_numbers` has it."""
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return raw
    kept = {key: numbers_of(part, raw[key]) for key, part in _members(space) if list(_parts(part, ()))}
    return kept if isinstance(space, spaces.Dict) else tuple(kept.values())


def _members(space: "spaces.Dict | spaces.Tuple[Any]") -> list[tuple[Any, gym.Space[Any]]]:
    return list(space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))


def _at(raw: Any, path: Path) -> Any:
    for key in path:
        raw = raw[key]
    return raw


def _is_bytes(space: gym.Space[Any]) -> bool:
    return isinstance(space, spaces.Box) and space.dtype == np.uint8


def is_image(space: gym.Space[Any]) -> bool:
    """Three dimensions, or two of bytes."""
    dimensions = len(space.shape or ()) if isinstance(space, spaces.Box) else 0
    return dimensions == 3 or (dimensions == 2 and _is_bytes(space))


def channels_last(space: gym.Space[Any]) -> bool:
    """Whether an image's channels are its last dimension: two that are equal are height and width, otherwise channels
    are few. Of a cube they are the last, as Gymnasium has it."""
    shape = space.shape or ()
    if len(shape) != 3:
        return False
    first, last = shape[1] == shape[2], shape[0] == shape[1]
    return last if first != last else shape[-1] <= shape[0]


def image_shape(space: gym.Space[Any]) -> tuple[int, ...]:
    """Channels, height, width."""
    shape = tuple(space.shape or ())
    if len(shape) == 2:
        return (1, *shape)
    return (shape[2], shape[0], shape[1]) if channels_last(space) else shape


def _check_part(space: gym.Space[Any], raw: Any, where: str) -> None:
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


def _flat(space: gym.Space[Any], raw: Any, count: int) -> NDArray[Any]:
    """A batch of values of one part to [count, n]; discrete values become one-hot."""
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
