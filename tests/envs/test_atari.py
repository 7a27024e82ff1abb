"""Atari: the emulator's traps, the preprocessing of Mnih et al. 2015, and what the learner sees of it."""

import subprocess
import sys

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
import pytest
import torch

pytest.importorskip("ale_py", reason="needs the extra atari")

import ale_py

from acer import ACER
from acer.config import defaults
from acer.envs import atari as module
from acer.envs import canonical, known_names, make_batch, preset_of, scores, spaces_of
from acer.envs.atari import ATARI, AtariBatch, emulators
from acer.errors import EnvironmentFault, SettingsError
from acer.learner.actor_learner import ActorLearner
from acer.learner.replay import Replay
from acer.learner.rollout import FIELDS, Rollout
from acer.run.training import Training
from acer.run.video import Shown

gym.register_envs(ale_py)

SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "replay_capacity": 400, "replay_start": 40,
         "threads": 1, "precision": "float32"}  # fmt: skip


def play(batch, steps, seeds=None, rng=None, on_step=None):
    """Random play; returns the first observations and every Step."""
    rng = rng or np.random.default_rng(0)
    first = batch.reset(seeds or [100 + i for i in range(batch.count)])
    taken = []
    for _ in range(steps):
        taken.append(batch.step(rng.integers(batch.action.size, size=batch.count)))
        if on_step and on_step(taken[-1]):
            break
    return first, taken


def random_act(batch, seed=0):
    rng = np.random.default_rng(seed)
    statistics = np.zeros((batch.count, batch.action.size), np.float32)
    return lambda x, masks: (rng.integers(batch.action.size, size=batch.count), statistics)


# ------------------------------------------------------------------ names


def test_57_games_have_names_spaces_and_scores():
    assert len(scores.GAMES) == 57 and set(scores.GAMES) <= set(known_names())
    for game in scores.GAMES:
        observation, action = spaces_of(game)
        assert observation.shape == (4, 84, 84) and observation.dtype == np.uint8
        assert not action.continuous and 3 <= action.size <= 18
        assert preset_of(game) == "atari"


def test_a_game_without_the_emulator_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(EnvironmentFault, match=r"pip install 'acer-rl\[atari\]'"):
        make_batch("pong", 1)


@pytest.mark.parametrize("name", ["ALE/Pong-v5", "ale_py:ALE/Pong-v5", "PongNoFrameskip-v4"])
def test_ale_pys_own_ids_are_the_same_games_with_the_papers_preprocessing(name):
    assert canonical(name) == "pong" and preset_of(name) == "atari"
    observation, action = spaces_of(name)
    assert observation.shape == (4, 84, 84) and action.size == 6


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.make("ALE/Pong-v5"),
        lambda: gym.make("PongNoFrameskip-v4", render_mode="rgb_array"),
        lambda: gym.make_vec("ALE/Pong-v5", num_envs=2, vectorization_mode="async"),
    ],
)
def test_an_instance_of_a_game_is_played_as_its_id_is(make, capsys):
    env = make()
    model = ACER(env, **SMALL)
    env.close()
    model.close()
    assert (model.config.env, model.config.preset, model.config.workers) == ("pong", "atari", False)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "has the paper's preprocessing" in said and "4×84×84" in said


def test_ale_pys_own_vector_is_the_papers_preprocessing_already(capsys):
    env = gym.make_vec("ALE/Pong-v5", num_envs=2)
    model = ACER(env, **SMALL)
    env.close()
    model.close()
    assert (model.config.env, model.config.preset, capsys.readouterr().err) == ("pong", "atari", "")


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.make("ALE/Pong-v5", frameskip=2),
        lambda: gym.wrappers.TimeLimit(gym.make("PongNoFrameskip-v4"), 99),
    ],
)
def test_a_game_that_is_made_otherwise_stays_so_and_is_said(make, capsys):
    env = make()
    model = ACER(env, **SMALL)
    env.close()
    model.close()
    assert model.config.preset == "atari" and model.agent.observation.shape == (3, 210, 160)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and f'ACER("{env.spec.id}") has the paper\'s preprocessing' in said


def test_games_beyond_the_57_keep_their_ids():
    assert canonical("ale_py:ALE/TicTacToe3D-v5") == canonical("ALE/TicTacToe3D-v5") == "ALE/TicTacToe3D-v5"
    assert spaces_of("ALE/TicTacToe3D-v5")[0].shape == (4, 84, 84)
    with pytest.raises(EnvironmentFault, match="unknown environment 'ALE/Pongg-v5'; did you mean"):
        spaces_of("ALE/Pongg-v5")


def test_options_of_games_are_refused_elsewhere():
    for name, value in (("sticky_actions", 0.25), ("full_action_set", True), ("life_loss", True)):
        with pytest.raises(SettingsError, match="Atari games"):
            defaults("CartPole-v1", False, **{name: value})
    with pytest.raises(SettingsError, match="threads of their own"):
        defaults("pong", False, "atari", workers=True)


def test_actions_are_those_that_the_game_knows_or_all():
    assert spaces_of("pong")[1].size == 6
    assert spaces_of("pong", full_action_set=True)[1].size == 18
    model = ACER("pong", full_action_set=True, **SMALL)
    assert model.agent.action.size == 18
    model.close()


# ------------------------------------------------------------------ the emulator's traps


def test_end_of_episode_dead_step_and_the_stack_after_a_reset():
    batch = AtariBatch("breakout", 1)
    first, steps = play(batch, 2_000, on_step=lambda step: step.ends_episode[0])
    assert steps[-1].ends_episode[0] and steps[-1].ends_return[0]
    last, before = steps[-1].observations[0], steps[-2].observations[0]
    assert np.array_equal(last[:-1], before[1:])  # the true last stack, not the next episode's first
    assert last[:3].any()
    dead = batch.step(np.array([1]))
    assert dead.rewards[0] == 0 and not dead.ends_episode[0] and not dead.ends_return[0]
    for reset in (first[0], dead.observations[0]):
        assert not reset[:3].any() and reset[3].any()  # three empty frames and one
    after = batch.step(np.array([1])).observations[0]
    assert np.array_equal(after[:3], dead.observations[0][1:])
    batch.close()


def test_a_dead_step_ignores_its_action():
    def second_episode(action):
        batch = AtariBatch("breakout", 1)
        play(batch, 2_000, on_step=lambda step: step.ends_episode[0])
        observations = [batch.step(np.array([action])).observations]
        observations += [batch.step(np.array([i % 4])).observations for i in range(20)]
        batch.close()
        return np.stack(observations)

    assert np.array_equal(second_episode(0), second_episode(3))


def test_scores_are_raw_and_the_learner_clips():
    batch = AtariBatch("space_invaders", 2)
    rollout = Rollout(batch, 100, 0.99, [1, 2])
    trajectory, _ = rollout.collect(random_act(batch))
    assert trajectory.rewards.max() >= 5  # the cheapest invader
    training = Training(defaults("space_invaders", False, "atari", **SMALL))
    learner = ActorLearner(training.agent, batch, np.random.SeedSequence(0))
    seen = learner._batch(trajectory).rewards.numpy() / training.config.reward_scale
    assert np.allclose(seen, np.clip(trajectory.rewards, -1, 1))
    training.close()
    batch.close()


def test_nobody_presses_fire():
    batch = AtariBatch("breakout", 1)
    batch.reset([3])
    for _ in range(200):  # without fire no ball is served, so no life is lost
        assert not batch.step(np.array([0])).ends_episode[0]
    assert batch._lives[0] == 5
    batch.close()


def test_lost_life_ends_the_return_and_not_the_game():
    batch = AtariBatch("breakout", 1, life_loss=True)
    rollout = Rollout(batch, 600, 0.99, [7])
    trajectory, finished = rollout.collect(random_act(batch))
    ends, live = trajectory.discounts[:, 0] == 0, trajectory.live[:, 0]
    games = len(finished)
    assert games >= 2
    dead = np.flatnonzero(~live)
    first_game = np.flatnonzero(ends & live)[:5]
    assert len(first_game) == 5 and first_game[-1] == dead[0] - 1  # five lives, the last one with the game
    assert all(live[first_game[:4] + 1])  # the step after a lost life is real
    whole = trajectory.rewards[: dead[0], 0].sum()
    assert finished[0] == (whole, dead[0])
    batch.close()

    plain = AtariBatch("breakout", 1)
    rollout = Rollout(plain, 600, 0.99, [7])
    other, also_finished = rollout.collect(random_act(plain))
    assert np.array_equal(other.observations, trajectory.observations) and also_finished == finished
    assert ((other.discounts[:, 0] == 0) & live).sum() == games
    plain.close()


def test_a_life_lost_while_another_game_begins_counts():
    together = AtariBatch("breakout", 3, life_loss=True)
    alone = [AtariBatch("breakout", 1, life_loss=True) for _ in range(3)]
    together.reset([1, 2, 3])
    for seed, batch in enumerate(alone, 1):
        batch.reset([seed])
    rng = np.random.default_rng(0)
    for _ in range(700):
        actions = rng.integers(4, size=3)
        step = together.step(actions)
        for i, batch in enumerate(alone):
            one = batch.step(actions[i : i + 1])
            assert (one.ends_return[0], one.ends_episode[0]) == (step.ends_return[i], step.ends_episode[i])
    for batch in (together, *alone):
        batch.close()


def test_the_frame_cap_truncates_and_counts_emulator_frames(monkeypatch):
    monkeypatch.setattr(module, "FRAME_CAP", 400)
    batch = AtariBatch("pong", 1)
    _, steps = play(batch, 200, on_step=lambda step: step.ends_episode[0])
    assert steps[-1].ends_episode[0] and not steps[-1].ends_return[0]  # bootstraps
    assert 400 / 4 - 30 / 4 - 1 <= len(steps) <= 400 / 4
    batch.close()


def test_sticky_actions_are_off_unless_asked_for():
    def observations(**options):
        batch = AtariBatch("pong", 1, **options)
        _, steps = play(batch, 150)
        batch.close()
        return np.stack([step.observations for step in steps])

    plain = observations()
    assert np.array_equal(plain, observations(sticky_actions=0.0))
    assert not np.array_equal(plain, observations(sticky_actions=0.25))


def test_up_to_30_no_ops():
    env = emulators("pong", 32, 0.0, False)
    _, info = env.reset(seed=np.arange(32))
    frames = info["episode_frame_number"]
    assert frames.min() <= 5 and 25 <= frames.max() <= 31 and len(set(frames.tolist())) > 12
    env.close()


def test_frame_skip_takes_the_maximum_of_the_last_two():
    full = {"img_height": 210, "img_width": 160}  # the screen's own size: nothing is resized
    skipping = emulators("seaquest", 1, 0.0, False, **full)
    every = emulators("seaquest", 1, 0.0, False, frameskip=1, stack_num=2, maxpool=False, **full)
    for env in (skipping, every):
        env.reset(seed=np.array([5]))
    rng = np.random.default_rng(0)
    for _ in range(100):
        action = rng.integers(18, size=1)
        seen = skipping.step(action)[0][0, -1]
        for _ in range(4):
            two = every.step(action)[0][0]
        assert np.array_equal(seen, two.max(0))
    skipping.close()
    every.close()


def test_the_same_whatever_the_number_of_threads():
    def observations(threads):
        batch = AtariBatch("qbert", 4, threads=threads)
        _, steps = play(batch, 100)
        batch.close()
        return np.stack([step.observations for step in steps])

    assert np.array_equal(observations(1), observations(3))


def test_neighbouring_runs_share_no_stream():
    def seeds(seed):
        training = Training(defaults("pong", False, "atari", seed=seed, **{**SMALL, "environments": 8}))
        found = set(training.learner.rollout.seeds)
        training.close()
        return found

    runs = [seeds(0), seeds(1), seeds(2)]
    assert all(len(run) == 8 for run in runs)
    assert not runs[0] & runs[1] and not runs[1] & runs[2]
    assert max(max(run) for run in runs) < 2**31


def test_each_environment_has_the_seed_that_it_was_given():
    three, one = AtariBatch("pong", 3), AtariBatch("pong", 1)
    three.reset([11, 500, 9])
    one.reset([500])
    for action in np.random.default_rng(0).integers(6, size=60):
        together, alone = three.step(np.array([0, action, 5])), one.step(np.array([action]))
        assert np.array_equal(together.observations[1], alone.observations[0])
    three.close()
    one.close()


# ------------------------------------------------------------------ replay


def test_replay_gives_back_real_frames_bit_for_bit_across_episode_ends():
    batch = AtariBatch("breakout", 4)
    rollout = Rollout(batch, 20, 0.99, [1, 2, 3, 4])
    act = random_act(batch)
    replay = Replay(capacity=1_000, length=20, environments=4)
    stored, ends = [], 0
    for _ in range(50):
        trajectory, finished = rollout.collect(act)
        ends += len(finished)
        replay.add(trajectory)
        stored.append(trajectory)
    assert ends >= 10
    found = np.empty((21, 4, 84, 84), np.uint8)
    for row in range(200):
        replay._unpack(row, found)
        assert np.array_equal(found, stored[row // 4].observations[:, row % 4])
    assert sum(map(len, replay._blocks)) / 4_000 < 250  # bytes a step, of 28,224
    copy = Replay(capacity=1_000, length=20, environments=4)
    arrays, blocks = replay.state()
    parts = {name: np.moveaxis(getattr(stored[0], name), 1, 0) for name in FIELDS}
    copy.restore(arrays, b"".join(blocks), {name: (part.shape[1:], part.dtype) for name, part in parts.items()})
    one, other = (r.sample(np.random.default_rng(3), 32) for r in (replay, copy))
    assert all(np.array_equal(getattr(one, name), getattr(other, name)) for name in FIELDS)
    batch.close()


# ------------------------------------------------------------------ the run


def test_a_run_is_taken_up_again(tmp_path):
    model = ACER("breakout", eval_episodes=1, eval_limit=50, **SMALL).learn(400, out=tmp_path / "run")
    model.close()
    again = ACER.load(tmp_path / "run", resume=True)
    assert again.steps >= 400 and again.config.preset == "atari"
    assert len(again._training.learner.replay) >= 20
    again.learn(200)
    assert again.steps >= 600
    again.close()


def test_on_policy_data_has_rho_of_one():
    """Acting has batches of 16, learning others: what differs is rounding, and it is logged."""
    training = Training(defaults("pong", False, "atari", **SMALL))
    report = training.learner.iterate()
    assert 0 <= report.diagnostics["rho_error"] < 1e-4
    training.close()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_precision_is_that_of_the_torso_only(precision):
    training = Training(defaults("pong", False, "atari", **{**SMALL, "precision": precision}))
    assert all(p.dtype == torch.float32 for p in training.agent.network.parameters())
    assert training.agent.home.square.dtype == training.agent.home.theta_a.dtype == torch.float32
    with torch.no_grad():
        training.agent.network.policy.head.weight.mul_(1_000)  # a policy that is sure of itself: other x, other ρ
    report = training.learner.iterate()
    assert all(np.isfinite(value) for value in report.diagnostics.values())
    assert report.diagnostics["entropy"] < 1.5
    assert report.diagnostics["rho_error"] < (1e-3 if precision == "float32" else 0.05)
    training.close()


def test_a_precision_without_convolutions_is_refused():
    with pytest.raises(SettingsError, match="precision='bfloat16' is for convolutions"):
        ACER("CartPole-v1", precision="bfloat16")


def test_the_video_is_the_agents_own_game_in_colour():
    options = {"sticky_actions": 0.25, "full_action_set": False, "life_loss": False}
    stage = Shown(make_batch("seaquest", 1, **options), ATARI.pictures("seaquest", **options))
    x, frames = stage.reset(5)
    alone = AtariBatch("seaquest", 1, sticky_actions=0.25)
    assert np.array_equal(x, alone.reset([5]))
    rng = np.random.default_rng(0)
    score = 0.0
    for _ in range(2_000):
        action = rng.integers(18, size=1)
        x, reward, over, frames = stage.step(action)
        score += reward
        assert frames[-1].shape == (630, 480, 3) and (len(frames) == 4 or over)
        if over:
            break
    assert over and score > 0
    # Both emulators have played the same number of frames: neither ran ahead of the other.
    _, _, _, _, colour = stage.pictures.env.step(np.array([0]))
    _, _, _, _, grey = stage.batch.env.step(np.array([0]))
    assert colour["episode_frame_number"] == grey["episode_frame_number"]
    assert (frames[-1].std(-1) > 0).any()  # colours
    stage.close()
    alone.close()


def test_record_writes_a_title_with_the_score(tmp_path):
    from acer.run.video import record

    model = ACER("breakout", eval_limit=30, **SMALL)
    returns = record(model.agent, "breakout", tmp_path / "game.mp4", 1, 0, deterministic=False)
    model.close()
    assert [path.name for path in tmp_path.iterdir()] == ["game.mp4"]
    ffmpeg = subprocess.run(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(tmp_path / "game.mp4")], capture_output=True, text=True, check=False
    )
    assert f"breakout, acer: {returns[0]:,.0f}" in ffmpeg.stderr and "60 fps" in ffmpeg.stderr
    assert "480x630" in ffmpeg.stderr


# ------------------------------------------------------------------ scores


def test_human_normalized_scores():
    assert scores.human_normalized("pong", -20.7) == 0 and scores.human_normalized("pong", 14.6) == 1
    assert scores.SCORES["breakout"] == (1.7, 30.5)


def test_the_papers_metric():
    frames = np.array([1.0, 2.0, 3.0, 10.0])
    found = scores.average_over_frames(frames, np.array([1.0, 2.0, 6.0, 5.0]), np.array([0.5, 2.0, 3.0, 10.0]), 1.5)
    assert np.isnan(found[0]) and found[1:].tolist() == [1.5, 4.0, 5.0]
    curves = [np.array([0.0, 3.0, 1.0]), np.array([1.0, 2.0, 2.0]), np.array([np.nan, 9.0, 0.0])]
    assert scores.median_over_games(curves).tolist() == [0.5, 3.0, 3.0]
