"""Which runs an experiment has, with which settings."""

import math

import numpy as np
import pytest

from acer.envs.scores import GAMES
from acer.experiments import plans, random_search
from acer.experiments.plan import Selection, from_json, to_json
from acer.experiments.random_search import draw
from experiment_runs import ALL


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
    low, high = np.log10(random_search.LEARNING_RATES)
    for values, (least, most) in (
        (np.log10([s.learning_rate for s in drawn]), (low, high)),
        (np.array([s.delta for s in drawn]), random_search.DELTAS),
    ):
        gaps = np.diff([least, *np.sort(values), most]) / (most - least)
        assert gaps.max() < 1 / 3


def test_every_setting_and_seed_has_a_random_stream_of_its_own():
    planned = plans.jobs("control", "small", Selection(seeds=(0, 1, 2)))
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


def test_the_papers_preset_has_what_the_paper_prints_and_nothing_of_ours():
    drawn = [draw(i) for i in range(30)]
    asked = Selection(preset="paper")
    for job in plans.jobs("control", "paper", asked) + plans.jobs("atari", "paper", asked):
        c = job.config
        game = job.config.env in GAMES
        assert (c.preset, c.environments, c.trajectories_per_update, c.replay_per_environment) == ("paper", 16, 1, True)
        assert (c.delta_unit, c.shared_torso, c.statistic) == ("rewards", True, "probabilities")
        assert (c.normalize_observations, c.reward_scale, c.learning_rate_decay) == (False, 1.0, "none")
        assert (c.rmsprop_decay, c.rmsprop_epsilon, c.max_gradient_norm) == (0.99, 0.1, math.inf)
        assert (c.trajectory_length, c.replay_capacity) == ((20, 50_000) if game else (50, 5_000))
        assert (c.truncation, c.alpha) in ((10, 0.99) if game else (5, 0.995),) or c.algo == "no-truncation"
        assert c.clip_rewards == game and c.entropy_weight == (0.001 if game else 0.0)
        assert c.learning_rate == (7e-4 if game else drawn[job.setting].learning_rate)
    own, printed = (plans.jobs("control", "small", Selection(preset=name)) for name in ("", "paper"))
    assert [job.name for job in own] == [job.name for job in printed]


def test_a_setting_can_be_changed_for_every_run_even_one_that_is_drawn():
    changes = plans.changes(["trajectories-per-update=1", "hidden=[32, 32]", "learning_rate=3e-4", "returns=degris"])
    for job in plans.jobs("control", "small", Selection(methods=("acer",), changes=changes)):
        c = job.config
        assert (c.trajectories_per_update, c.hidden, c.learning_rate, c.returns) == (1, (32, 32), 3e-4, "degris")


def test_a_plan_can_be_narrowed_in_every_direction():
    narrowing = Selection(tasks=("fish",), methods=("acer", "tis"), settings=(3, 7), seeds=(1,), steps=999)
    planned = plans.jobs("control", "small", narrowing)
    assert [job.name for job in planned] == ["fish-acer-3-1", "fish-tis-3-1", "fish-acer-7-1", "fish-tis-7-1"]
    assert {job.config.steps for job in planned} == {999}
    games = plans.jobs("atari", "small", Selection(games=("qbert", "pong"), methods=("acer-8",)))
    assert [job.name for job in games] == ["qbert-acer-8-0-0", "pong-acer-8-0-0"]


def test_numbers_and_ranges():
    assert plans.numbers("--settings", ["0", "2", "5-7"]) == (0, 2, 5, 6, 7)
    assert plans.numbers("--settings", []) == ()


def test_a_job_survives_the_way_to_another_process():
    for job in plans.jobs("ablation", "smoke", ALL):  # no-truncation has an infinite setting
        assert from_json(to_json(job)) == job


def test_methods_are_compared_where_all_of_them_have_been_run():
    planned = plans.jobs(
        "control", "small", Selection(tasks=("fish", "walker"), methods=("acer", "tis"), settings=(0, 1))
    )
    present = {job.name for job in planned} - {"fish-tis-1-0"}
    shown = plans.comparable(planned, present)
    assert {job.name for job in planned} - {job.name for job in shown} == {"fish-tis-1-0", "fish-acer-1-0"}
