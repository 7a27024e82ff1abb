"""Recurrent policies: what they remember, where they forget, and that it is saved, replayed and handed on."""

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from acer import ACER
from acer.errors import SettingsError
from acer.learner.memory import Memory, Recall
from acer.run.video import record
from environments import Corridor

SMALL: dict[str, Any] = {"environments": 4, "replay_start": 100, "eval_episodes": 2, "hidden": (8,)}
RECURRENT: dict[str, Any] = {"recurrent": "gru", "memory_size": 6, **SMALL}


def parameters(model: ACER) -> Any:
    return torch.cat([p.detach().reshape(-1) for p in model.agent.network.parameters()])


def corridor(kind: str = "box") -> Any:
    return gym.wrappers.TimeLimit(Corridor(kind), 13)


# ------------------------------------------------------------------ the unit


def test_without_ends_it_is_the_gru_of_torch() -> None:
    torch.manual_seed(0)
    memory, whole = Memory(3, 5, 1).double(), torch.nn.GRU(3, 5).double()
    names = {"weight_ih_l0": "weight_ih", "weight_hh_l0": "weight_hh", "bias_ih_l0": "bias_ih", "bias_hh_l0": "bias_hh"}
    whole.load_state_dict({name: memory.cell.state_dict()[own] for name, own in names.items()})
    features, state = torch.randn(7, 2, 3).double(), torch.randn(1, 2, 10).double()
    found = memory(features, Recall.of(state, torch.ones(6, 2, dtype=torch.bool)))
    torch.testing.assert_close(found, whole(features, state[..., 5:].contiguous())[0])
    torch.testing.assert_close(memory.step(features[0], state[0]), found[0])


def test_it_forgets_where_an_episode_begins() -> None:
    """Each environment by itself; the dead step's observation still belongs to the old episode."""
    memory = Memory(3, 5, 0)
    features, state = torch.randn(5, 2, 3), torch.randn(1, 2, 5)
    live = torch.ones(4, 2, dtype=torch.bool)
    live[1, 0] = False
    found = memory(features, Recall.of(state, live))
    unbroken = memory(features, Recall.of(state, torch.ones_like(live)))
    anew = memory(features[2:], Recall.of(torch.zeros_like(state), live[2:]))
    torch.testing.assert_close(found[:2], unbroken[:2])
    torch.testing.assert_close(found[:, 1], unbroken[:, 1])
    torch.testing.assert_close(found[2:, 0], anew[:, 0])
    assert not torch.allclose(found[2, 0], unbroken[2, 0])


# ------------------------------------------------------------------ acting, storing, learning


@pytest.mark.parametrize("shared_torso", [True, False])
def test_acting_and_learning_remember_the_same(shared_torso: bool) -> None:
    """ρ is 1 on data of the very policy that acted, though episodes end within trajectories and between them."""
    model = ACER(corridor, shared_torso=shared_torso, trajectory_length=7, **RECURRENT)
    learner = model._training.learner
    errors, ends = [], 0
    for _ in range(12):
        report = learner.iterate()
        errors.append(report.diagnostics["rho_error"])
        ends += len(report.episodes)
    assert ends > 10 and max(errors) < 1e-4
    model.close()


@pytest.mark.parametrize(
    ("settings", "parts"), [({"shared_torso": True}, 1), ({}, 2), ({"algo": "no-sdn"}, 3), ({"target_rate": 0.1}, 2)]
)
def test_what_was_remembered_is_stored_with_its_trajectory(settings: Any, parts: int) -> None:
    env = "Pendulum-v1" if settings.get("algo") else corridor
    model = ACER(env, **settings, **RECURRENT)
    learner = model._training.learner
    before = []
    for _ in range(8):
        before.append(learner.rollout.memory.copy())
        learner.iterate()
    assert before[0].shape == (4, 6 * parts) and not before[0].any() and np.any(before[1:])
    arrays, _ = learner.replay.state()
    np.testing.assert_array_equal(arrays["memory"][:, 0], np.concatenate(before))
    model.close()


def test_it_is_off_by_default() -> None:
    model = ACER(corridor, **SMALL)
    model._training.learner.iterate()
    assert not any("memory" in name for name, _ in model.agent.network.named_parameters())
    assert "memory" not in model._training.learner.state().run
    assert "memory" not in model._training.learner.state().replay
    assert model.predict(np.zeros(1, np.float32), state=("kept",))[1] == ("kept",)
    model.close()


@pytest.mark.parametrize("burn_in", [0, 3])
def test_a_resumed_run_equals_one_that_never_stopped(burn_in: int, tmp_path: Path) -> None:
    settings = {**RECURRENT, "burn_in": burn_in, "learning_rate_decay": "none", "trajectory_length": 7}
    whole = ACER(corridor, **settings).learn(1_400)
    half = ACER(corridor, **settings).learn(700, out=tmp_path / "run")
    half.close()
    resumed = ACER.load(tmp_path / "run", env=corridor, resume=True).learn(700)
    assert whole.steps == resumed.steps
    assert torch.equal(parameters(whole), parameters(resumed))
    assert np.array_equal(whole._training.learner.rollout.memory, resumed._training.learner.rollout.memory)
    whole.close()
    resumed.close()


@pytest.mark.parametrize("home", ["shared", pytest.param("ray", marks=pytest.mark.slow)])
def test_every_home_trains_and_resumes_it(home: str, tmp_path: Path) -> None:
    where = {"home": home, "actors": 2}
    model = ACER(corridor, **where, **RECURRENT).learn(600, out=tmp_path / "run")
    before = parameters(model)
    model.close()
    again = ACER.load(tmp_path / "run", env=corridor, resume=True, **where)
    assert torch.equal(parameters(again), before)
    assert all(part is not None and part.run["memory"].shape == (4, 12) for part in again._training.state.actors)
    again.learn(200)
    assert not torch.equal(parameters(again), before)
    again.close()


def test_settings_that_cannot_be_meant() -> None:
    with pytest.raises(SettingsError, match="burn_in=20 leaves nothing to learn"):
        ACER("CartPole-v1", recurrent="gru", burn_in=20)
    for other in ({}, {"algo": "a3c", "recurrent": "gru"}):  # a3c has no replay
        with pytest.raises(SettingsError, match="burn_in has no meaning here"):
            ACER("CartPole-v1", burn_in=2, **other)


# ------------------------------------------------------------------ playing


@pytest.fixture(scope="module")
def trained() -> Any:
    model = ACER("CartPole-v1", seed=1, **RECURRENT).learn(400)
    generator = torch.Generator().manual_seed(0)
    for p in model.agent.network.policy.parameters():
        p.data.normal_(generator=generator)
    policy, xs = model.agent.network.policy, torch.randn(20, 50, 4, generator=generator)
    with torch.no_grad():  # both actions alike often, so that what is remembered decides
        output, _ = policy(xs, Recall(torch.zeros(50, 6), torch.zeros(20, 50, dtype=torch.bool)))
        policy.head.bias[1] -= (output[..., 1] - output[..., 0]).median()
    yield model
    model.close()


def test_predict_hands_on_what_is_remembered(trained: ACER) -> None:
    """As the network does over a whole trajectory; an episode that starts begins with nothing."""
    xs = np.random.default_rng(0).normal(size=(6, 3, 4)).astype(np.float32)
    starts = np.zeros((6, 3), bool)
    starts[3, 1] = True
    state, found = None, []
    for x, start in zip(xs, starts, strict=True):
        actions, state = trained.predict(x, state, start, deterministic=True)
        found.append(actions)
    assert state is not None and state[0].shape == (3, 6)
    network = trained.agent.network
    with torch.no_grad():
        recall = Recall(torch.zeros(3, 6), torch.from_numpy(starts))
        expected = network.policy(network.encoder(torch.from_numpy(xs)), recall)[0].argmax(-1)
    assert np.array_equal(np.stack(found), expected.numpy())
    fresh = np.stack([trained.predict(x, deterministic=True)[0] for x in xs])
    assert not np.array_equal(fresh, expected.numpy())
    one, remembered = trained.predict(xs[0, 0], deterministic=True)
    assert one == found[0][0] and remembered is not None and remembered[0].shape == (1, 6)
    with pytest.raises(SettingsError, match=r"shape \(3, 6\), expected \(2, 6\)"):
        trained.predict(xs[0, :2], state)
    with pytest.raises(SettingsError, match="episode_start has 3 entries for 2"):
        trained.predict(xs[0, :2], episode_start=starts[0])


def test_predict_leaves_the_state_that_it_is_given(trained: ACER) -> None:
    x = np.ones((2, 4), np.float32)
    _, state = trained.predict(x)
    assert state is not None
    kept = state[0].copy()
    trained.predict(x, state, np.array([True, False]))
    assert np.array_equal(state[0], kept)


def test_stable_baselines_evaluates_a_recurrent_model(trained: ACER) -> None:
    """Its evaluation gives the returns that playing by hand gives; without the memory they are others."""
    evaluation = pytest.importorskip("stable_baselines3.common.evaluation")
    from stable_baselines3.common.env_util import make_vec_env

    env = make_vec_env("CartPole-v1", 2, seed=3)
    returns, _ = evaluation.evaluate_policy(trained, env, n_eval_episodes=6, return_episode_rewards=True)

    env.seed(3)
    by_hand: list[list[float]] = [[], []]
    x, state, start, totals = env.reset(), None, np.ones(2, bool), np.zeros(2)
    while min(map(len, by_hand)) < 3:
        actions, state = trained.predict(x, state, start, deterministic=True)
        x, rewards, start, _ = env.step(actions)
        totals += rewards
        for i in np.flatnonzero(start):
            by_hand[i].append(float(totals[i]))
            totals[i] = 0
    assert sorted(returns) == sorted(of for each in by_hand for of in each[:3])


def test_our_evaluation_agrees_with_predict(trained: ACER) -> None:
    """Episode by episode: it forgets at their ends, also of those that it cuts."""
    result = trained.evaluate(3, seed=5)
    env, env_seeds = gym.make("CartPole-v1"), np.random.SeedSequence(5).spawn(2)[0].generate_state(3) >> 1
    for seed, expected in zip(env_seeds, result.returns, strict=True):
        observation, _ = env.reset(seed=int(seed))
        state, total, over = None, 0.0, False
        while not over:
            action, state = trained.predict(observation, state, deterministic=True)
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
        assert total == expected


def test_it_is_saved_and_recorded(tmp_path: Path) -> None:
    model = ACER(partial_corridor(), **RECURRENT).learn(200)
    model.save(tmp_path / "model")
    again = ACER.load(tmp_path / "model", env=partial_corridor())
    assert again.evaluate(2, seed=0).returns == model.evaluate(2, seed=0).returns
    returns = record(again.agent, partial(Corridor, "box", 3), tmp_path / "strip.png", 1, 0, False)
    assert len(returns) == 1 and (tmp_path / "strip.png").stat().st_size > 0
    model.close()
    again.close()


def partial_corridor() -> Any:
    def short() -> Any:
        return corridor()

    return short
