"""Random search over learning rate and δ (Section 6): what is drawn, and the control runs that have it.

A run's name and configuration depend on nothing but what it is: setting i is the same for every task and method,
however many settings are asked for, so that experiments of one scale share the runs that they have in common.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acer.config import ALGORITHMS, Config, defaults
from acer.experiments.plan import Scale, Size

LEARNING_RATES = (1e-4, 10**-3.3)  # log-uniform (Section 6)
DELTAS = (0.1, 2.0)  # uniform (Section 6)
SETTINGS_SEED = 2017  # the seed of the settings
SPREAD = (
    1.324717957244746  # x³ = x + 1: multiples of (1/x, 1/x²) modulo 1 fill the square evenly, however many there are
)
MOST_SETTINGS = 1_000


@dataclass(frozen=True)
class Setting:
    """What is drawn at random for a run."""

    learning_rate: float
    delta: float


def draw(setting: int) -> Setting:
    """Setting number `setting`, whatever else is drawn: of an evenly spread sequence with a random beginning, so that
    few settings cover the ranges, too. Six digits, so that it is the same on every machine."""
    first = np.random.default_rng(SETTINGS_SEED).random(2)
    rate, delta = (first + setting * SPREAD ** -np.array([1.0, 2.0])) % 1
    (low, high), (least, most) = np.log10(LEARNING_RATES), DELTAS
    return Setting(float(f"{10 ** (low + rate * (high - low)):.6g}"), float(f"{least + delta * (most - least):.6g}"))


def configure(env: str, method: str, setting: int, seed: int, preset: str, **overrides: Any) -> Config:
    """A method on a control task; each setting has a random stream of its own. The learning rate stays what was drawn:
    the paper names no annealing."""
    drawn = draw(setting)
    delta = {} if ALGORITHMS[method].trust_region is False else {"delta": drawn.delta}
    own = {"learning_rate": drawn.learning_rate, "learning_rate_decay": "none", "seed": MOST_SETTINGS * seed + setting,
           **delta}  # fmt: skip
    return defaults(env, True, preset or "control", method, **own | overrides)


# The paper's text does not say how many steps its control runs have: those of `paper` are ours.
CONTROL_SIZES: dict[Scale, Size] = {
    "smoke": Size(4_000, 2, settings_of_all={"environments": 4, "eval_episodes": 2}),
    # At 500,000 steps the fish has hardly begun, and a walker's return is anything from 120 to 960 (results/control).
    "small": Size(500_000, 6, {"fish": 1_000_000, "walker": 1_000_000}, settings_of_all={"eval_episodes": 32}),
    "paper": Size(5_000_000, 30, settings_of_all={"eval_episodes": 32}),
}
