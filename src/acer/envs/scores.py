"""Human-normalised scores on Atari, and the paper's metric over games."""

import csv
from collections.abc import Sequence
from importlib import resources

import numpy as np
from numpy.typing import NDArray


def _table() -> dict[str, tuple[float, float]]:
    lines = resources.files("acer.envs.data").joinpath("atari_scores.csv").read_text().splitlines()
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    return {row["game"]: (float(row["random"]), float(row["human"])) for row in rows}


SCORES = _table()
"""Mean score of a random agent and of a human, by game."""
GAMES = tuple(SCORES)


def human_normalized(game: str, score: float) -> float:
    """0 for a random agent, 1 for the human tester."""
    random, human = SCORES[game]
    return (score - random) / (human - random)


def average_over_frames(
    frames: NDArray[np.float64], scores: NDArray[np.float64], at: NDArray[np.float64], window: float = 1e6
) -> NDArray[np.float64]:
    """Mean score of the episodes that ended in the past `window` frames, at each of `at`; NaN where none did.

    frames: [n], when each episode ended, ascending. scores: [n].
    """
    sums = np.concatenate(([0.0], np.cumsum(scores)))
    last = np.searchsorted(frames, at, side="right")
    first = np.searchsorted(frames, at - window, side="right")
    with np.errstate(invalid="ignore"):
        return (sums[last] - sums[first]) / np.where(last > first, last - first, np.nan)


def median_over_games(curves: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The paper's metric (Section 4): median over games of human-normalised curves [n], then the running maximum."""
    return np.fmax.accumulate(np.nanmedian(np.stack(curves), axis=0))
