"""Callbacks that people ask for, and where a run draws its progress."""

import sys
import types

import numpy as np
import pytest
from rich.text import Text

from acer import ACER
from acer.callbacks import EvaluateEvery, SaveEvery, StopOnPlateau, StopOnReturn
from acer.console import errors
from acer.errors import SettingsError
from acer.run.display import Cell, Display
from acer.run.evaluation import Evaluation

TINY = {"hidden": (8,), "environments": 4, "trajectories_per_update": 4, "replay_start": 320,
        "eval_episodes": 1, "eval_limit": 20}  # fmt: skip


def cartpole(**settings):
    return ACER("CartPole-v1", **TINY | settings)


def test_evaluations_come_at_multiples_and_the_best_is_saved(tmp_path):
    evaluations = EvaluateEvery(200, episodes=2, save_best=tmp_path / "best")
    model = cartpole().learn(650, callbacks=evaluations)
    assert [steps // 200 for steps, _ in evaluations.results] == [1, 2, 3]
    assert [len(result.returns) for _, result in evaluations.results] == [2, 2, 2]
    assert evaluations.best == max(result.mean for _, result in evaluations.results)
    assert ACER.load(tmp_path / "best").config.env == "CartPole-v1"
    model.learn(200, callbacks=evaluations)  # the same callback goes on with the same model
    assert [steps // 200 for steps, _ in evaluations.results] == [1, 2, 3, 4]


def test_evaluations_act_as_the_runs_own_unless_told(monkeypatch):
    for policy, given, mode in (("mode", None, True), ("sampled", None, False), ("sampled", True, True)):
        evaluations = EvaluateEvery(80, episodes=1, deterministic=given)
        cartpole(eval_policy=policy).learn(80, callbacks=evaluations)
        assert evaluations.results[0][1].deterministic is mode


def test_models_are_saved_on_the_way_as_they_were(tmp_path):
    cartpole().learn(400, callbacks=SaveEvery(160, tmp_path / "models"))
    saved = sorted(path.name for path in (tmp_path / "models").iterdir())
    assert [int(name) // 160 for name in saved] == [1, 2]
    first, second = (ACER.load(tmp_path / "models" / name).agent.home.theta.numpy() for name in saved)
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("saves", [lambda at: EvaluateEvery(80, 1, save_best=at), lambda at: SaveEvery(80, at / "x")])
def test_a_model_that_cannot_be_saved_costs_itself_and_not_the_run(saves, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("a file where a folder should be")
    model = cartpole().learn(160, callbacks=saves(tmp_path / "mine"))
    assert model.steps >= 160 and "is not saved: " in capsys.readouterr().err
    assert (tmp_path / "mine" / "x").read_text() == "a file where a folder should be"


class Scores(EvaluateEvery):
    """Evaluations whose means are given."""

    def __init__(self, *means):
        super().__init__(80)
        self.means = iter(means)

    def act(self, run):
        result = Evaluation([next(self.means)], [1], True)
        for callback in self.others:
            if callback.on_evaluation(run, result) is False:
                run.stop()


def steps_until(stop, *means):
    scores = Scores(*means)
    scores.others = [stop]
    return cartpole().learn(80 * len(means), callbacks=scores).steps // 80


@pytest.mark.parametrize(("target", "ends"), [(5.0, 3), (4.9, 3), (9.0, 4)])
def test_a_run_stops_at_a_return(target, ends):
    assert steps_until(StopOnReturn(target), 1.0, 4.0, 5.0, 8.0) == ends


@pytest.mark.parametrize(
    ("patience", "gain", "ends"),
    [(1, 0.0, 3), (2, 0.0, 7), (2, 1.5, 3), (9, 0.0, 8)],
)
def test_a_run_stops_on_a_plateau(patience, gain, ends):
    assert steps_until(StopOnPlateau(patience, gain), 1.0, 2.0, 2.0, 3.0, 4.5, 4.0, 4.5, 9.0) == ends


def test_a_run_stops_at_the_return_of_its_training():
    model = cartpole().learn(20_000, callbacks=StopOnReturn(1.0, training=True))
    assert model.steps < 10_000
    assert model._training.metrics["episodes"] >= 100
    never = cartpole().learn(400, callbacks=StopOnReturn(1.0, training=True))  # too few episodes
    assert never.steps >= 400


def test_the_runs_own_evaluations_count_too():
    model = cartpole(eval_every=100, eval_episodes=1).learn(2_000, callbacks=[StopOnReturn(0.5)])
    assert model.steps < 400


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EvaluateEvery(0), "steps must be at least 1"),
        (lambda: EvaluateEvery(10, 0), "episodes must be at least 1"),
        (lambda: StopOnPlateau(0), "patience must be at least 1"),
        (lambda: StopOnPlateau(1, -1.0), "least_gain must not be negative"),
    ],
)
def test_numbers_that_make_no_sense_are_one_line(make, said):
    with pytest.raises(SettingsError, match=said):
        make()


# Notebooks


@pytest.fixture
def cells(monkeypatch):
    """What a notebook shows, cell by cell."""
    shown = []

    class Handle:
        def __init__(self, data):
            shown.append([data["text/plain"]])

        def update(self, data, raw):
            assert raw
            shown[-1].append(data["text/plain"])

    module = types.ModuleType("IPython.display")
    module.display = lambda data, raw, display_id: Handle(data)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(errors, "is_jupyter", True)
    return shown


def test_a_notebook_has_one_output_that_is_drawn_again(cells):
    display = Display("CartPole-v1", 1_000)
    display.show(200, 12.0, 50.0)
    display.show(300, 13.0, 50.0)  # too soon
    display.show(1_000, 20.0, 50.0)
    display.log(1_000, 20.0, 50.0, "")  # no lines beside the bar
    (drawn,) = cells
    assert len(drawn) == 2
    assert "200/1000" in drawn[0] and "return 12.0" in drawn[0]
    assert "1000/1000" in drawn[1] and "return 20.0" in drawn[1]


def test_nothing_is_drawn_where_nothing_is_asked_for(cells):
    Display("CartPole-v1", 1_000, shown=False).show(1_000, 12.0, 50.0)
    assert cells == []


def test_a_cell_is_drawn_at_once_when_it_is_the_last(cells):
    cell = Cell()
    for text in ("one", "two"):
        cell.draw(Text(text), at_once=True)
    assert cells == [["one", "two"]]
