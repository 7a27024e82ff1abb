"""The Python interface, and the same bits from the same seed."""

import hashlib
import os
import re
import signal
import subprocess
import sys
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch

from acer import ACER, Callback
from acer.config import ALGORITHMS, SETTINGS
from acer.config.guesses import STABLE_BASELINES
from acer.errors import AcerError, CheckpointError, SettingsError
from acer.run import tables
from environments import Corridor, Target, Unbounded
from run_files import read_state, rewrite_state

SMALL = {"hidden": (16,), "replay_start": 320, "eval_episodes": 2}


def bits(model):
    return hashlib.sha256(model.agent.home.theta.numpy().tobytes()).hexdigest()


def test_four_lines():
    model = ACER("CartPole-v1", **SMALL).learn(700)
    action, state = model.predict(np.zeros(4, np.float32), deterministic=True)
    assert action in (0, 1)
    assert state is None
    assert model.steps >= 700


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_algorithm_moves_both_networks_and_stays_finite(env, algo):
    if (env, algo) == ("CartPole-v1", "no-sdn"):
        with pytest.raises(SettingsError, match="only continuous actions"):
            ACER(env, algo=algo, **SMALL)
        return
    model = ACER(env, algo=algo, **SMALL)
    home = model.agent.home
    theta, average = home.theta.clone(), home.theta_a.clone()
    model.learn(1_300)
    assert torch.isfinite(home.theta).all()
    assert not torch.equal(home.theta, theta)
    assert not torch.equal(home.theta_a, average)
    assert model._training.state.home.skipped == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"trust_region": "penalty", "kl_weight": 0.5},
        {"statistic": "probabilities"},
        {"returns": "tree-backup", "trace_lambda": 0.9},
        {"returns": "degris", "trace_lambda": 0.5},
        {"layer_norm": True, "activation": "tanh"},
        {"normalize_observations": True, "clip_rewards": True},
        {"shared_torso": True},
        {"learning_rate_decay": "none"},
        {"replay_ratio": 0.0},
        {"replay_ratio": 0.5, "on_policy": False},
        {"hidden": ()},
    ],
)
def test_every_option_does_something(settings):
    plain = ACER("CartPole-v1", **SMALL).learn(1_300)
    other = ACER("CartPole-v1", **{**SMALL, **settings}).learn(1_300)
    assert torch.isfinite(other.agent.home.theta).all()
    assert bits(plain) != bits(other)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_same_seed_same_bits_twice_in_a_row(env):
    first, second, other = (ACER(env, seed=seed, **SMALL).learn(1_300) for seed in (3, 3, 4))
    assert bits(first) == bits(second)
    assert bits(first) != bits(other)
    assert first.evaluate(3).returns == second.evaluate(3).returns


def test_same_seed_same_bits_across_processes():
    code = (
        "import hashlib; from acer import ACER; "
        f"m = ACER('CartPole-v1', seed=5, **{SMALL!r}).learn(1_300); "
        "print(hashlib.sha256(m.agent.home.theta.numpy().tobytes()).hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert bits(ACER("CartPole-v1", seed=5, **SMALL).learn(1_300)) == there


def test_learning_in_parts_is_learning_in_one():
    whole = ACER("CartPole-v1", learning_rate_decay="none", **SMALL).learn(1_600)
    parts = ACER("CartPole-v1", learning_rate_decay="none", **SMALL).learn(320)
    parts.learn(1_600 - parts.steps)
    assert parts.steps == whole.steps
    assert bits(parts) == bits(whole)


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_save_and_load(env, tmp_path):
    model = ACER(env, normalize_observations=True, **SMALL).learn(700)
    model.save(tmp_path / "m")
    loaded = ACER.load(tmp_path / "m")
    assert bits(loaded) == bits(model)
    x = np.random.default_rng(0).normal(size=(7, *model.agent.observation.shape)).astype(np.float32)
    np.testing.assert_array_equal(model.predict(x, deterministic=True)[0], loaded.predict(x, deterministic=True)[0])
    loaded.learn(320)
    model.save(tmp_path / "m")  # replaces a saved model
    (tmp_path / "notes").mkdir()
    with pytest.raises(CheckpointError, match="not a saved model"):
        model.save(tmp_path / "notes")
    assert {file.name for file in (tmp_path / "m").iterdir()} == {"model.safetensors", "state.json"}
    with pytest.raises(CheckpointError, match="without its run"):
        ACER.load(tmp_path / "m", resume=True)


def test_resume_takes_learner_replay_streams_and_counters_along(tmp_path):
    model = ACER("Pendulum-v1", **SMALL).learn(700, out=tmp_path / "run")
    back = ACER.load(tmp_path / "run", resume=True)
    a, b = model._training.state, back._training.state
    assert bits(model) == bits(back)
    for name in ("theta_a", "square"):
        assert torch.equal(getattr(a.agent.home, name), getattr(b.agent.home, name))
    assert (a.steps, a.meter.state(), a.progress.evaluations) == (b.steps, b.meter.state(), b.progress.evaluations)
    (arrays, blocks), (same_arrays, same_blocks) = a.learner.replay.state(), b.learner.replay.state()
    assert blocks == same_blocks and arrays.keys() == same_arrays.keys()
    assert all(np.array_equal(array, same_arrays[name]) for name, array in arrays.items())
    assert all(b.learner.rngs[n].bit_generator.state == r.bit_generator.state for n, r in a.learner.rngs.items())
    back.learn(700)
    assert back.steps >= 1_400
    assert int(tables.read(tmp_path / "run" / "progress.csv")[-1]["steps"]) == back.steps  # it goes on in its directory
    assert ACER.load(tmp_path / "run").steps == 0 and ACER.load(tmp_path / "run", resume=True).steps == back.steps


def test_an_environment_that_has_no_name_is_asked_for(tmp_path):
    ACER(lambda: gym.make("CartPole-v1"), **SMALL).learn(320, out=tmp_path / "run").close()
    with pytest.raises(CheckpointError, match="--env module:Class, in Python env=…"):
        ACER.load(tmp_path / "run")


def test_people_write_numbers_of_steps_as_floats(tmp_path):
    model = ACER("CartPole-v1", **SMALL).learn(7e2)
    model.save(tmp_path / "m")
    assert ACER.load(tmp_path / "m").config.steps == 700
    for steps in (-5, 0, 10.5):
        with pytest.raises(SettingsError):
            model.learn(steps)


def test_a_killed_save_does_not_stop_the_next(tmp_path):
    model = ACER("CartPole-v1", **SMALL)
    model.save(tmp_path / "m")
    (tmp_path / ".m.replaced.partial").mkdir()
    (tmp_path / ".m.replaced.partial" / "half").touch()
    model.save(tmp_path / "m")
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_the_best_of_one_model_is_not_asked_for(tmp_path):
    ACER("CartPole-v1", **SMALL).save(tmp_path / "m")
    with pytest.raises(CheckpointError, match="--best is for the directory of a run"):
        ACER.load(tmp_path / "m", best=True)


def test_a_run_that_cannot_begin_leaves_nothing(tmp_path):
    class Watch(Callback):
        def on_update(self, training, numbers):
            pass

    with pytest.raises(SettingsError, match="on_update"):
        ACER("CartPole-v1", home="shared", **SMALL).learn(700, out=tmp_path / "run", callbacks=[Watch()])
    assert not (tmp_path / "run").exists()


def test_an_interrupt_ends_learning_after_saving(tmp_path):
    class Interrupt(Callback):
        def on_rollout(self, training, report):
            os.kill(os.getpid(), signal.SIGINT)

    model = ACER("CartPole-v1", **SMALL)
    with pytest.raises(KeyboardInterrupt):
        model.learn(100_000, out=tmp_path / "run", callbacks=[Interrupt()])
    assert (tmp_path / "run" / "checkpoints" / "LATEST").exists()
    assert len(model.evaluate(3).returns) == 3  # the interrupt is over


def test_a_checkpoint_of_another_environment_is_refused(tmp_path):
    ACER("CartPole-v1", **SMALL).save(tmp_path / "m")
    with pytest.raises(CheckpointError, match="another environment") as error:
        ACER.load(tmp_path / "m", env="Acrobot-v1")
    assert "\n" not in str(error.value)
    state = read_state(tmp_path / "m")
    state["config"]["hidden"] = [32]
    rewrite_state(tmp_path / "m", state)
    with pytest.raises(CheckpointError, match="the network needs"):
        ACER.load(tmp_path / "m")


@pytest.mark.parametrize("kind", ["box", "discrete", "dict", "tuple", "image"])
def test_predict_takes_one_observation_or_many(kind):
    env = gym.vector.SyncVectorEnv([partial(Corridor, kind)] * 3)
    model = ACER(partial_named(kind), **SMALL)
    one, _ = env.envs[0].reset()
    action, _ = model.predict(one)
    assert action in (1, 2)
    many, _ = env.reset()
    actions, state = model.predict(many, state=("kept",))
    assert actions.shape == (3,)
    assert set(actions.tolist()) <= {1, 2}
    assert state == ("kept",)


def partial_named(kind):
    def corridor():
        return gym.wrappers.TimeLimit(Corridor(kind), 30)

    return corridor


def test_predict_gives_actions_that_the_environment_takes():
    model = ACER(Target, **SMALL)
    action, _ = model.predict(np.zeros(2))
    assert model.agent.action.space.contains(action)
    assert model.predict(np.zeros((4, 2)))[0].shape == (4, 2, 1)


def test_images_train():
    model = ACER(
        partial_named("image"), environments=4, trajectory_length=5, hidden=(16,), replay_start=20, eval_episodes=1
    )
    theta = bits(model)
    model.learn(40)
    assert bits(model) != theta


def test_stable_baselines_evaluates_our_model():
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.monitor import Monitor

    model = ACER("CartPole-v1", **SMALL)
    returns, lengths = evaluation.evaluate_policy(
        model, Monitor(gym.make("CartPole-v1")), n_eval_episodes=3, return_episode_rewards=True
    )
    assert len(returns) == 3
    assert returns == lengths
    model = ACER("Pendulum-v1", **SMALL)
    mean, _ = evaluation.evaluate_policy(model, Monitor(gym.make("Pendulum-v1")), n_eval_episodes=2)
    assert mean < 0


def test_callbacks_see_the_run_and_can_end_it(tmp_path):
    seen = {"rollout": 0, "update": 0, "evaluation": 0}

    class Count(Callback):
        def on_rollout(self, training, report):
            seen["rollout"] += 1
            assert report.steps > 0
            return training.steps < 1_000

        def on_update(self, training, diagnostics):
            seen["update"] += 1
            assert "trust_region_active" in diagnostics

        def on_evaluation(self, training, evaluation):
            seen["evaluation"] += 1
            assert len(evaluation.returns) == 2

    model = ACER("CartPole-v1", eval_every=320, **SMALL).learn(100_000, callbacks=[Count()])
    assert 1_000 <= model.steps < 1_400
    assert seen["rollout"] == 4
    assert seen["update"] == model._training.learner.updates
    assert seen["evaluation"] >= 2


def test_a_callback_sees_a_small_view_of_its_run():
    class Look(Callback):
        def on_rollout(self, run, report):
            assert run.config.env == "CartPole-v1"
            assert run.metrics["steps"] == run.steps and run.metrics["updates"] >= 0
            if run.steps > 600:
                self.played = run.evaluate(2).returns
                run.stop()

        def on_evaluation(self, run, evaluation):
            self.told = evaluation.returns

    look = Look()
    model = ACER("CartPole-v1", **SMALL).learn(100_000, callbacks=[look])
    assert 600 < model.steps < 1_400
    assert len(look.played) == 2 and len(look.told) > 0


def test_an_evaluation_ends_though_its_episodes_do_not():
    def endless():
        return Corridor(length=10**9)

    result = ACER(endless, eval_limit=50, **SMALL).evaluate(20)
    assert result.lengths == [50] * 20


def test_bad_settings_in_python_are_one_line():
    for arguments in (
        {"env": "CartPool-v1"},
        {"env": "CartPole-v1", "learning_rte": 1},
        {"env": "CartPole-v1", "algo": "x"},
    ):
        with pytest.raises(AcerError) as error:
            ACER(**arguments)
        assert "\n" not in str(error.value)


# ------------------------------------------------------------------ the shape that users of Stable-Baselines3 know


@pytest.mark.parametrize(
    "make",
    [
        lambda: gym.make("CartPole-v1", render_mode="rgb_array"),
        lambda: gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync"),
        lambda: gym.make_vec("CartPole-v1", num_envs=4),
    ],
)
def test_an_environment_that_is_made_already_is_taken_as_a_model(make):
    env = make()
    model = ACER(env, **SMALL)
    assert model.config.env == "CartPole-v1" and model.config.env_kwargs == {}
    assert model.config.environments == getattr(env, "num_envs", 16)
    model.learn(320).close()
    env.close()


def test_an_instance_keeps_its_arguments_and_its_wrappers(tmp_path):
    model = ACER(gym.make("MountainCar-v0", goal_velocity=0.01), **SMALL)
    assert (model.config.env, model.config.env_kwargs) == ("MountainCar-v0", {"goal_velocity": 0.01})
    model = ACER(gym.wrappers.TimeLimit(gym.make("CartPole-v1"), 7), **SMALL)
    assert max(model.evaluate(4).lengths) <= 7
    model.save(tmp_path / "m")
    with pytest.raises(CheckpointError, match="name it yourself"):  # the wrappers are in no file
        ACER.load(tmp_path / "m")
    assert max(ACER.load(tmp_path / "m", env=gym.make("CartPole-v1", max_episode_steps=3)).evaluate(2).lengths) <= 3


def test_a_wrapped_instance_has_its_ids_preset():
    pytest.importorskip("mujoco", reason="needs the extra control")
    model = ACER(gym.wrappers.TimeLimit(gym.make("InvertedPendulum-v5"), 7))
    assert model.config.preset == ACER("InvertedPendulum-v5").config.preset == "control"


def test_vectors_of_own_functions_and_own_vector_classes():
    many = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 4)
    assert ACER(many, **SMALL).learn(320).config.environments == 4
    from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

    model = ACER(CartPoleVectorEnv, env_kwargs={"max_episode_steps": 9}, **SMALL).learn(320)
    assert max(model.evaluate(4).lengths) <= 9


def test_what_is_no_environment_is_said():
    with pytest.raises(AcerError, match="no environment: give a Gymnasium id"):
        ACER(7)
    with pytest.raises(AcerError, match="has no spec"):
        ACER(Target())


def test_learn_takes_the_words_of_stable_baselines():
    seen = []
    model = ACER("CartPole-v1", **SMALL)
    model.learn(total_timesteps=320, callback=lambda training, report: seen.append(training.steps), verbose=0)
    assert model.steps >= 320 and seen[-1] == model.steps
    with pytest.raises(SettingsError, match="mean the same"):
        model.learn(10, total_timesteps=10)


@pytest.mark.parametrize(
    ("made", "learns", "shown"),
    [
        ({}, {}, False),
        ({"verbose": 1}, {}, True),
        ({"verbose": 1}, {"verbose": 0}, False),
        ({}, {"verbose": 1}, True),
        ({}, {"progress_bar": True}, True),
        ({}, {"progress": True}, True),
    ],
)
def test_verbose_and_progress_bar_show_the_training(made, learns, shown, capsys):
    ACER("CartPole-v1", log_every=320, **made, **SMALL).learn(320, **learns)
    out, err = capsys.readouterr()
    assert out == "" and ("of 320 steps" in err) == shown


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ACER("CartPole-v1", n_steps=5), "unknown setting 'n_steps', a word of Stable-Baselines3: say traj"),
        (lambda: ACER("CartPole-v1").learn(9, tb_log_name="a"), "learn takes no 'tb_log_name', a word of Stable-Basel"),
        (lambda: ACER("CartPole-v1").learn(9, log_interval=4), "say ACER(…, log_every=…), which counts steps"),
        (lambda: ACER("CartPole-v1").learn(9, reset_num_timesteps=False), "a new ACER begins at 0"),
        (lambda: ACER("CartPole-v1").learn(9, progres=True), "learn takes no 'progres'; did you mean 'progress'?"),
    ],
)
def test_words_that_have_no_meaning_here_are_refused_in_one_line(call, message):
    with pytest.raises(SettingsError, match=re.escape(message)):
        call()


def test_what_stands_for_a_word_of_stable_baselines_is_ours():
    for said in STABLE_BASELINES.values():
        for name in re.findall(r"say (\w+)$", said):
            assert name in SETTINGS
    assert not STABLE_BASELINES.keys() & SETTINGS.keys()


@pytest.mark.parametrize("name", ["callback", "callbacks"])
def test_one_callback_a_function_or_several(name):
    class Stop(Callback):
        def on_rollout(self, training, report):
            return False

    for given in (Stop(), [Stop()], lambda training, report: False):
        model = ACER("CartPole-v1", **SMALL)
        assert model.learn(100_000, **{name: given}).steps < 1_000
    for given, message in ((Stop, "is a class: give an instance, Stop()"), ([3], "3 is no callback")):
        with pytest.raises(SettingsError, match=re.escape(message)):
            ACER("CartPole-v1", **SMALL).learn(320, **{name: given})


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (np.array([0, np.nan, 0, 0]), "observation has NaN or infinity"),
        (np.zeros((2, 4)) + np.inf, "observation has NaN or infinity"),
        (np.zeros(3), r"observation has shape (3,); the environment's has (4,), or (n, 4)"),
        (np.zeros((2, 2, 4)), "observation has shape (2, 2, 4)"),
        ("left", "observation holds no numbers"),
        ([[0.0], [1.0, 2.0]], "observation is not one array"),
    ],
)
def test_predict_refuses_what_is_no_observation(observation, message):
    model = ACER("CartPole-v1", **SMALL)
    with pytest.raises(SettingsError, match=re.escape(message)):
        model.predict(observation)


def test_predict_refuses_an_observation_without_a_part():
    model = ACER(partial_named("dict"), **SMALL)
    with pytest.raises(SettingsError, match="has no part 'end'"):
        model.predict({"where": np.zeros(1, np.float32)})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torso": "conv"}, "torso='conv' needs images, but observations have shape (4,); use torso='mlp'"),
        ({"learning_rate": -1.0}, "learning_rate must be positive, not -1.0"),
        ({"algo": "acer", "on_policy": False, "replay_ratio": 0.0}, "with on_policy=False and replay_ratio=0"),
        ({"device": "tpu9"}, "use device='cpu'"),
        ({"env_kwargs": {"colour": {1, 2}}}, "env_kwargs must be names and values that JSON can hold"),
    ],
)
def test_errors_in_python_speak_of_keywords(settings, message):
    with pytest.raises(AcerError) as error:
        ACER("CartPole-v1", **settings)
    assert message in str(error.value) and "--" not in str(error.value)


def test_the_advice_for_an_unbounded_action_space_helps():
    with pytest.raises(AcerError) as error:
        ACER(Unbounded, **SMALL)
    advice = re.search(r"gymnasium\.wrappers\.TransformAction\(.*\)", str(error.value)).group()

    def bounded():
        return eval(advice, {"gymnasium": gym, "env": Unbounded()})

    ACER(bounded, **SMALL).learn(320).close()


def test_environments_are_made_with_the_arguments_that_are_given(tmp_path):
    model = ACER("MountainCar-v0", env_kwargs={"goal_velocity": 0.01}, **SMALL).learn(320, out=tmp_path / "run")
    assert model._training.learner.rollout.env.env.envs[0].unwrapped.goal_velocity == 0.01
    again = ACER.load(tmp_path / "run")
    assert again.config.env_kwargs == {"goal_velocity": 0.01}
    path = {"path": "/etc/passwd"}
    again.save(tmp_path / "m")
    state = read_state(tmp_path / "m")
    state["config"]["env_kwargs"] = path
    rewrite_state(tmp_path / "m", state)
    with pytest.raises(CheckpointError, match="which a file may not decide"):
        ACER.load(tmp_path / "m")
