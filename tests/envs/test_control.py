"""The six control tasks: bodies, observations, rewards at hand-set states, episodes, exact restore."""

import itertools
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

pytest.importorskip("mujoco", reason="needs the extra control")
if find_spec("dm_control") is None:
    pytest.skip("needs dm_control's models: pip install --no-deps dm_control", allow_module_level=True)

import acer
from acer.config import ALGORITHMS
from acer.envs import make_batch, preset_of, spaces_of, tasks
from acer.envs.control import EPISODE, ControlEnv, ControlVectorEnv
from acer.envs.tasks import TASKS, into, rotation
from acer.errors import EnvironmentFault

SIZES = {  # degrees of freedom, actions, observation, control step
    "cartpole-swingup": (2, 1, 10, 0.02),
    "reacher3": (3, 3, 8, 0.02),
    "cheetah": (9, 6, 17, 0.02),
    "fish": (13, 5, 24, 0.04),
    "walker": (9, 6, 24, 0.025),
    "humanoid": (27, 21, 94, 0.025),
}
IDS = ["CartpoleSwingup", "Reacher3", "Cheetah", "Fish", "Walker", "Humanoid"]


def placed(name, qpos=None, qvel=None, target=None):
    """One environment in a hand-set state."""
    env = ControlVectorEnv(name, 1)
    env.reset(seed=0)
    p = env.physics
    p.place(
        np.array([0]),
        p.qpos.copy() if qpos is None else np.array([qpos], float),
        np.zeros_like(p.qvel) if qvel is None else np.array([qvel], float),
    )
    if target is not None:
        env.targets[0] = target
    return env


def judged(env, action=None):
    action = np.zeros((1, env.task.action)) if action is None else np.array([action], float)
    reward, ends = env.task.judge(env.task.observe(env.physics, env.targets), action)
    return float(reward[0]), bool(ends[0])


# ------------------------------------------------------------------ bodies and observations


@pytest.mark.parametrize("name", TASKS)
def test_sizes(name):
    env = ControlVectorEnv(name, 3)
    freedom, actions, observation, step = SIZES[name]
    model = env.physics.model
    assert (model.nv, model.nu) == (freedom, actions)
    assert env.physics.substeps * model.opt.timestep == pytest.approx(step)
    first, _ = env.reset(seed=0)
    assert first.shape == (3, observation) and first.dtype == np.float32
    assert spaces_of(name)[0].shape == (observation,) and spaces_of(name)[1].size == actions
    assert preset_of(name) == "control"
    env.close()


def test_cartpole_observation_and_reward():
    env = placed("cartpole-swingup", [0.3, np.pi / 2], [0.5, 2.0])
    assert np.allclose(
        env._observations()[0], [0.3, 0.5, np.pi / 2, 2, 1, 0, 1.3, 0, 0.5, -2], atol=1e-6
    )  # lies to the right: the tip is one pole's length off and falls
    for x, degrees, pays in ((0, 0, 1), (0.049, 4.9, 1), (-0.049, -4.9, 1), (0.051, 0, 0), (0, 5.1, 0), (0, 180, 0)):
        env = placed("cartpole-swingup", [x, np.radians(degrees)])
        assert judged(env) == (pays, False)
    wound = placed("cartpole-swingup", [0, 4 * np.pi + 0.01])
    assert judged(wound)[0] == 1 and wound._observations()[0, 2] == pytest.approx(0.01, abs=1e-5)
    assert tuple(env.physics.model.jnt_range[0]) == (-1.2, 1.2)


def test_reacher_observation_and_reward():
    import mujoco

    env = placed("reacher3", [0.3, -0.5, 0.9], target=[0.1, 0.2])
    data = mujoco.MjData(env.physics.model)
    data.qpos[:] = env.physics.qpos[0]
    mujoco.mj_forward(env.physics.model, data)
    tip = data.geom("tip").xpos[:2]
    assert np.allclose(env.task.tip(env.physics.qpos)[0], tip)
    assert np.allclose(env._observations()[0, -2:], np.array([0.1, 0.2]) - tip, atol=1e-6)
    for offset, pays in (((0, 0), 1), ((0.049, 0), 1), ((0, 0.051), 0), ((0.2, 0.2), 0)):
        env.targets[0] = tip + offset
        assert judged(env) == (pays, False)


def test_reacher_targets_can_be_reached():
    env = ControlVectorEnv("reacher3", 256)
    env.reset(seed=0)
    distance = np.linalg.norm(env.targets, axis=1)
    assert distance.max() <= 0.34 and np.ptp(distance) > 0.2 and len(np.unique(env.physics.qpos)) == 256 * 3


def test_cheetah_observation_and_reward():
    qpos, qvel = np.arange(9) / 100, np.arange(1, 10) / 10
    env = placed("cheetah", qpos, qvel)
    assert np.allclose(env._observations()[0], [*qpos[1:], *qvel])
    assert judged(env)[0] == pytest.approx(0.1)
    assert judged(env, np.full(6, 0.5))[0] == pytest.approx(0.1 - 0.1 * 6 * 0.25)


def test_fish_observation_and_reward():
    import mujoco

    rng = np.random.default_rng(0)
    quaternion = rng.standard_normal(4)
    quaternion /= np.linalg.norm(quaternion)
    qpos, qvel = [0.1, -0.2, 0.3, *quaternion, *rng.uniform(-0.5, 0.5, 7)], rng.standard_normal(13)
    target = np.array([0.4, 0.1, 0.2])
    env = placed("fish", qpos, qvel, target)
    model = env.physics.model
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = env.physics.qpos[0], env.physics.qvel[0]
    mujoco.mj_forward(model, data)
    torso = data.body("torso").xmat.reshape(3, 3)
    mouth = data.geom("mouth").xpos
    x = env._observations()[0]
    assert np.allclose(x[:3], torso.T @ (target - mouth), atol=1e-5)
    assert np.allclose(x[3:10], qpos[7:]) and np.allclose(x[10:17], qvel[6:])
    assert x[17] == pytest.approx(torso[2, 2], abs=1e-6)
    velocity = np.zeros(6)  # angular, then linear, in the body's own frame
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, data.body("torso").id, velocity, 1)
    assert np.allclose(x[18:21], velocity[3:], atol=1e-5) and np.allclose(x[21:], velocity[:3], atol=1e-5)

    level = [0, 0, 0.1, 1, 0, 0, 0, *np.zeros(7)]
    at_target = placed("fish", level, target=[0, 0.0745, 0.1])
    assert judged(at_target)[0] == pytest.approx(0)
    assert judged(at_target, np.ones(5))[0] == pytest.approx(-0.05)
    assert judged(placed("fish", level, target=[0.3, 0.0745, 0.5]))[0] == pytest.approx(-0.5)
    upside_down = placed("fish", [0, 0, 0.1, 0, 0, 1, 0, *np.zeros(7)], target=[0, 0.0745, 0.1])
    assert judged(upside_down)[0] == pytest.approx(-0.1)


def test_walker_observation_reward_and_end():
    import mujoco

    rng = np.random.default_rng(0)
    env = placed("walker", rng.uniform(-0.4, 0.4, 9), rng.standard_normal(9))
    model = env.physics.model
    data = mujoco.MjData(model)
    data.qpos[:] = env.physics.qpos[0]
    mujoco.mj_forward(model, data)
    x = env._observations()[0]
    assert x[0] == pytest.approx(data.body("torso").xpos[2], abs=1e-6)
    assert np.allclose(x[1:10], env.physics.qvel[0])
    bodies = ["torso", "right_thigh", "right_leg", "right_foot", "left_thigh", "left_leg", "left_foot"]
    matrices = np.stack([data.body(name).xmat.reshape(3, 3) for name in bodies])
    assert np.allclose(x[10:17], matrices[:, 0, 2], atol=1e-6) and np.allclose(x[17:], matrices[:, 2, 2], atol=1e-6)

    standing = placed("walker", [-0.1, 0, 0, *np.zeros(6)], [0, 1.5, 0, *np.zeros(6)])
    assert judged(standing) == (pytest.approx(1.5), False)
    assert judged(standing, np.ones(6))[0] == pytest.approx(1.2)
    assert judged(placed("walker", [0.2, 0, 0.5, *np.zeros(6)]))[0] == pytest.approx(-0.3 - 0.5 * (1 - np.cos(0.5)))
    for fallen in ([-0.51, 0, 0], [0.71, 0, 0], [0, 0, 1.01], [0, 0, -1.01]):
        assert judged(placed("walker", [*fallen, *np.zeros(6)])) == (-5, True)


def test_humanoid_observation_and_reward():
    import mujoco

    rng = np.random.default_rng(0)
    quaternion = rng.standard_normal(4)
    quaternion /= np.linalg.norm(quaternion)
    qpos, qvel = [0.3, 0.2, 2.0, *quaternion, *rng.uniform(-0.3, 0.3, 21)], rng.standard_normal(27)
    env = placed("humanoid", qpos, qvel)
    model = env.physics.model
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = env.physics.qpos[0], env.physics.qvel[0]
    mujoco.mj_forward(model, data)
    mujoco.mj_subtreeVel(model, data)
    x, torso = env._observations()[0], data.body("torso")
    frame = torso.xmat.reshape(3, 3)
    assert np.allclose(x[:21], qpos[7:]) and np.allclose(x[21:42], qvel[6:])
    assert np.allclose(x[42:45], frame.T @ qvel[:3], atol=1e-5) and np.allclose(x[45:48], qvel[3:6])
    positions = [frame.T @ (data.body(name).xpos - torso.xpos) for name in env.task.moving]
    assert np.allclose(x[48:84], np.concatenate(positions), atol=1e-5)
    assert x[84] == pytest.approx(data.body("head").xpos[2], abs=1e-5)
    assert np.allclose(x[85:88], frame[2], atol=1e-6)
    assert np.allclose(x[88:91], frame.T @ torso.subtree_linvel, atol=1e-5)
    assert np.allclose(x[91:94], frame.T @ (torso.subtree_com - torso.xpos), atol=1e-5)
    # The twelve are just those whose place in the torso's frame the joints can change.
    data.qpos[7:] = rng.uniform(-0.3, 0.3, 21)
    mujoco.mj_forward(model, data)
    moved = []
    for body in range(2, model.nbody):
        before = env.physics.qpos[0].copy()
        now = frame.T @ (data.xpos[body] - torso.xpos)
        other = mujoco.MjData(model)
        other.qpos[:] = before
        mujoco.mj_forward(model, other)
        then = frame.T @ (other.xpos[body] - other.body("torso").xpos)
        if not np.allclose(now, then, atol=1e-9):
            moved.append(model.body(body).name)
    assert sorted(moved) == sorted(env.task.moving)

    upright = placed("humanoid", [0, 0, 1.3, 1, 0, 0, 0, *np.zeros(21)])
    assert judged(upright)[0] == pytest.approx(2.5, abs=0.01)
    assert judged(upright, np.ones(21))[0] == pytest.approx(2.5 - 0.42, abs=0.01)
    lying = placed("humanoid", [0, 0, 0.1, np.sqrt(0.5), 0, np.sqrt(0.5), 0, *np.zeros(21)])
    legs = 0.5 * lying.task.on_its_legs(lying._observations()).mean(2).sum()
    assert legs < 0.02 and judged(lying)[0] == pytest.approx(0.1 / 1.4 + 0.25 + legs)


def test_the_humanoid_sees_the_same_whichever_way_it_faces():
    rng = np.random.default_rng(0)
    joints, turning = rng.uniform(-0.3, 0.3, 21), rng.standard_normal(24)
    seen = []
    for heading in (0.0, 1.0):
        c, s = np.cos(heading), np.sin(heading)
        velocity = [c * 0.5 - s * 0.2, s * 0.5 + c * 0.2, 0.1]
        pose = [0, 0, 1.3, np.cos(heading / 2), 0, 0, np.sin(heading / 2)]
        seen.append(placed("humanoid", [*pose, *joints], [*velocity, *turning])._observations()[0])
    assert np.allclose(*seen, atol=1e-5)


def test_every_posture_on_the_way_up_pays_the_humanoid_more(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    import humanoid_postures as hand_set

    paid = {name: row[-1] for name, row in hand_set.rows()}
    for way in (
        (
            "lying on the back",
            "sitting upright, legs straight",
            "sitting, knees drawn up",
            "squatting",
            "half squatting",
        ),
        ("lying on the face", "on hands and knees", "kneeling upright", "kneeling on one knee", "half squatting"),
    ):
        rewards = [paid[name] for name in (*way, "standing")]
        assert all(more > less + 0.05 for less, more in itertools.pairwise(rewards)), rewards


def test_the_humanoid_begins_on_the_ground_in_many_poses():
    env = ControlVectorEnv("humanoid", 32)
    first, _ = env.reset(seed=1)
    heads = first[:, 84]
    assert heads.max() < 0.8 and heads.min() > 0
    assert np.abs(env.physics.qvel).mean() < 1.0  # settled
    assert np.abs(first[:, 87]).max() < 0.6 and np.ptp(first[:, 85]) > 1.0  # lying on its back, its belly, its side


# ------------------------------------------------------------------ episodes


@pytest.mark.parametrize("name", TASKS)
def test_random_starts_differ_and_seeds_repeat(name):
    one, other = ControlVectorEnv(name, 4), ControlVectorEnv(name, 4, threads=2)
    first, _ = one.reset(seed=[1, 2, 3, 4])
    assert len({row.tobytes() for row in first}) == 4
    again, _ = other.reset(seed=[1, 2, 3, 4])
    assert np.array_equal(first, again)
    rng = np.random.default_rng(0)
    for _ in range(30):  # the same whatever the number of threads
        actions = rng.uniform(-1, 1, (4, one.task.action))
        assert np.array_equal(one.step(actions)[0], other.step(actions)[0])
    new, _ = one.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert not np.array_equal(new[0], first[0]) and one.steps[0] == 0 and one.steps[1:].all()
    one.close()
    other.close()


@pytest.mark.parametrize("name", ["cartpole-swingup", "fish", "walker"])
def test_truncation_after_500_steps_and_the_next_step_rule(name):
    batch = make_batch(name, 2)
    batch.reset([1, 2])
    if name == "walker":  # without control it would fall
        batch.env.physics.model.opt.gravity[:] = 0
    zero = np.zeros((2, batch.action.size), np.float32)
    for step in range(1, EPISODE + 1):
        taken = batch.step(zero)
        assert taken.ends_episode.all() == (step == EPISODE)
    assert not taken.ends_return.any()  # truncated: the return bootstraps
    last = taken.observations
    dead = batch.step(zero + 1)
    assert not dead.rewards.any() and not np.array_equal(dead.observations, last)
    assert batch.env.steps.tolist() == [0, 0]
    batch.close()


def test_the_walker_ends_early_with_a_negative_reward():
    batch = make_batch("walker", 2)
    batch.reset([1, 2])
    rng = np.random.default_rng(0)
    taken = batch.step(rng.uniform(-1, 1, (2, 6)).astype(np.float32))
    while not taken.ends_episode.any():
        taken = batch.step(rng.uniform(-1, 1, (2, 6)).astype(np.float32))
    assert batch.env.steps.max() < EPISODE
    fallen = taken.ends_episode
    assert (taken.ends_return == fallen).all() and (taken.rewards[fallen] == -5).all()
    batch.close()


@pytest.mark.parametrize("name", TASKS)
def test_save_and_restore_over_1000_random_steps(name):
    """Across episode ends, with sensors, random streams and all: what follows is the same, bit for bit."""
    env = ControlVectorEnv(name, 3)
    env.reset(seed=5)
    rng = np.random.default_rng(0)
    for _ in range(40):
        env.step(rng.uniform(-1, 1, (3, env.task.action)))
    env.steps += np.array([0, 200, 440])  # so that episodes end at different times
    saved = env.state()
    actions = rng.uniform(-1, 1, (1_000, 3, env.task.action))
    expected = [env.step(a)[:4] for a in actions]
    other = ControlVectorEnv(name, 3, threads=2)
    other.reset(seed=99)
    other.restore(saved)
    for a, (observations, rewards, terminated, truncated) in zip(actions, expected, strict=True):
        o, r, te, tr, _ = other.step(a)
        assert np.array_equal(o, observations) and np.array_equal(r, rewards)
        assert np.array_equal(te, terminated) and np.array_equal(tr, truncated)
    env.close()
    other.close()


def test_physics_that_explodes_ends_the_episode():
    env = ControlVectorEnv("cheetah", 2)
    env.reset(seed=0)
    env.physics.qvel[1] = 1e12
    observations, rewards, terminated, truncated, _ = env.step(np.zeros((2, 6)))
    assert truncated.tolist() == [False, True] and not terminated.any()
    observations, rewards, terminated, truncated, _ = env.step(np.zeros((2, 6)))
    assert np.isfinite(observations).all() and rewards[1] == 0 and env.steps.tolist() == [2, 0]


def test_sensors_are_those_of_the_state_that_they_come_with():
    """After `mj_step` they are one substep behind; here they are not."""
    import mujoco

    env = ControlVectorEnv("humanoid", 1)
    env.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(5):
        env.step(rng.uniform(-1, 1, (1, 21)))
    data = mujoco.MjData(env.physics.model)
    data.qpos[:], data.qvel[:] = env.physics.qpos[0], env.physics.qvel[0]
    mujoco.mj_forward(env.physics.model, data)
    assert np.allclose(env.physics.sensors[0], data.sensordata, atol=1e-10)


def test_rotations():
    rng = np.random.default_rng(0)
    q = rng.standard_normal((5, 4))
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    frames = rotation(q)
    assert np.allclose(frames @ frames.transpose(0, 2, 1), np.eye(3))
    vectors = rng.standard_normal((5, 3))
    assert np.allclose(into(frames, np.einsum("nij,nj->ni", frames, vectors)), vectors)


# ------------------------------------------------------------------ for others


@pytest.mark.parametrize("name", IDS)
def test_gymnasium_knows_the_tasks(name):
    env = gym.make(f"acer/{name}-v0")
    assert env.spec.max_episode_steps == EPISODE
    check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=3)
    again, _ = env.reset(seed=3)
    assert np.array_equal(observation, again)
    over, steps = False, 0
    while not over:
        _, _, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape, np.float32))
        over, steps = terminated or truncated, steps + 1
    assert steps == EPISODE or name == "Walker"
    env.close()


def test_importing_the_package_is_enough():
    code = "import acer, gymnasium; print(gymnasium.make('acer/Fish-v0').observation_space.shape)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "(24,)"


def test_without_mujoco_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "acer.envs.physics", None)
    with pytest.raises(EnvironmentFault, match=r"pip install 'acer-rl\[control\]'"):
        make_batch("fish", 1)


@pytest.mark.parametrize(
    ("version", "message"),
    [((3, 12), "models: pip install 'acer-rl[control]'"), ((3, 13), "models: pip install --no-deps dm_control")],
)
def test_without_the_suites_models_one_line_says_what_to_install(version, message, monkeypatch):
    """dm_control asks for labmaze, which has no wheel for Python 3.13; the models alone do not need it."""
    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    monkeypatch.setattr(tasks.sys, "version_info", version)
    with pytest.raises(EnvironmentFault, match=re.escape(message)):
        tasks._suite.__wrapped__("fish.xml")


def test_one_that_could_not_be_made_is_closed_without_a_word():
    """As Gymnasium does when it is thrown away; whatever that raises would stand beside the one line."""
    ControlVectorEnv.__new__(ControlVectorEnv).close()


def test_four_lines_train_a_task():
    model = acer.ACER("fish", environments=4, hidden=(16,), replay_start=100).learn(600)
    assert model.config.preset == "control" and model.agent.action.continuous
    action, _ = model.predict(np.zeros(24, np.float32))
    assert action.shape == (5,)
    model.close()


def test_one_environment_is_the_batch_of_one():
    one, batch = ControlEnv("cheetah"), ControlVectorEnv("cheetah", 1)
    first, _ = one.reset(seed=4)
    assert np.array_equal(first, batch.reset(seed=[4])[0][0])
    for _ in range(10):
        assert np.array_equal(one.step(np.full(6, 0.3))[0], batch.step(np.full((1, 6), 0.3))[0][0])


@pytest.mark.parametrize("name", TASKS)
def test_pictures(name):
    env = ControlEnv(name, render_mode="rgb_array")
    env.reset(seed=0)
    try:
        before = env.render()
    except EnvironmentFault as error:
        pytest.skip(str(error))
    for _ in range(20):
        env.step(np.ones(env.action_space.shape, np.float32))
    after = env.render()
    assert before.shape == (480, 640, 3) and before.dtype == np.uint8
    assert before.std() > 5 and (before != after).mean() > 1e-4
    env.close()


def test_without_a_renderer_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "nothing")
    env = ControlEnv("fish", render_mode="rgb_array")
    env.reset(seed=0)
    with pytest.raises(EnvironmentFault, match="apt install libosmesa6"):
        env.render()
    env.close()


def test_a_renderer_that_does_not_load_with_mujoco_is_named_in_one_line():
    command = [sys.executable, "-m", "acer", "train", "fish", "--steps", "100"]
    done = subprocess.run(command, env={**os.environ, "MUJOCO_GL": "nothing"}, capture_output=True, text=True)
    assert done.returncode == 2 and "MUJOCO_GL" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["HalfCheetah-v5", "dm_control/cheetah-run-v0", "acer/Fish-v0"])
def test_other_peoples_tasks_train_too(name):
    assert preset_of(name) == "control"
    model = acer.ACER(name, environments=2, trajectories_per_update=2, hidden=(8,), replay_start=100).learn(300)
    assert model.steps >= 300
    model.close()


def comparison(name, algo, steps, **settings):
    model = acer.ACER(name, algo=algo, **settings).learn(steps)
    assert torch.isfinite(model.agent.home.theta).all() and model.steps >= steps
    model.close()


OTHERS = [name for name in ALGORITHMS if name != "acer"]


@pytest.mark.parametrize("algo", OTHERS)
def test_the_comparison_set_begins(algo):
    comparison("walker", algo, 500, environments=4, hidden=(16,), replay_start=200)


@pytest.mark.slow
@pytest.mark.parametrize("algo", OTHERS)
@pytest.mark.parametrize("name", TASKS)
def test_the_comparison_set_runs(name, algo):
    comparison(name, algo, 50_000)
