"""Replay: a memory of trajectories, compressed, with exactly what went in coming out.

Each trajectory of one environment is a unit. Its observations, by far the largest part, are one LZ4 block; the rest
are rows of plain arrays. A capacity in steps per environment holds capacity // k trajectories of each; then the
oldest are overwritten.

Images are often stacks of the last frames, oldest first: then each frame is stored once. Where a stack is not the one
before it moved on by a frame (at an episode's beginning, or because the environment does not stack), it is stored
whole, so nothing has to be known about the environment.
"""

from itertools import pairwise
from typing import Any

import lz4.block
import numpy as np
from numpy.typing import NDArray

from acer.errors import CheckpointError
from acer.learner.rollout import FIELDS, OPTIONAL, Trajectory


class Replay:
    """The last trajectories of `environments` environments, sampled uniformly."""

    def __init__(self, capacity: int, length: int, environments: int) -> None:
        self.slots = max(1, capacity // length)
        self.environments = environments
        self.added = 0  # calls of `add` so far; the next slot is added % slots
        self._blocks: list[bytes] = []  # index: slot · environments + environment
        self._moved = np.zeros((0, length), np.bool_)  # [rows, T]: x_{t+1} is x_t moved on by one frame
        self._plain: dict[str, NDArray[Any]] = {}  # each [slots · environments, T, …]
        self._shape: tuple[int, ...] = ()
        self._dtype: np.dtype[Any] = np.dtype(np.float32)

    def __len__(self) -> int:
        """Trajectories stored."""
        return len(self._blocks)

    def add(self, trajectory: Trajectory) -> None:
        """Stores the B trajectories of one rollout, overwriting the oldest once full."""
        if not self._plain:
            self._allocate(trajectory)
        n = self.environments
        rows = slice((self.added % self.slots) * n, (self.added % self.slots + 1) * n)
        for name, array in self._plain.items():
            array[rows] = np.moveaxis(getattr(trajectory, name), 1, 0)
        moved = _moved_on(trajectory.observations)
        self._moved[rows] = moved
        self._blocks[rows] = [
            lz4.block.compress(_pack(trajectory.observations[:, i], moved[i]), store_size=False) for i in range(n)
        ]
        self.added += 1

    def sample(self, rng: np.random.Generator, count: int) -> Trajectory:
        """`count` trajectories, uniformly and with replacement."""
        return self._read(rng.integers(len(self._blocks), size=count))

    def sample_each(self, rng: np.random.Generator, environments: NDArray[np.int64]) -> Trajectory:
        """One trajectory of each of these environments, uniformly among its own."""
        slots = rng.integers(len(self._blocks) // self.environments, size=len(environments))
        return self._read(slots * self.environments + environments)

    def _read(self, picks: NDArray[np.int64]) -> Trajectory:
        observations = np.empty((self._shape[0], len(picks), *self._shape[1:]), self._dtype)
        for i, pick in enumerate(picks):
            self._unpack(pick, observations[:, i])
        plain = {name: np.moveaxis(array[picks], 0, 1) for name, array in self._plain.items()}
        return Trajectory(observations, **plain)

    def _unpack(self, row: int, out: NDArray[Any]) -> None:
        """Writes the observations [T+1, …] of one trajectory into `out`."""
        length, *single = self._shape
        newest = _newest_frames(self._moved[row], single[0]) if len(single) == 3 else None
        frame = single if newest is None else single[1:]
        count = length if newest is None else int(newest[-1]) + 1
        size = count * int(np.prod(frame)) * self._dtype.itemsize
        raw = lz4.block.decompress(self._blocks[row], uncompressed_size=size)
        frames = np.frombuffer(raw, self._dtype).reshape(count, *frame)
        if newest is None:
            out[:] = frames
            return
        for image, last in zip(out, newest, strict=True):
            image[:] = frames[last + 1 - len(image) : last + 1]

    def state(self) -> tuple[dict[str, NDArray[Any]], list[bytes]]:
        """The whole memory: copies of the plain arrays, and the compressed blocks."""
        filled = len(self._blocks)
        sizes = np.array([len(block) for block in self._blocks], np.int64)
        arrays = {"added": np.array([self.added]), "block_sizes": sizes, "moved": self._moved[:filled].copy()}
        return arrays | {name: array[:filled].copy() for name, array in self._plain.items()}, list(self._blocks)

    def restore(
        self,
        arrays: dict[str, NDArray[Any]],
        blocks: bytes,
        layout: dict[str, tuple[tuple[int, ...], np.dtype[Any]]],
    ) -> None:
        """Takes over what `state` gave, its blocks joined, if it fits: layout has shape and dtype of one environment's
        part of each of a trajectory's fields."""
        if arrays.keys() == {"added", "block_sizes", "moved"} and not len(arrays["block_sizes"]) and not blocks:
            return
        plain = [name for name in layout if name != "observations"]
        for name in sorted(arrays.keys() ^ {"added", "block_sizes", "moved", *plain}):
            raise CheckpointError(f"the replay memory {'has an unknown' if name in arrays else 'lacks'} {name}")
        rows, length = len(arrays["block_sizes"]), layout["actions"][0][0]
        expected = {name: ((rows, *layout[name][0]), layout[name][1]) for name in plain}
        expected |= {"added": ((1,), np.dtype(np.int64)), "block_sizes": ((rows,), np.dtype(np.int64)),
                     "moved": ((rows, length), np.dtype(np.bool_))}  # fmt: skip
        for name, (shape, dtype) in expected.items():
            if arrays[name].shape != shape or arrays[name].dtype != dtype:
                found = f"{arrays[name].dtype}{list(arrays[name].shape)}"
                raise CheckpointError(f"the replay memory's {name} is {found}, not {dtype}{list(shape)}")
        added, sizes = int(arrays["added"][0]), arrays["block_sizes"]
        if added < 1 or rows != min(added, self.slots) * self.environments:
            raise CheckpointError(f"the replay memory has {rows} trajectories where {added} additions give others")
        if (sizes < 0).any() or sizes.sum() != len(blocks):
            raise CheckpointError("the replay memory's blocks are not as long as it says")
        self._shape, self._dtype = layout["observations"]
        self.added = added
        self._moved, self._plain = self._rows((length,), np.dtype(np.bool_)), {}
        self._moved[:rows] = arrays["moved"]
        for name in plain:
            self._plain[name] = self._rows(arrays[name].shape[1:], arrays[name].dtype)
            self._plain[name][:rows] = arrays[name]
        ends = np.cumsum(sizes).tolist()
        self._blocks = [blocks[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        trial = np.empty(self._shape, self._dtype)
        for row in range(rows):
            try:
                self._unpack(row, trial)
                if not np.isfinite(trial).all():
                    raise ValueError("observations that are not finite")
            except (lz4.block.LZ4BlockError, ValueError) as error:
                raise CheckpointError(f"the replay memory's block {row} is damaged: {error}") from None

    def _allocate(self, trajectory: Trajectory) -> None:
        observations = trajectory.observations
        self._shape, self._dtype = (observations.shape[0], *observations.shape[2:]), observations.dtype
        self._moved = self._rows((observations.shape[0] - 1,), np.dtype(np.bool_))
        for name in (*FIELDS[1:], *OPTIONAL):
            array: NDArray[Any] | None = getattr(trajectory, name)
            if array is not None:
                self._plain[name] = self._rows((array.shape[0], *array.shape[2:]), array.dtype)

    def _rows(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.zeros((self.slots * self.environments, *shape), dtype)


def _moved_on(observations: NDArray[Any]) -> NDArray[np.bool_]:
    """[B, T]: whether x_{t+1} is x_t moved on by one frame, for images [T+1, B, C, h, w]; False for all else."""
    if observations.ndim != 5:
        return np.zeros((observations.shape[1], observations.shape[0] - 1), np.bool_)
    return np.array(
        [[np.array_equal(new[:-1], old[1:]) for old, new in pairwise(observations[:, i])]
         for i in range(observations.shape[1])]
    )  # fmt: skip


def _pack(observations: NDArray[Any], moved: NDArray[np.bool_]) -> NDArray[Any]:
    """Observations [T+1, …] of one trajectory without what they repeat."""
    if observations.ndim != 4:
        return np.ascontiguousarray(observations)
    parts = [x[-1:] if repeats else x for x, repeats in zip(observations[1:], moved, strict=True)]
    return np.concatenate([observations[0], *parts])


def _newest_frames(moved: NDArray[np.bool_], channels: int) -> NDArray[np.int64]:
    """[T+1]: where `_pack` put the newest frame of each image."""
    return channels - 1 + np.concatenate(([0], np.cumsum(np.where(moved, 1, channels))))
