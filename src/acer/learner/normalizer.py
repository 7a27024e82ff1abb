"""Running statistics: mean and deviation of observations, size of the critic's errors."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Moments:
    """Count, mean and variance over everything seen, merged batch by batch (Chan et al.).

    pooled: all entries have one deviation, the root of their mean variance. For images: what hardly ever moves is
    taken away by the mean, and nothing is blown up because it is rare.
    """

    def __init__(self, shape: tuple[int, ...], pooled: bool = False) -> None:
        self.pooled = pooled
        self.count = 0.0
        self.mean = np.zeros(shape)
        self.variance = np.ones(shape)

    def add(self, values: NDArray[Any]) -> None:
        """values: [N, *shape]; bytes are parts of 255."""
        count = len(values)
        if count and values.dtype == np.uint8:
            mean = values.sum(0, dtype=np.uint64) / count
            square = np.square(values, dtype=np.uint16).sum(0, dtype=np.uint64) / count
            self.merge(count, mean / 255, (square - mean**2) / 255**2)
        elif count:
            self.merge(count, values.mean(0, dtype=np.float64), values.var(0, dtype=np.float64))

    def merge(self, count: float, mean: NDArray[np.float64], variance: NDArray[np.float64]) -> None:
        """Takes in `count` more values, of which mean and variance are known."""
        total = self.count + count
        shift = mean - self.mean
        squares = self.variance * self.count + variance * count + shift**2 * (self.count * count / total)
        self.mean = self.mean + shift * (count / total)
        self.variance = squares / total
        self.count = total

    @property
    def deviation(self) -> NDArray[np.float64]:
        """At least 1e-3 (0.01 for images): a constant entry stays at 0 instead of being blown up."""
        variance = np.full_like(self.variance, self.variance.mean()) if self.pooled else self.variance
        return np.maximum(np.sqrt(variance), 0.01 if self.pooled else 1e-3)

    def pack(self) -> NDArray[np.float64]:
        """Count, mean and variance as one vector."""
        return np.concatenate(([self.count], self.mean.reshape(-1), self.variance.reshape(-1)))

    def unpack(self, vector: NDArray[np.float64]) -> "Moments":
        """Moments of the same kind as these, from what `pack` gave."""
        other = Moments(self.mean.shape, self.pooled)
        mean, variance = np.split(vector[1:].copy(), 2)
        other.count, other.mean, other.variance = (
            float(vector[0]), mean.reshape(self.mean.shape), variance.reshape(self.mean.shape)
        )  # fmt: skip
        return other

    def state(self) -> dict[str, NDArray[np.float64]]:
        return {"count": np.array(self.count), "mean": self.mean, "variance": self.variance}

    def restore(self, state: dict[str, NDArray[np.float64]]) -> None:
        self.count, self.mean, self.variance = float(state["count"]), state["mean"], state["variance"]


class RunningSize:
    """Root mean square of what was seen lately: exponential means, of squares and of how much was seen."""

    def __init__(self, decay: float = 0.99) -> None:
        self.decay = decay
        self.square, self.weight = 0.0, 0.0

    def add(self, mean_square: float) -> None:
        """Takes in one more; one that overflowed is left out."""
        if not math.isfinite(mean_square):
            return
        self.square += (1 - self.decay) * (mean_square - self.square)
        self.weight += (1 - self.decay) * (1 - self.weight)

    @property
    def value(self) -> float:
        """1 as long as nothing was seen, and never 0."""
        return max(math.sqrt(self.square / self.weight), 1e-12) if self.weight else 1.0

    def state(self) -> NDArray[np.float64]:
        return np.array([self.square, self.weight])

    def restore(self, state: NDArray[np.float64]) -> None:
        self.square, self.weight = map(float, state)
        if not (0 <= self.square < math.inf and 0 <= self.weight <= 1):
            raise ValueError(f"a running size of {self.square} and {self.weight}")
