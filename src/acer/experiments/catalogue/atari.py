"""ACER on Atari with and without trust region, replay ratios 0, 1, 4 and 8 (Figure 1)."""

from pathlib import Path
from typing import Any

from acer.config import ALGORITHMS, Config, defaults
from acer.envs.scores import GAMES
from acer.experiments import figures, summaries
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
        "paper": Size(50_000_000, settings_of_all={"eval_episodes": 16}),  # 200 million frames, as DQN's
    },
    configure,
    settings_are_drawn=False,
)  # fmt: skip


def draw(results: Results) -> list[Path]:
    """The median over games against steps and against time, and the table beside it."""
    by_steps, by_time = (summaries.median_curves(results.shown, results.runs, x) for x in ("steps", "seconds"))
    drawn = figures.atari(by_steps, by_time, results.caption, results.stem)
    return [*drawn, results.write("", summaries.ATARI_TABLE, summaries.atari_table(results.shown, results.runs))]
