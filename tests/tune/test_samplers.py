"""How trials are drawn and ended: names as the command has them, the paper's own draws."""

from pathlib import Path

import pytest

from acer.commands.tune import PRUNERS, SAMPLERS
from acer.experiments import random_search
from acer.tune import samplers, space
from acer.tune.study import Search
from tune_runs import a_search, tune


def test_trial_i_of_the_papers_sampler_is_setting_i_of_its_experiments():
    base = a_search().base
    study = tune(Search(base, space.paper(base)), Path("x"), 4, lambda job, number: 1.0, sampler="paper")
    drawn = [random_search.draw(i) for i in range(4)]
    assert [trial.params for trial in study.trials()] == [
        {"learning_rate": one.learning_rate, "delta": one.delta} for one in drawn
    ]


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_that_the_command_has_draws(name):
    """Twelve trials: the first ten of Gaussian processes and of TPE are random."""
    base = a_search().base
    asked = Search(base, space.paper(base)) if name == "paper" else a_search()
    study = tune(asked, Path("x"), 12, lambda job, number: job.config.learning_rate, sampler=name)
    rates = [trial.params["learning_rate"] for trial in study.trials() if trial.state.name == "COMPLETE"]
    assert len(rates) == 12
    if name in ("gp", "tpe"):
        assert min(rates[10:]) > sum(rates[:10]) / 10  # they have learnt that more is better


def test_every_sampler_has_its_name():
    assert set(SAMPLERS) == samplers.SAMPLERS.keys()


@pytest.mark.parametrize(
    ("name", "kind"), [*zip(PRUNERS, ("MedianPruner", "HyperbandPruner", "NopPruner"), strict=True)]
)
def test_every_pruner_that_the_command_has_is_optunas(name, kind):
    assert type(samplers.pruner(name, 10)).__name__ == kind
