"""Statistics over settings, seeds or games: pure functions of arrays, over their last axis."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

BEST = 1 / 6  # the paper's 5 of 30 settings (Section 6)
LEVEL, RESAMPLES, SEED = 0.95, 10_000, 0  # of bootstrap intervals


def best_count(settings: int) -> int:
    """How many settings the best sixth of them is; at least one."""
    return max(1, round(BEST * settings))


def best(scores: Array, count: int) -> NDArray[np.int64]:
    """Which `count` of the scores [n] are the highest, in that order."""
    return np.argsort(-scores, kind="stable")[:count]


def interquartile_mean(values: Array, counts: NDArray[np.int64] | None = None) -> Array:
    """Mean of the middle half of the values [..., n], each of which counts `counts` times (once by default). Where a
    quarter is not whole, the values at the edges count in part: of n = 6 the second and fifth by half."""
    order = np.argsort(values, axis=-1)
    weights = np.ones_like(values) if counts is None else np.take_along_axis(counts, order, -1)
    ends = np.cumsum(weights, axis=-1)
    total = ends[..., -1:]
    inside = np.clip(ends, total / 4, 3 * total / 4) - np.clip(ends - weights, total / 4, 3 * total / 4)
    middle: Array = (inside * np.take_along_axis(values, order, -1)).sum(-1) / (total[..., 0] / 2)
    return middle


def bootstrap(values: Array, groups: Sequence[int] | None = None) -> tuple[float, float]:
    """Percentile interval of the interquartile mean of the values [n] under resampling; those of one group are drawn
    together. NaN for fewer than two values, or groups."""
    names, group = np.unique(range(len(values)) if groups is None else groups, return_inverse=True)
    n = len(names)
    if n < 2:
        return float("nan"), float("nan")
    counts = np.random.default_rng(SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES)[:, group]
    means = interquartile_mean(np.broadcast_to(values, counts.shape), counts)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def bootstrap_median(values: Array) -> tuple[float, float]:
    """Percentile interval of the median of the values [n] under resampling. NaN for fewer than two."""
    if len(values) < 2:
        return float("nan"), float("nan")
    picks = np.random.default_rng(SEED).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(np.median(values[picks], axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def on_grid(x: Array, y: Array, grid: Array) -> Array:
    """A curve y(x) [n], x ascending, at the points of a grid; flat beyond its ends."""
    return np.interp(grid, x, y)
