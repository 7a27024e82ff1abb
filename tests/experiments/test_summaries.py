"""Curves and tables from runs, against numbers found by hand."""

import math

import numpy as np
import pytest

from acer.envs.scores import human_normalized
from acer.experiments import summaries
from experiment_runs import a_run


def test_best_settings_and_median_by_hand():
    found = [a_run(float(value), setting) for setting, value in enumerate([1, 9, 4, 7, 2, 12, 3, 5, 6, 8, 0, 10])]
    curve = summaries.best_curves([run.job for run in found], found)["fish"]["acer"]
    assert curve.x[0] == 100 and curve.x[-1] == 200
    assert curve.y[-1] == 11  # the best 2 of 12: 12 and 10
    assert curve.high[-1] - curve.y[-1] == curve.y[-1] - curve.low[-1] == 1
    assert curve.beside[-1] == np.median([1, 9, 4, 7, 2, 12, 3, 5, 6, 8, 0, 10])
    assert curve.y[0] == curve.beside[0] == 0


def test_each_task_has_the_best_sixth_of_its_own_settings():
    found = [a_run(float(i), i) for i in range(12)] + [a_run(float(i), i, env="walker") for i in range(6)]
    jobs = [run.job for run in found]
    curves = summaries.best_curves(jobs, found)
    assert curves["fish"]["acer"].y[-1] == 10.5  # of 11 and 10
    assert curves["walker"]["acer"].y[-1] == 5
    assert {row["task"]: row["settings"] for row in summaries.control_table(jobs, found)} == {"fish": 12, "walker": 6}
    assert "the best sixth of 6 to 12 settings" in summaries.meaning_of_curves(jobs)


def test_seeds_of_a_setting_are_averaged_before_settings_compete():
    found = [a_run(10.0, 0, seed=0), a_run(0.0, 0, seed=1), a_run(6.0, 1, seed=0), a_run(6.0, 1, seed=1)]
    of = summaries.over_settings(found)
    assert of.numbers == [0, 1] and of.final.tolist() == [5, 6]
    assert summaries.best_curve(of, 2).y[-1] == 6


def test_curves_are_compared_where_all_are_known():
    of = summaries.over_settings([a_run(1.0, 0, x=(50.0, 210.0)), a_run(1.0, 1, x=(100.0, 200.0))])
    assert of.x[0] == 100 and of.x[-1] == 200
    assert of.returns[0, 0] == pytest.approx(50 / 160)


def test_the_table_has_the_papers_statistic_and_the_interquartile_mean():
    finals, evaluations = [1.0, 2, 4, 8, 16, 32], [0.0, 0, 0, 0, 0, 99]
    found = [a_run(r, i, evaluation=e) for i, (r, e) in enumerate(zip(finals, evaluations, strict=True))]
    planned = [run.job for run in found]
    training, evaluation = summaries.control_table(planned, found)
    assert (training["best"], training["best_mean"], training["best_std"], training["median"]) == (1, 32, 0, 6)
    assert training["iqm"] == 7 and training["iqm_low"] < 7 < training["iqm_high"]
    assert (evaluation["best_mean"], evaluation["median"]) == (99, 0)  # of the setting whose training was best
    assert training["failed"] == training["diverged"] == 0
    assert training["kl"] == 1 and training["trust_region_active"] == 0.5  # over the last quarter
    assert summaries.control_table(planned, found[:5])[0]["failed"] == 1
    assert list(training) == summaries.CONTROL_TABLE
    nothing = summaries.control_table(planned, [])
    assert nothing[0]["failed"] == 6 and "iqm" not in nothing[0]


def test_pairs_of_methods_are_compared_setting_by_setting():
    acer, other = [5.0, 1.0, 9.0, 4.0], [2.0, 3.0, 1.0, 1.0]
    found = [a_run(value, i) for i, value in enumerate(acer)]
    found += [a_run(value, i, "tis") for i, value in enumerate(other)]
    found += [a_run(20.0, i, method, env="walker") for method in ("acer", "tis") for i in (0, 1)]
    found[-1] = a_run(10.0, 1, "tis", env="walker")
    found.append(a_run(0.0, 2, "tis", env="walker"))  # with no counterpart, but it widens the task's range
    rows = summaries.pairs_table([run.job for run in found], found, [("acer", "tis")])
    by_task = {row["task"]: row for row in rows if row["measure"] == "training"}
    assert list(by_task["fish"]) == summaries.PAIRS_TABLE
    assert (by_task["fish"]["settings"], by_task["fish"]["ahead"]) == (4, 3)
    assert (by_task["fish"]["median"], by_task["fish"]["iqm"]) == (3, 3)  # of −2, 3, 3, 8
    assert (by_task["walker"]["settings"], by_task["walker"]["ahead"], by_task["walker"]["median"]) == (2, 1, 5)
    shares = [-2 / 8, 3 / 8, 3 / 8, 8 / 8, 0, 10 / 20]
    assert by_task[summaries.ALL_TASKS]["settings"] == 6
    assert by_task[summaries.ALL_TASKS]["median"] == pytest.approx(np.median(shares))
    assert summaries.pairs_table([run.job for run in found], found, [("acer", "a3c")]) == []


def test_a_run_that_diverged_counts_with_the_return_that_it_had_last():
    found = [a_run(10.0, 0), a_run(8.0, 1), a_run(2.0, 2, x=(20.0, 40.0), evaluation=2.0, diverged=True)]
    jobs = [run.job for run in found]
    of = summaries.over_settings(found)
    assert of.x[0] == 100 and of.x[-1] == 200 and of.returns[2].tolist() == [2.0] * len(of.x)
    training, evaluation = summaries.control_table(jobs, found)
    assert (training["failed"], training["diverged"], training["median"]) == (0, 1, 8)
    assert evaluation["diverged"] == 1
    assert summaries.over_settings(found[2:]).x[-1] == 40


def test_a_game_that_diverged_does_not_cut_the_others_short():
    found = [
        a_run(20.0, env="pong"),
        a_run(30.0, env="breakout"),
        a_run(1.0, env="qbert", x=(10.0, 20.0), diverged=True),
    ]
    jobs = [run.job for run in found]
    x, y = summaries.median_curves(jobs, found, "steps")["acer"]
    assert x[-1] == 200 and y[-1] == pytest.approx(human_normalized("breakout", 30.0))
    (row,) = summaries.atari_table(jobs, found)
    assert (row["failed"], row["diverged"]) == (0, 1) and row["hours"] == 20 / 3600
    assert list(row) == summaries.ATARI_TABLE


def test_one_best_setting_has_the_middle_half_of_all_around_it():
    of = summaries.over_settings([a_run(float(r), i) for i, r in enumerate([1, 2, 4, 8, 16])])
    curve = summaries.best_curve(of, 5)
    assert (curve.y[-1], curve.low[-1], curve.beside[-1], curve.high[-1]) == (16, 2, 4, 8)


def test_runs_without_a_finished_episode_are_no_curve():
    run = a_run(1.0)
    run.columns["return_mean"][:] = math.nan
    assert summaries.over_settings([run]) is None
    assert summaries.best_curves([run.job], [run]) == {"fish": {}}


def test_the_atari_metric_over_games():
    """Human-normalised by hand, the median of the two games, the running maximum."""
    pong, breakout = a_run(14.6, env="pong", method="acer-4"), a_run(1.7, env="breakout", method="acer-4")
    pong.columns["score"] = np.array([-20.7, 14.6])  # 0 and 1
    breakout.columns["score"] = np.array([30.5, 1.7])  # 1 and 0
    planned = [pong.job, breakout.job]
    x, y = summaries.median_curves(planned, [pong, breakout], "steps")["acer-4"]
    assert (x[0], x[-1]) == (100, 200)
    assert y == pytest.approx(0.5)
    (row,) = summaries.atari_table(planned, [pong, breakout])
    assert (row["games"], row["failed"]) == (2, 0)
    assert row["iqm"] == pytest.approx(0.5) and row["hours"] == pytest.approx(20 / 3600)
    seconds, _ = summaries.median_curves(planned, [pong, breakout], "seconds")["acer-4"]
    assert (seconds[0], seconds[-1]) == (10, 20)


def test_every_seed_of_an_agent_has_a_row_and_says_when_it_was_there():
    """The first seed nearly has the human's score in its second row, the other a random agent's: together not half."""
    runs_ = [a_run(0.0, env="pong", method="acer-4", seed=seed) for seed in (0, 1)]
    for run, last in zip(runs_, (14.6, -20.7), strict=True):  # 1 and 0
        run.columns.update(steps=np.array([1e3, 2e3]), seconds=np.array([0.0, 3600.0]))
        run.columns["score"] = np.array([-20.7, last - 0.001])
    both, first, second = summaries.atari_table([run.job for run in runs_], runs_)
    assert [row["seed"] for row in (both, first, second)] == ["all", "0", "1"]
    assert (first["steps_to_half"], first["hours_to_half"]) == (2_000, 1)
    assert all(math.isnan(row["steps_to_half"]) for row in (both, second)) and math.isnan(first["steps_to_human"])
    assert both["median_maximum"] == pytest.approx(0.5, abs=1e-3)
    assert len(summaries.atari_table([runs_[0].job], runs_[:1])) == 1


def test_no_maximum_of_a_game_is_passed_over():
    pong = a_run(0.0, env="pong", method="acer-4")
    steps, score = np.array([100.0, 101.0, 102.0, 10_000.0]), np.array([-20.7, 14.6, -20.7, -20.7])
    pong.columns.update(steps=steps, seconds=steps, score=score)
    for x in ("steps", "seconds"):
        assert summaries.median_curves([pong.job], [pong], x)["acer-4"][1] == pytest.approx([0, 1, 1, 1])
