"""Published scores of other agents on Atari, and our runs beside them.

`dopamine_atari.csv` has training scores with sticky actions by millions of frames; `dqn_zoo_median.csv` has medians
over the 57 games without sticky actions, as in Figure 1. Each file names its source.
"""

import csv
import itertools
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from acer.envs.atari import FRAME_SKIP
from acer.envs.scores import GAMES, human_normalized
from acer.experiments import statistics
from acer.experiments.runs import Array, RunResult

PEERS = ("dqn", "c51", "rainbow", "iqn")
WINDOW = 1_000_000 // FRAME_SKIP  # steps that a score is the mean of: ours (Section 4) and theirs
STICKY = 0.25
CURVES = {"dqn": "DQN", "prioritized_double_dqn": "Prioritized Double DQN"}

Rows = list[dict[str, Any]]
GAMES_TABLE = ["game", "method", "seeds", "score", "normalised",
               *itertools.chain.from_iterable((peer, f"{peer}_normalised") for peer in PEERS)]  # fmt: skip
SUMMARY_TABLE = ["agent", "games", "median", "median_low", "median_high", "iqm", "iqm_low", "iqm_high",
                 *(f"ahead_of_{peer}" for peer in PEERS)]  # fmt: skip


def _rows(name: str) -> list[dict[str, str]]:
    lines = resources.files("acer.envs.data").joinpath(name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


@cache
def scores() -> dict[tuple[str, int], dict[str, float]]:
    """Each peer's score by game and steps; none for the two games that they have not played."""
    return {
        (row["game"], int(row["iteration"]) * WINDOW): {peer: float(row[peer]) for peer in PEERS}
        for row in _rows("dopamine_atari.csv")
    }


@cache
def median_curves() -> dict[str, tuple[Array, Array]]:
    """Median human-normalised score over the 57 games against steps: the grey and the black line of Figure 1."""
    rows = _rows("dqn_zoo_median.csv")
    steps = np.array([float(row["frames_millions"]) * 1e6 / FRAME_SKIP for row in rows])
    return {
        label: (steps, np.maximum.accumulate([float(row[column]) for row in rows])) for column, label in CURVES.items()
    }


def can_be_compared(runs: Sequence[RunResult]) -> bool:
    """Whether the runs have the peers' protocol: sticky actions, and a number of steps that they have a score at."""
    steps = {at for _, at in scores()}
    return bool(runs) and all(run.job.config.sticky_actions == STICKY and run.job.config.steps in steps for run in runs)


def games_table(runs: Sequence[RunResult]) -> Rows:
    """Each method on each game, in the order of the runs: mean over seeds of the score over the last million frames,
    and the peers' after as many frames. Empty where a peer has not played a game, or no game of ours ended."""
    groups: dict[tuple[str, str], list[RunResult]] = {}
    for run in runs:
        groups.setdefault((run.job.config.env, run.job.method), []).append(run)
    rows: Rows = []
    for (game, method), own in groups.items():
        ended = [curve[-1] for run in own if len(curve := run.curve("score")[1])]
        row: dict[str, Any] = {"game": game, "method": method, "seeds": len(own)}
        if ended:
            row |= _with_normalised(game, "score", "normalised", float(np.mean(ended)))
        for peer, score in scores().get((game, own[0].job.config.steps), {}).items():
            row |= _with_normalised(game, peer, f"{peer}_normalised", score)
        rows.append(row)
    return rows


def _with_normalised(game: str, name: str, normalised: str, score: float) -> dict[str, float]:
    return {name: score, normalised: human_normalized(game, score)}


def summary_table(games: Rows) -> Rows:
    """Each method over all its games and over those that the peers have played, and each peer over the same: median and
    interquartile mean of the human-normalised score, with 95 % bootstrap intervals over games, and ahead in how many
    games of each peer."""
    rows: Rows = []
    for method in dict.fromkeys(row["method"] for row in games):
        own = [row for row in games if row["method"] == method and "normalised" in row]
        shared = [row for row in own if PEERS[0] in row]
        rows.append({"agent": f"{method}, all games", **_over_games(own, "normalised")})
        if shared:
            rows.append({"agent": f"{method}, games of the peers", **_over_games(shared, "normalised"),
                         **{f"ahead_of_{peer}": sum(row["score"] > row[peer] for row in shared) for peer in PEERS},
                         })  # fmt: skip
            for peer in PEERS:
                rows.append({"agent": f"{peer}, games of {method}", **_over_games(shared, f"{peer}_normalised")})
    return rows


def _over_games(rows: Rows, column: str) -> dict[str, float]:
    values = np.array([row[column] for row in rows])
    if not len(values):
        return {"games": 0}
    low, high = statistics.bootstrap(values)
    median_low, median_high = statistics.bootstrap_median(values)
    return {"games": len(values), "median": float(np.median(values)), "median_low": median_low,
            "median_high": median_high, "iqm": float(statistics.interquartile_mean(values)), "iqm_low": low,
            "iqm_high": high}  # fmt: skip


def are_all_games(runs: Sequence[RunResult]) -> bool:
    return {run.job.config.env for run in runs} == set(GAMES)
