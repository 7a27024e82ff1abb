"""Replay: a memory of trajectories, compressed, with exactly what went in coming out.

Each trajectory of one environment is a unit. Its observations, by far the largest part, are one LZ4 block; the rest
are rows of plain arrays. A capacity in frames per environment holds capacity // k trajectories of each; then the
oldest are overwritten.
"""

from typing import Any

import lz4.block
import numpy as np
from numpy.typing import NDArray

from acer.errors import CheckpointError
from acer.rollout import FIELDS, Trajectory

PLAIN = FIELDS[1:]  # everything but the observations


class Replay:
    """The last trajectories of `environments` environments, sampled uniformly."""

    def __init__(self, capacity: int, length: int, environments: int) -> None:
        self.slots = max(1, capacity // length)
        self.environments = environments
        self.added = 0  # calls of `add` so far; the next slot is added % slots
        self.steps = 0  # live steps stored now
        self._blocks: list[bytes] = []  # index: slot · environments + environment
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
        if self.added >= self.slots:
            self.steps -= int(self._plain["live"][rows].sum())
        for name in PLAIN:
            self._plain[name][rows] = np.moveaxis(getattr(trajectory, name), 1, 0)
        blocks = [
            lz4.block.compress(np.ascontiguousarray(trajectory.observations[:, i]), store_size=False) for i in range(n)
        ]
        self._blocks[rows] = blocks
        self.steps += int(trajectory.live.sum())
        self.added += 1

    def sample(self, rng: np.random.Generator, count: int) -> Trajectory:
        """`count` trajectories, uniformly and with replacement."""
        picks = rng.integers(len(self._blocks), size=count)
        size = int(np.prod(self._shape)) * self._dtype.itemsize
        raw = b"".join([lz4.block.decompress(self._blocks[i], uncompressed_size=size) for i in picks])
        observations = np.frombuffer(bytearray(raw), self._dtype).reshape(count, *self._shape)
        return Trajectory(
            np.moveaxis(observations, 0, 1), *(np.moveaxis(self._plain[name][picks], 0, 1) for name in PLAIN)
        )

    def state(self) -> dict[str, NDArray[Any]]:
        """Plain arrays that hold the whole memory."""
        if not self._plain:
            return {}
        filled = len(self._blocks)
        return {
            "added": np.array([self.added]),
            "blocks": np.frombuffer(b"".join(self._blocks), np.uint8),
            "block_sizes": np.array([len(block) for block in self._blocks], np.int64),
            "observation_shape": np.array(self._shape, np.int64),
            "observation_is_bytes": np.array([self._dtype == np.uint8]),
            **{name: array[:filled] for name, array in self._plain.items()},
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Takes over what `state` gave."""
        if not state:
            return
        missing = {"added", "blocks", "block_sizes", "observation_shape", "observation_is_bytes", *PLAIN} - state.keys()
        if missing:
            raise CheckpointError(f"the replay memory lacks {', '.join(sorted(missing))}")
        ends = np.cumsum(state["block_sizes"]).tolist()
        blocks = state["blocks"].tobytes()
        self._blocks = [blocks[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
        self._shape = tuple(state["observation_shape"].tolist())
        self._dtype = np.dtype(np.uint8 if state["observation_is_bytes"][0] else np.float32)
        self._plain = {name: self._rows(state[name].shape[1:], state[name].dtype) for name in PLAIN}
        for name in PLAIN:
            self._plain[name][: len(self._blocks)] = state[name]
        self.added = int(state["added"][0])
        self.steps = int(state["live"].sum())

    def _allocate(self, trajectory: Trajectory) -> None:
        observations = trajectory.observations
        self._shape, self._dtype = (observations.shape[0], *observations.shape[2:]), observations.dtype
        for name in PLAIN:
            array: NDArray[Any] = getattr(trajectory, name)
            self._plain[name] = self._rows((array.shape[0], *array.shape[2:]), array.dtype)

    def _rows(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
        return np.zeros((self.slots * self.environments, *shape), dtype)
