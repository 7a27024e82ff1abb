"""How trials are drawn, and which are ended early. Optuna's, and the paper's own random search."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import optuna

from acer.experiments import random_search

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.pruners import BasePruner
    from optuna.study import Study
    from optuna.trial import FrozenTrial

STARTUP = 5  # trials at their end before the median prunes


class PaperSampler(optuna.samplers.BaseSampler):
    """Trial i has setting i of the paper's search, as the experiments draw it."""

    def infer_relative_search_space(self, study: "Study", trial: "FrozenTrial") -> "dict[str, BaseDistribution]":
        return {}

    def sample_relative(
        self, study: "Study", trial: "FrozenTrial", search_space: "dict[str, BaseDistribution]"
    ) -> dict[str, Any]:
        return {}

    def sample_independent(
        self, study: "Study", trial: "FrozenTrial", param_name: str, param_distribution: "BaseDistribution"
    ) -> Any:
        return getattr(random_search.draw(trial.number), param_name)


SAMPLERS: dict[str, Callable[[int], optuna.samplers.BaseSampler]] = {
    "tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
    "gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
    "random": lambda seed: optuna.samplers.RandomSampler(seed=seed),
    "paper": lambda seed: PaperSampler(),
}


def sampler(name: str, seed: int, trial: int) -> optuna.samplers.BaseSampler:
    """For one trial, with random numbers of its own: a search that went on draws what one that ran through would."""
    return SAMPLERS[name](int(np.random.SeedSequence([seed, trial]).generate_state(1)[0]))


def pruner(name: str, evaluations: int) -> "BasePruner":
    """evaluations: how many a trial has."""
    if name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=1 + evaluations // 3)
    if name == "hyperband":
        return optuna.pruners.HyperbandPruner(min_resource=1, max_resource=max(3, evaluations))
    return optuna.pruners.NopPruner()
