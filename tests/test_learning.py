"""It learns: every algorithm on environments of a few steps, ACER on CartPole, and (slow) the marks of `classic`."""

import gymnasium as gym
import pytest

from acer import ACER
from environments import Corridor, Target


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
