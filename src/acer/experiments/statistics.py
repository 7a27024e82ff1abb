"""Statistics over settings, seeds or games: pure functions of arrays, over their last axis."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BEST = 1 / 6  # the paper's 5 of 30 settings (Section 6)


def best_count(settings: int) -> int:
    """How many settings the best sixth of them is; at least one."""
    return max(1, round(BEST * settings))


def best(scores: Array, count: int) -> NDArray[np.int64]:
    """Which `count` of the scores [n] are the highest, in that order."""
    return np.argsort(-scores, kind="stable")[:count]


def interquartile_mean(values: Array) -> Array:
    """Mean of the middle half of the values [..., n]. Where n / 4 is not whole, the two values at the edges count in
    part: of n = 6 the second and fifth by half."""
    n = values.shape[-1]
    edges = np.arange(n + 1)
    inside = np.clip(edges, n / 4, 3 * n / 4)
    weights = np.diff(inside) / (n / 2)
    middle: Array = np.sort(values, axis=-1) @ weights
    return middle


def bootstrap(
    values: Array, statistic: Callable[[Array], Array], level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of a statistic of [n] values under resampling; NaN for fewer than two values."""
    n = len(values)
    if n < 2:
        return float("nan"), float("nan")
    drawn = values[np.random.default_rng(seed).integers(n, size=(resamples, n))]
    low, high = np.quantile(statistic(drawn), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def on_grid(x: Array, y: Array, grid: Array) -> Array:
    """A curve y(x) [n], x ascending, at the points of a grid; flat beyond its ends."""
    return np.interp(grid, x, y)
