"""The actor-learner's iteration: what it replays."""

import itertools

import numpy as np

from acer.config import defaults
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
