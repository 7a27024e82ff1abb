"""It learns: every algorithm on environments of a few steps, ACER on CartPole, and (slow) the marks of `classic`."""

import gymnasium as gym
import numpy as np
import pytest

from acer import ACER
from environments import Corridor, Dials, Market, Target


def corridor():
    """Right is the way; a random walk needs about 25 steps, and is cut off at 12."""
    return gym.wrappers.TimeLimit(Corridor(length=5), 12)


@pytest.mark.parametrize(
    "algo", ["acer", "a3c", "trust-a3c", "tis", "trust-tis", "no-trust-region", "no-retrace", "no-truncation"]
)
def test_every_algorithm_finds_the_end_of_a_corridor(algo):
    model = ACER(corridor, algo=algo, reward_scale=1.0, learning_rate=2e-3, replay_start=320).learn(8_000)
    result = model.evaluate(20)
    assert result.mean == 1.0
    assert result.lengths == [5] * 20


@pytest.mark.parametrize(
    "algo",
    ["acer", "a3c", "trust-a3c", "tis", "trust-tis", "no-trust-region", "no-sdn", "no-retrace", "no-truncation"],
)
def test_every_algorithm_moves_its_mean_towards_a_target(algo):
    """The middle of the range pays −3 (2 and 1 off in two dimensions); the target pays 0."""
    # A3C's four gradients of a batch are all of one θ', so together they are a step of four times the length.
    rate = 1e-3 if algo in ("a3c", "trust-a3c") else 2e-3
    model = ACER(Target, algo=algo, reward_scale=0.3, learning_rate=rate, replay_start=320)
    assert model.evaluate(1).mean == pytest.approx(-3, abs=0.3)
    assert model.learn(10_000).evaluate(1).mean > -2


def test_cartpole_is_half_learnt_after_20000_steps():
    assert ACER("CartPole-v1", learning_rate_decay="none").learn(20_000).evaluate(20).mean > 150


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_cartpole_reaches_its_mark(seed):
    model = ACER("CartPole-v1", seed=seed).learn(59_600)
    assert model.steps <= 60_000
    assert model.evaluate(100, seed=1000).mean >= 475


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_pendulum_reaches_its_mark(seed):
    model = ACER("Pendulum-v1", seed=seed).learn(299_000)
    assert model.steps <= 300_000
    assert model.evaluate(100, seed=1000).mean >= -250


AT_ONCE = {"reward_scale": 1.0, "gamma": 0.0, "learning_rate": 2e-3}  # each step's reward is all there is to learn


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("sizes", [(3, 4, 2), (2,) * 8], ids=["listed", "sampled"])
def test_several_choices_at_once_reach_their_mark(sizes, seed):
    """95 % of the best, 10 an episode; by chance it is 3.6 with three dials and 5 with eight of two positions."""

    def dials():
        return Dials(sizes, binary=len(sizes) == 8)

    assert ACER(dials, seed=seed, **AT_ONCE).learn(30_000).evaluate(100, seed=1000).mean >= 9.5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_masked_choices_reach_their_mark(seed):
    """95 % of the best among what is legal, 7.6 an episode; by chance it is 5. What is illegal would raise an error."""
    best, market = [], Market()
    for episode in range(500):
        market.reset(seed=episode)
        over = False
        while not over:
            *_, over, _, info = market.step(np.flatnonzero(market.action_masks())[0])
        best.append(info["best"])
    assert ACER(Market, seed=seed, **AT_ONCE).learn(24_000).evaluate(100, seed=1000).mean >= 0.95 * np.mean(best)
