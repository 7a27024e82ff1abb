"""The actor-learner's iteration: what it replays."""

import itertools

import numpy as np
import pytest
import torch

from acer import ACER
from acer.config import defaults
from acer.errors import SettingsError
from acer.run.training import Training


def test_each_environment_replays_as_often_as_it_drew():
    """In rounds: those that drew most are in all of them."""
    config = defaults("CartPole-v1", False, replay_per_environment=True, trajectories_per_update=1, environments=5,
                      hidden=(8,), replay_start=0, replay_ratio=3.0)  # fmt: skip
    learner = Training(config).learner
    rounds, sample = [], learner.replay.sample_each
    learner.replay.sample_each = lambda rng, which: rounds.append(which.tolist()) or sample(rng, which)
    drawn = []
    for _ in range(20):
        rounds.clear()
        report = learner.iterate()
        drawn += [sum(i in of for of in rounds) for i in range(5)]
        assert report.updates == 5 + sum(map(len, rounds))  # and one on-policy for each
        assert all(set(later) <= set(earlier) for earlier, later in itertools.pairwise(rounds))
    assert 2 < np.mean(drawn) < 4 and 1.5 < np.var(drawn) < 5  # Poisson(3), 100 draws


def test_a_replay_of_more_trajectories_than_the_iteration_has_is_made_less_often():
    """As many steps are replayed, in fewer and larger updates; the on-policy call has the new trajectories alone."""
    config = defaults("CartPole-v1", False, environments=2, trajectories_per_update=8, hidden=(8,), replay_start=0,
                      replay_ratio=8.0, trajectory_length=5)  # fmt: skip
    learner = Training(config).learner
    counts, sample = [], learner.replay.sample
    learner.replay.sample = lambda rng, count: counts.append(count) or sample(rng, count)
    reports = [learner.iterate() for _ in range(100)]
    assert set(counts) == {8} and 1.5 < len(counts) / 100 < 2.5  # Poisson(8 · 2 / 8)
    assert sum(report.updates for report in reports) == 100 + len(counts)
    assert np.mean([report.replays for report in reports]) == 4 * len(counts) / 100


def test_the_average_network_acts_where_it_is_asked_to(tmp_path):
    """In training (what is stored is its policy), in evaluations and from a saved model; ρ knows of it."""
    settings = {
        "act_with": "average",
        "alpha": 0.999,
        "learning_rate": 0.05,
        "hidden": (8,),
        "replay_start": 0,
        "seed": 1,
    }
    model = ACER("CartPole-v1", **settings).learn(2_000)
    agent, x = model.agent, np.ones((1, 4), np.float32)
    live, average = (f(agent.network.encoder(torch.from_numpy(x)))[0].log_softmax(-1).detach().numpy()
                     for f in (agent.network.policy, agent.average))  # fmt: skip
    assert np.abs(live - average).max() > 1e-3
    assert np.array_equal(agent.act(x, None)[1], average)
    assert np.array_equal(model._training.learner._act(x, None)[1], average)
    model.save(tmp_path / "model")
    again = ACER.load(tmp_path / "model")
    assert np.array_equal(again.agent.act(x, None)[1], average)
    model.close()
    again.close()
    with pytest.raises(SettingsError, match="leave out --act-with"):
        defaults("CartPole-v1", False, algo="a3c", act_with="average")
