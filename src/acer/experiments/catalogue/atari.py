"""ACER on Atari with and without trust region, replay ratios 0, 1, 4 and 8 (Figure 1)."""

from pathlib import Path
from typing import Any

import numpy as np

from acer.config import ALGORITHMS, Config, defaults
from acer.envs.scores import GAMES
from acer.experiments import figures, published, summaries
from acer.experiments.plan import Plan, Size
from acer.experiments.results import Results


def agents(*ratios: int) -> tuple[str, ...]:
    """Names of the Atari agents with these replay ratios, with a trust region and without (ratio 0 is ACER with r = 0,
    not A3C: its baseline is Q)."""
    return tuple(f"{algo}-{ratio}" for ratio in ratios for algo in ("acer", "no-trust-region"))


def configure(env: str, method: str, setting: int, seed: int, preset: str, **overrides: Any) -> Config:
    """An agent of the Atari figure. It has the preset's settings, but the paper's φ: in logits δ = 1 hardly ever binds,
    and agents with and without trust region would be the same."""
    algo, _, ratio = method.rpartition("-")
    statistic = {"statistic": "probabilities"} if ALGORITHMS[algo].trust_region is not False else {}
    own = {"replay_ratio": float(ratio), "seed": seed, **statistic}
    return defaults(env, False, preset or "atari", algo, **own | overrides)


# The games of `medium` in an order drawn once, so that those done so far are a fair sample at any time.
ORDER_SEED = 57
ORDER = tuple(np.random.default_rng(ORDER_SEED).permutation(sorted(GAMES)).tolist())
PLAN = Plan(
    "game",
    GAMES,
    agents(0, 1, 4, 8),
    {
        # A game of Pong that is lost as fast as possible takes some 800 steps.
        "smoke": Size(3_200, environments=("pong",), methods=agents(0, 4),
                      settings_of_all={"environments": 2, "trajectories_per_update": 2, "replay_start": 800,
                                       "eval_episodes": 1, "eval_limit": 500}),
        "small": Size(1_000_000, environments=("pong",), methods=agents(0, 1, 4),
                      settings_of_all={"eval_episodes": 16}),
        # The protocol of the peers (Machado et al. 2018), 4 million frames.
        "medium": Size(1_000_000, environments=ORDER, methods=("acer-4",),
                       settings_of_all={"sticky_actions": published.STICKY, "eval_episodes": 16}),
        "paper": Size(50_000_000, settings_of_all={"eval_episodes": 16}),  # 200 million frames, as DQN's
    },
    configure,
    settings_are_drawn=False,
)  # fmt: skip


def draw(results: Results) -> list[Path]:
    """The median over games against steps and against time, and the table beside it; each game beside the peers where
    the runs have their protocol."""
    runs = results.runs
    by_steps, by_time = (summaries.median_curves(results.shown, runs, x) for x in ("steps", "seconds"))
    references = published.median_curves() if published.are_all_games(runs) else {}
    drawn = figures.atari(by_steps, by_time, references, results.caption, results.stem)
    files = [*drawn, results.write("", summaries.ATARI_TABLE, summaries.atari_table(results.shown, runs))]
    return [*files, *_beside_peers(results)] if published.can_be_compared(runs) else files


def _beside_peers(results: Results) -> list[Path]:
    games = published.games_table(results.runs)
    files = [results.write("-games", published.GAMES_TABLE, games),
             results.write("-peers", published.SUMMARY_TABLE, published.summary_table(games))]  # fmt: skip
    for method in dict.fromkeys(row["method"] for row in games):
        both = [row for row in games if row["method"] == method and "score" in row and "rainbow" in row]
        if both:
            ours, theirs = (np.array([row[key] for row in both]) for key in ("normalised", "rainbow_normalised"))
            stem = results.stem.with_name(f"{results.stem.name}-{method}-rainbow")
            names = [row["game"] for row in both]
            files += figures.gains(names, ours, theirs, "Rainbow", f"{method}; {results.caption}", stem)
    return files
