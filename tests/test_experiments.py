"""The paper's experiments: plans, statistics, runs that are killed and go on, figures and tables."""

import itertools
import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acer import config as configuration
from acer.envs.control import TASKS
from acer.envs.scores import human_normalized
from acer.errors import CheckpointError
from acer.experiments import experiment, figures, jobs, plans, runs, statistics, summaries, theory, worker
from acer.experiments.display import JobsDisplay
from acer.experiments.plans import Job, Narrowing, draw
from acer.experiments.runs import Run
from acer.learner.theory import state_action_values
from acer.run.tables import read

HERE = str(Path(__file__).parent)
ALL = Narrowing()


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]))


# ------------------------------------------------------------------ plans


@pytest.mark.parametrize(
    ("name", "scale", "count", "steps"),
    [
        ("control", "paper", 6 * 5 * 30, {5_000_000}),
        ("ablation", "paper", 3 * 5 * 30, {5_000_000}),
        ("sensitivity", "paper", 6 * 30, {5_000_000}),
        ("atari", "paper", 57 * 8, {50_000_000}),
        ("control", "small", 6 * 5 * 6, {500_000, 1_000_000}),
        ("ablation", "small", 3 * 5 * 6, {500_000, 1_000_000}),
        ("sensitivity", "small", 6 * 6, {500_000, 1_000_000}),
        ("atari", "small", 6, {1_000_000}),
        ("control", "smoke", 6 * 5 * 2, {4_000}),
    ],
)
def test_every_scale_has_its_runs(name, scale, count, steps):
    planned = plans.jobs(name, scale, ALL)
    assert len(planned) == len({job.name for job in planned}) == count
    assert {job.config.steps for job in planned} == steps
    if scale == "small" and name != "atari":
        assert {job.config.env for job in planned if job.config.steps == 1_000_000} == {"fish", "walker"}


def test_settings_are_drawn_from_the_papers_ranges_and_are_the_same_everywhere():
    drawn = [draw(i) for i in range(300)]
    rates, deltas = np.array([s.learning_rate for s in drawn]), np.array([s.delta for s in drawn])
    assert 1e-4 <= rates.min() < 1.05e-4 and 4.8e-4 < rates.max() <= 10**-3.3
    assert np.mean(np.log10(rates)) == pytest.approx(-3.65, abs=0.03)  # uniform in the logarithm
    assert 0.1 <= deltas.min() < 0.15 and 1.95 < deltas.max() <= 2
    assert np.mean(deltas) == pytest.approx(1.05, abs=0.1)
    few, many = (plans.jobs("control", scale, ALL) for scale in ("small", "paper"))
    for job in (*few, *many):
        assert job.config.learning_rate == drawn[job.setting].learning_rate
        assert job.config.delta == (drawn[job.setting].delta if job.config.trust_region == "projection" else 1.0)
    assert {job.name for job in few} < {job.name for job in many}


def test_few_settings_cover_the_ranges():
    """A third of the range at most lies between neighbours, or beyond the last, of the six settings of `small`."""
    drawn = [draw(i) for i in range(6)]
    low, high = np.log10(plans.LEARNING_RATES)
    for values, (least, most) in (
        (np.log10([s.learning_rate for s in drawn]), (low, high)),
        (np.array([s.delta for s in drawn]), plans.DELTAS),
    ):
        gaps = np.diff([least, *np.sort(values), most]) / (most - least)
        assert gaps.max() < 1 / 3


def test_every_setting_and_seed_has_a_random_stream_of_its_own():
    planned = plans.jobs("control", "small", Narrowing(seeds=(0, 1, 2)))
    streams = {(job.setting, job.seed): job.config.seed for job in planned}
    assert len(set(streams.values())) == len(streams) == 18
    assert all(job.config.seed == streams[job.setting, job.seed] for job in planned)


def test_experiments_share_the_runs_that_they_have_in_common():
    control, ablation, sensitivity = (
        {job.name: job for job in plans.jobs(name, "small", ALL)} for name in ("control", "ablation", "sensitivity")
    )
    assert sum(name in control for name in ablation) == 3 * 6
    assert set(sensitivity) < set(control)
    assert all(control[name] == job for name, job in (ablation | sensitivity).items() if name in control)


def test_control_has_the_papers_constants():
    for job in plans.jobs("control", "paper", ALL) + plans.jobs("ablation", "paper", ALL):
        c = job.config
        assert (c.trajectory_length, c.gamma, c.sigma, c.environments) == (50, 0.99, 0.3, 16)
        assert c.algo == job.method and c.learning_rate_decay == "none"
        if c.trust_region != "none":
            assert c.alpha == 0.995
        if c.algo in ("a3c", "trust-a3c"):
            assert c.replay_ratio == 0 and c.on_policy
        else:
            assert (c.replay_ratio, c.replay_capacity, c.on_policy) == (4, 5_000, False)
        if c.algo in ("acer", "no-trust-region", "no-sdn", "no-retrace"):
            assert (c.truncation, c.sdn_samples) == (5, 5)
    regions = {job.method: job.config.trust_region for job in plans.jobs("control", "paper", ALL)}
    assert regions == {"a3c": "none", "trust-a3c": "projection", "tis": "none", "trust-tis": "projection",
                       "acer": "projection"}  # fmt: skip


def test_atari_has_the_papers_constants_and_ratio_0_is_acer():
    planned = plans.jobs("atari", "paper", ALL)
    assert {job.config.replay_ratio for job in planned} == {0, 1, 4, 8}
    for job in planned:
        c = job.config
        assert c.algo == ("acer" if c.trust_region == "projection" else "no-trust-region")
        assert (c.trajectory_length, c.gamma, c.truncation, c.entropy_weight) == (20, 0.99, 10, 0.001)
        assert c.on_policy and c.learning_rate_decay == "none" and c.replay_capacity == 50_000
        if c.trust_region == "projection":
            assert (c.delta, c.alpha, c.statistic) == (1, 0.99, "probabilities")
    assert {job.method for job in plans.jobs("atari", "small", ALL)} == {
        f"{algo}-{ratio}" for algo in ("acer", "no-trust-region") for ratio in (0, 1, 4)
    }


def test_a_plan_can_be_narrowed_in_every_direction():
    narrowing = Narrowing(tasks=("fish",), methods=("acer", "tis"), settings=(3, 7), seeds=(1,), steps=999)
    planned = plans.jobs("control", "small", narrowing)
    assert [job.name for job in planned] == ["fish-acer-3-1", "fish-tis-3-1", "fish-acer-7-1", "fish-tis-7-1"]
    assert {job.config.steps for job in planned} == {999}
    games = plans.jobs("atari", "small", Narrowing(games=("qbert", "pong"), methods=("acer-8",)))
    assert [job.name for job in games] == ["qbert-acer-8-0-0", "pong-acer-8-0-0"]


def test_numbers_and_ranges():
    assert plans.numbers("--settings", ["0", "2", "5-7"]) == (0, 2, 5, 6, 7)
    assert plans.numbers("--settings", []) == ()


def test_a_job_survives_the_way_to_another_process():
    for job in plans.jobs("ablation", "smoke", ALL):  # no-truncation has an infinite setting
        assert plans.from_json(plans.to_json(job)) == job


MISTAKES = [
    (["control", "--tasks", "fihs"], "did you mean fish"),
    (["control", "--games", "pong"], "--games has no meaning for control"),
    (["atari", "--tasks", "fish"], "--tasks has no meaning for atari"),
    (["atari", "--settings", "1"], "--settings has no meaning for atari"),
    (["atari", "--games", "pog"], "did you mean pong"),
    (["atari", "--methods", "acer"], "did you mean acer-"),
    (["ablation", "--tasks", "cheetah"], "there are fish, walker, humanoid"),
    (["control", "--draw", "--jobs", "2"], "--draw runs nothing: leave out --jobs"),
    (["theory", "--draw"], "--draw has no meaning here"),
    (["control", "--methods", "acer", "acer"], "--methods has something twice: acer acer"),
    (["control", "--settings", "x"], "--settings takes whole numbers and ranges, for example 0 2 5-7, not 'x'"),
    (["control", "--settings", "3-1"], "--settings takes numbers from 0 to 999"),
    (["control", "--seeds", "1000"], "--seeds takes numbers from 0 to 999"),
    (["control", "--seeds", "9" * 5_000], "--seeds takes numbers from 0 to 999"),
    (["control", "--ray-address", ""], "--ray-address is empty"),
    (["control", "--steps", "0"], "--steps must be at least 1"),
    (["control", "--threads", "0"], "--threads must be at least 1"),
    (["control", "--jobs", "-1"], "--jobs must be at least 0"),
    (["theory", "--tasks", "fish"], "theory has no tasks"),
    (["theory", "--jobs", "2"], "--jobs has no meaning here"),
    (["control", "--ray-address", "auto", "--jobs", "2"], "--jobs is for runs on this machine"),
    (["theory", "--scale", "huge"], "huge"),
    (["flight"], "flight"),
    (["control", "--tasks"], "--tasks names nothing; to have all of them, leave it out"),
    (["atari", "--seeds"], "--seeds names nothing"),
    (["control", "--ray-address", "auto"], "pip install '.[ray]'"),
]


@pytest.mark.parametrize(("args", "message"), MISTAKES, ids=[" ".join(args)[:60] for args, _ in MISTAKES])
def test_a_mistake_gets_one_clear_line_and_leaves_nothing(args, message, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    code, out, err = call("experiment", *args)
    assert code == 2
    assert out == ""
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not list(Path().iterdir())


# ------------------------------------------------------------------ statistics


def test_the_best_sixth():
    assert [statistics.best_count(n) for n in (1, 2, 6, 8, 9, 12, 30)] == [1, 1, 1, 1, 2, 2, 5]
    assert statistics.best(np.array([1.0, 5.0, 3.0, 5.0]), 3).tolist() == [1, 3, 2]


def test_interquartile_mean_by_hand():
    assert statistics.interquartile_mean(np.array([4.0, 100.0, 2.0, -50.0])) == 3  # the middle two
    assert statistics.interquartile_mean(np.array([7.0])) == 7
    # Of six, 1.5 are cut at each end: half of 2 and of 16, all of 4 and 8.
    assert statistics.interquartile_mean(np.array([1.0, 2, 4, 8, 16, 32])) == pytest.approx((1 + 4 + 8 + 8) / 3)
    both = statistics.interquartile_mean(np.array([[1.0, 2, 3, 4], [0, 0, 10, 10]]))
    assert both.tolist() == [2.5, 5.0]
    often = statistics.interquartile_mean(np.array([8.0, 1, 4, 9]), np.array([2, 0, 1, 1]))
    assert often == statistics.interquartile_mean(np.array([4.0, 8, 8, 9])) == 8


def test_bootstrap_intervals():
    assert all(math.isnan(bound) for bound in statistics.bootstrap(np.array([1.0])))
    assert statistics.bootstrap(np.full(9, 3.0)) == (3.0, 3.0)
    values = np.random.default_rng(0).normal(size=400)
    low, high = statistics.bootstrap(values)
    assert low < statistics.interquartile_mean(values) < high
    # The theory's: of normal values the mean of the middle half has 1.195 times the mean's variance.
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(1.195) * values.std() / 20, rel=0.1)
    assert statistics.bootstrap(values) == (low, high)


def test_values_of_a_group_are_drawn_together():
    values = np.random.default_rng(0).normal(size=40)
    alone = statistics.bootstrap(values)
    ten_times = statistics.bootstrap(np.repeat(values, 10), np.repeat(range(40), 10))
    assert ten_times == pytest.approx(alone, abs=0.05)  # no narrower: the same 40
    assert all(math.isnan(bound) for bound in statistics.bootstrap(values, [3] * 40))


# ------------------------------------------------------------------ summaries


def a_run(final, setting=0, method="acer", seed=0, env="fish", x=(100.0, 200.0), evaluation=0.0, diverged=False):
    """A run whose return rises from 0 to `final`."""
    config = configuration.defaults(env, env in TASKS, "control" if env in TASKS else "atari")
    columns = {"steps": np.array(x), "seconds": np.array(x) / 10, "return_mean": np.array([0.0, final])}
    columns |= {"score": columns["return_mean"], "kl": np.ones(2), "trust_region_active": np.array([0.0, 0.5])}
    return Run(Job(method, setting, seed, config), columns, evaluation, diverged)


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


def test_runs_on_images_all_have_one_precision(tmp_path, monkeypatch):
    tried = []
    monkeypatch.setattr(experiment, "faster_precision", lambda device: tried.append(device) or "bfloat16")
    planned = plans.jobs("atari", "small", ALL)
    assert {job.config.precision for job in experiment.with_one_precision(planned, tmp_path)} == {"bfloat16"}
    assert len(tried) == 1
    begun = replace(planned[3].config, precision="float32")
    runs.work(tmp_path, planned[3]).mkdir(parents=True)
    (runs.work(tmp_path, planned[3]) / "config.json").write_text(configuration.to_json(begun))
    assert {job.config.precision for job in experiment.with_one_precision(planned, tmp_path)} == {"float32"}
    assert len(tried) == 1
    control = plans.jobs("control", "small", ALL)
    assert experiment.with_one_precision(control, tmp_path) == control


def test_a_figure_says_what_was_left_out():
    jobs = plans.jobs("control", "small", Narrowing(tasks=("fish", "walker"), settings=(0,)))
    assert "; only fish, walker;" in experiment.caption("control", "small", jobs, 10, 10)
    jobs = plans.jobs("control", "small", Narrowing(methods=("acer", "tis")))
    assert "; only acer, tis;" in experiment.caption("control", "small", jobs, 72, 72)
    assert "only" not in experiment.caption("control", "small", plans.jobs("control", "small", ALL), 180, 180)


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


def test_methods_are_compared_where_all_of_them_have_been_run():
    planned = plans.jobs(
        "control", "small", Narrowing(tasks=("fish", "walker"), methods=("acer", "tis"), settings=(0, 1))
    )
    present = {job.name for job in planned} - {"fish-tis-1-0"}
    shown = plans.comparable(planned, present)
    assert {job.name for job in planned} - {job.name for job in shown} == {"fish-tis-1-0", "fish-acer-1-0"}


def test_a_run_is_known_again_by_what_was_learnt_in_it(tmp_path):
    (job,) = plans.jobs("control", "small", Narrowing(tasks=("fish",), methods=("acer",), settings=(0,)))
    file, settings = tmp_path / "config.json", json.loads(configuration.to_json(job.config))

    def known(**changes):
        file.write_text(json.dumps({name: of for name, of in (settings | changes).items() if of is not None}))
        return runs.same(file, job.config)

    assert known() and known(precision="float32")
    assert known(threads=2, keep_checkpoints=5, checkpoint_minutes=1.0)  # how, not what
    assert known(life_loss=None, setting_of_another_time=1)  # made before one setting, and after another
    assert not known(delta=2.0) and not known(steps=400_000) and not known(reward_scale=1.0)
    assert runs.same(tmp_path / "nothing.json", job.config)


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


def test_the_score_of_a_game_is_the_mean_over_the_past_million_frames():
    job = plans.jobs("atari", "smoke", Narrowing(methods=("acer-0",)))[0]
    Path("progress.csv").write_text("steps,seconds\n100,1\n250000,2\n600000,3\n")
    Path("episodes.csv").write_text("steps,return,length\n200,-21,800\n240000,-19,900\n500000,3,2000\n")
    files = runs.files_of(Path(), job)
    scores = [line.split(",")[-1] for line in files["progress.csv"].decode().splitlines()]
    assert scores == ["score", "", "-20", "3"]


# ------------------------------------------------------------------ theory


def sampled_estimates(p, state, samples, rng):
    """Estimates of the gradient at a state, from trajectories, as the paper writes them down: [samples, A] each."""
    states, actions = theory.trajectories(p, np.full(samples, state), rng)
    rho, v = p.pi / p.mu, (p.pi * p.q).sum(1)
    q_ret = k_step = v[states[-1]]
    for t in reversed(range(theory.LENGTH)):  # Algorithm 2
        x, a = states[t], actions[t]
        q_ret, k_step = (p.mdp.rewards[x, a] + p.mdp.gamma * of for of in (q_ret, k_step))
        if t:
            q_ret = np.minimum(1, rho[x, a]) * (q_ret - p.q[x, a]) + v[x]
    weights = rho[states[:-1], actions]
    score = np.eye(theory.ACTIONS) - p.pi[state]  # of each action
    taken = score[actions[0]]

    def acer(c, corrected=True):
        missing = sum(
            max(0, 1 - c / rho[state, b]) * p.pi[state, b] * (p.q[state, b] - v[state]) * score[b] * corrected
            for b in range(theory.ACTIONS)
        )
        return (np.minimum(c, weights[0]) * (q_ret - v[state]))[:, None] * taken + missing

    return {
        "product of ρ": (weights.prod(0) * (k_step - v[state]))[:, None] * taken,
        "ACER, c = ∞": acer(math.inf),
        "ACER, c = 10": acer(10),
        "ACER, c = 1": acer(1),
        "c = 1 without correction": acer(1, corrected=False),
    }


def test_the_moments_of_gradient_estimates_are_those_of_samples():
    p, samples = theory._drifted(0, 0.3), 100_000
    estimates = sampled_estimates(p, 1, samples, np.random.default_rng(0))
    exact = theory.exact_moments(p)
    assert list(exact) == list(estimates)
    for name, of in estimates.items():
        error = np.abs(of.mean(0) - exact[name].mean[1]) / (of.std(0) / math.sqrt(samples))
        assert error.max() < 4.5, name
        tolerance = 0.3 if name == "product of ρ" else 0.03  # its tail is heavy
        assert of.var(0).sum() == pytest.approx(exact[name].variance[1], rel=tolerance), name


def test_truncation_with_correction_has_no_bias_with_a_perfect_critic_and_without_it_has():
    p = theory._drifted(0, 1.0)
    perfect = theory.Problem(p.mdp, p.pi, p.mu, state_action_values(p.mdp, p.pi))
    truth, moments = theory.true_gradient(perfect), theory.exact_moments(perfect)
    for name, of in moments.items():
        assert np.allclose(of.mean, truth, atol=1e-12) == (name != "c = 1 without correction"), name
    spread = {name: of.variance.mean() for name, of in moments.items()}
    assert spread["ACER, c = 1"] < spread["ACER, c = 10"] < spread["ACER, c = ∞"] < spread["product of ρ"]


def test_on_policy_every_weight_is_one():
    p = theory._drifted(1, 0.0)
    moments = theory.exact_moments(p)
    for c in ("∞", "10"):
        np.testing.assert_allclose(moments[f"ACER, c = {c}"].mean, moments["ACER, c = 1"].mean)
        np.testing.assert_allclose(moments[f"ACER, c = {c}"].variance, moments["ACER, c = 1"].variance)
    tis = theory.tis_moments(p, 50_000, np.random.default_rng(0))
    np.testing.assert_allclose(tis.variance, moments["product of ρ"].variance, rtol=0.05)


def test_theory_from_the_command_line(call):
    code, out, _ = call("experiment", "theory", "--out", "t")
    assert code == 0
    assert out.split() == ["t/theory.png", "t/theory.svg", "t/theory.csv"]
    assert Path("t/theory.png").stat().st_size > 20_000
    assert "scale: smoke" in Path("t/theory.svg").read_text()
    rows = read(Path("t/theory.csv"))
    factors = {float(row["x"]): float(row["value"]) for row in rows if row["panel"] == "contraction"}
    assert factors[0] == pytest.approx(0.9) and factors[math.inf] == pytest.approx(0, abs=1e-9)
    assert all(later <= earlier + 1e-9 for earlier, later in itertools.pairwise(factors.values()))
    retrace = [float(row["high"]) for row in rows if (row["panel"], row["series"]) == ("limits", "Retrace")]
    assert max(retrace) < 1e-9


# ------------------------------------------------------------------ whole experiments

TINY = ["experiment", "control", "--tasks", "fish", "--methods", "acer", "--steps", "5000", "--jobs", "1"]


def started(*args):
    command = [sys.executable, "-m", "acer", *args]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, process, seconds=120):
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


def rows_of(path):
    return len(path.read_text().splitlines()) if path.exists() else 0


def without_clock(path):
    """A file's contents but for what the clock says."""
    if path.suffix == ".csv":
        return [{name: value for name, value in row.items() if name not in runs.CLOCK} for row in read(path)]
    if path.name == "result.json":
        result = json.loads(path.read_text())
        return {**result, "evaluation": {**result["evaluation"], "seconds": ""}}
    if path.name == "state.json":
        clock = ("seconds", "row_seconds", "sha256")
        return {name: value for name, value in json.loads(path.read_text()).items() if name not in clock}
    return path.read_bytes()


def contents(out):
    return {str(path.relative_to(out)): without_clock(path) for path in out.rglob("*") if path.is_file()}


def test_killed_in_the_middle_and_started_again_it_ends_with_the_same_files(call):
    pytest.importorskip("mujoco")
    whole, parts = Path("whole"), Path("parts")
    code, out, err = call(*TINY, "--out", whole)
    assert code == 0, err
    assert out.split() == [f"whole/control{ending}" for ending in (".png", ".svg", ".csv", "-pairs.csv")]
    assert "2 runs of 5,000 steps, 0 of them done" in err
    assert "2/2 runs  fish-acer-1-0: done" in err
    assert not (whole / "work").exists()

    first, second = (parts / "work" / f"fish-acer-{i}-0" for i in (0, 1))
    process = started(*TINY, "--out", str(parts))
    wait_for(lambda: rows_of(first / "progress.csv") > 3, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "give the same command again" in err
    assert (first / "checkpoints" / "LATEST").exists()  # it goes on from there
    assert not (parts / "runs").exists()

    process = started(*TINY, "--out", str(parts))
    wait_for(lambda: rows_of(second / "progress.csv") > 3, process)
    process.kill()
    process.communicate()
    assert [path.name for path in (parts / "runs").iterdir()] == ["fish-acer-0-0"]

    code, _, err = call(*TINY, "--out", parts)  # waits for the orphan, which saves and ends
    assert code == 0, err
    assert "1 of them done" in err
    assert contents(parts) == contents(whole)
    before = {path: path.stat().st_mtime_ns for path in (parts / "runs").rglob("*")}
    assert call(*TINY, "--out", parts)[0] == 0
    assert {path: path.stat().st_mtime_ns for path in (parts / "runs").rglob("*")} == before

    files = [path.read_bytes() for path in sorted(parts.glob("control.*"))]
    code, out, err = call(*TINY[:-2], "--settings", "0-2", "--draw", "--out", parts)  # of three settings two are there
    assert code == 0 and "2 of 3 runs" in (parts / "control.svg").read_text(), err
    assert not (parts / "runs" / "fish-acer-2-0").exists()
    assert call(*TINY[:-2], "--draw", "--out", parts)[0] == 0
    assert [path.read_bytes() for path in sorted(parts.glob("control.*"))] == files
    code, _, err = call(*TINY[:-2], "--settings", "7", "--draw", "--out", parts)
    assert code == 2 and "nothing to draw in parts yet" in err

    code, _, err = call(*TINY[:-4], "--steps", "4000", "--out", parts)
    assert code == 2
    assert "parts/runs/fish-acer-0-0 was made with other settings" in err

    # Another experiment finds the runs that it shares, and the run's directory is one that `acer plot` draws.
    code, _, err = call("experiment", "sensitivity", *TINY[2:], "--out", parts)
    assert code == 0 and "2 of them done" in err
    assert len(read(parts / "sensitivity.csv")) == 2
    assert call("plot", parts / "runs" / "fish-acer-0-0")[0] == 0

    # And one whose agent plays.
    code, out, err = call("eval", parts / "runs" / "fish-acer-0-0", "--episodes", "1", "--json")
    assert code == 0 and json.loads(out)["episodes"] == 1, err


def test_atari_from_the_command_line(call):
    pytest.importorskip("ale_py")
    code, out, err = call("experiment", "atari", "--methods", "acer-0", "--out", "a", "--jobs", "1")
    assert code == 0, err
    assert "a/atari.png" in out
    (row,) = read(Path("a/atari.csv"))
    assert row["method"] == "acer-0" and float(row["median_maximum"]) < 0.5
    config = json.loads(Path("a/runs/pong-acer-0-0-0/config.json").read_text())
    assert (config["algo"], config["replay_ratio"]) == ("acer", 0)


def small_job(method, setting, env):
    settings = {"steps": 700, "log_every": 100, "hidden": (16,), "eval_episodes": 2, "environments": 4, "threads": 1}
    return Job(method, setting, 0, configuration.defaults(env, False, **settings))


def test_a_run_that_fails_is_written_down_and_stops_no_other(call, monkeypatch):
    planned = [small_job("acer", i, env) for i, env in enumerate(["environments:NanObservation", "CartPole-v1"])]
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setattr(plans, "jobs", lambda *_: planned)
    code, out, err = call("experiment", "control", "--out", "x", "--jobs", "1")
    assert code == 3
    bad = "environments:NanObservation-acer-0-0"
    assert f"acer: {bad} failed: " in err and "NaN or infinity" in err
    assert "1 run failed; to try again, give the same command again" in err
    assert "x/control.png" in out
    result = json.loads(Path("x/runs", bad, "result.json").read_text())
    assert "NaN or infinity" in result["error"] and result["evaluation"] is None
    assert {row["task"]: row["failed"] for row in read(Path("x/control.csv"))} == {
        "environments:NanObservation": "1",
        "CartPole-v1": "0",
    }
    assert "1 of 2 runs" in Path("x/control.svg").read_text()


def test_a_ray_cluster_gives_the_same_runs(call, monkeypatch):
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    bad, good = (small_job("acer", i, env) for i, env in enumerate(["environments:NanObservation", "CartPole-v1"]))
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setattr(plans, "jobs", lambda *_: [bad, good])
    assert call("experiment", "control", "--out", "here")[0] == 3
    shown = []
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        monkeypatch.setattr(JobsDisplay, "show", lambda _, name, steps: shown.append((name, steps)))
        code, _, err = call("experiment", "control", "--out", "there", "--ray-address", cluster.address)
    finally:
        cluster.shutdown()
    assert code == 3 and f"{bad.name} failed: " in err and "NaN or infinity" in err
    assert runs.error_of(Path("there"), bad) == runs.error_of(Path("here"), bad)
    one, other = (contents(out / "runs" / good.name) for out in (Path("here"), Path("there")))
    assert one == other and "progress.csv" in one and "model.safetensors" in one
    assert any(name == good.name and steps > 0 for name, steps in shown)


def test_a_run_whose_learning_fails_is_a_result(call, monkeypatch):
    settings = {"learning_rate": 1e30, "max_gradient_norm": 1e30, "most_skipped": 3}
    bad, good = small_job("acer", 0, "CartPole-v1"), small_job("acer", 1, "CartPole-v1")
    bad = replace(bad, config=replace(bad.config, **settings))
    monkeypatch.setattr(plans, "jobs", lambda *_: [bad, good])
    code, _, err = call("experiment", "control", "--out", "x", "--jobs", "2")
    assert (
        code == 0 and "CartPole-v1-acer-0-0 diverged" in err and "3 updates in a row had gradients that are not" in err
    )
    assert json.loads(Path("x/runs/CartPole-v1-acer-0-0/result.json").read_text())["diverged"] is True
    assert [run.diverged for run in runs.load(Path("x"), [bad, good])] == [True, False]
    assert {(row["failed"], row["diverged"]) for row in read(Path("x/control.csv"))} == {("0", "1")}
    before = {file: file.read_bytes() for file in Path("x").rglob("*.*")}
    assert call("experiment", "control", "--out", "x", "--jobs", "2")[0] == 0  # a result: it is not trained further
    assert {file: file.read_bytes() for file in Path("x").rglob("*.*")} == before


def test_a_run_whose_checkpoints_cannot_be_read_is_kept(tmp_path):
    pytest.importorskip("mujoco")
    (job,) = plans.jobs("control", "smoke", Narrowing(tasks=("fish",), methods=("acer",), settings=(0,), steps=200))
    training = worker.take_up(job, tmp_path / "work")
    training.run()
    training.close()
    for file in (tmp_path / "work" / "checkpoints").rglob("model.safetensors"):
        file.write_bytes(b"nothing")
    before = (tmp_path / "work" / "progress.csv").read_bytes()
    with pytest.raises(CheckpointError, match="to begin this run again, remove"):
        worker.take_up(job, tmp_path / "work")
    assert (tmp_path / "work" / "progress.csv").read_bytes() == before


def test_a_process_that_dies_is_written_down(monkeypatch):
    job = small_job("acer", 0, "CartPole-v1")
    monkeypatch.setattr(jobs.sys, "executable", "/bin/false")
    jobs.run([job], Path("x"), jobs.here(1))
    assert runs.error_of(Path("x"), job) == "ended with code 1"
    assert runs.load(Path("x"), [job]) == []


def test_whatever_a_process_says_before_it_dies_is_read(monkeypatch):
    Path("python").write_bytes(b"#!/bin/sh\nprintf '\\377 no such thing' >&2\nexit 1\n")
    Path("python").chmod(0o755)
    job = small_job("acer", 0, "CartPole-v1")
    monkeypatch.setattr(jobs.sys, "executable", str(Path("python").absolute()))
    jobs.run([job], Path("x"), jobs.here(1))
    assert runs.error_of(Path("x"), job) == "� no such thing"


def test_a_run_that_is_killed_is_tried_again_and_ends_with_the_same_files(call, monkeypatch):
    job = small_job("acer", 0, "CartPole-v1")
    monkeypatch.setattr(plans, "jobs", lambda *_: [job])
    assert call("experiment", "control", "--out", "whole")[0] == 0

    def followed(process, *others):
        assert "steps" in process.stdout.readline()  # it trains
        process.kill()
        return original(process, *others)

    original = jobs._followed
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "_followed", followed)
        code, _, err = call("experiment", "control", "--out", "parts")
    assert code == 3 and f"{job.name} failed: killed by signal 9" in err
    assert call("experiment", "control", "--out", "parts")[0] == 0
    assert contents(Path("parts")) == contents(Path("whole"))

    # One that dies after its last word has come to its end all the same.
    before = contents(Path("parts"))
    with JobsDisplay(1, 0, job.config.steps, 0) as display:
        jobs._note(Path("parts"), job, -signal.SIGSEGV, runs.Failure(""), display)
    assert contents(Path("parts")) == before


def test_a_directory_that_cannot_be_written_is_one_clear_line(call):
    Path("file").write_text("mine")
    code, _, err = call("experiment", "theory", "--out", "file")
    assert code == 2
    assert "cannot write to file" in err and Path("file").read_text() == "mine"


def test_two_experiments_do_not_share_a_directory_at_once(monkeypatch):
    monkeypatch.setattr(jobs, "PATIENCE", 0.0)
    with jobs._claimed(Path("x")), pytest.raises(jobs.SettingsError, match="another experiment is at work in x"):
        jobs.run([], Path("x"), jobs.here(1))
    jobs.run([], Path("x"), jobs.here(1))


def test_the_time_left_counts_only_what_was_done_now(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with JobsDisplay(runs=4, runs_done=1, steps=4_000, steps_done=1_000) as display:
        display.begin("a", 1_000)
        display.show("a", 500)  # goes on from a checkpoint
        now = 60.0
        display.end("a", 1_000)
        assert "2/4 runs  a: done; 4 min left" in capsys.readouterr().err  # 500 steps a minute, 2,000 left
        display.begin("b", 1_000)
        display.end("b", 1_000, "no memory")
    assert "3/4 runs  b: no memory; 2 min left" in capsys.readouterr().err  # no step was done in no time


def test_a_caption_stays_on_its_figure(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(figures.plt, "close", drawn.append)
    figures.learning({"fish": {}}, "scale: small; " + "what else is to be said; " * 12, tmp_path / "long")
    (figure,) = drawn
    box = figure.texts[-1].get_window_extent()
    assert "scale: small" in figure.texts[-1].get_text()
    assert box.x0 >= 0 and box.x1 <= figure.bbox.x1 and box.y0 >= 0
    assert box.y1 <= figure.axes[0].get_tightbbox().y0


def test_figures_of_nothing_are_drawn_too(tmp_path):
    for draw_ in (
        lambda: figures.learning({"fish": {}}, "scale: smoke", tmp_path / "l"),
        lambda: figures.sensitivity([], "scale: smoke", tmp_path / "s"),
        lambda: figures.atari({}, {}, "scale: smoke", tmp_path / "a"),
    ):
        assert all(path.stat().st_size > 1_000 for path in draw_())
