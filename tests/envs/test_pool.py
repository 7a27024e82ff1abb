"""EnvPool's environments, where it is installed; and what is said where it is not."""

import importlib.util
import sys

import numpy as np
import pytest

from acer import ACER
from acer.envs import make_batch
from acer.envs.registry import family_of, spaces_of
from acer.errors import EnvironmentFault

installed = importlib.util.find_spec("envpool") is not None
needs_it = pytest.mark.skipif(not installed, reason="EnvPool is not installed: pip install envpool")


def test_without_it_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(EnvironmentFault, match="needs EnvPool: pip install envpool"):
        spaces_of("envpool:CartPole-v1")


@needs_it
def test_a_pool_keeps_the_contract_of_batches():
    """A dead step after each end; its seeds decide what happens; one episode can begin anew by itself."""
    batch = make_batch("envpool:CartPole-v1", 3, threads=1)

    def play(seeds):
        seen, lengths = [batch.reset(seeds)], np.zeros(3, int)
        dead = np.zeros(3, bool)
        for _ in range(60):
            step = batch.step(np.array([0, 1, 1]))
            assert not step.rewards[dead].any() and (step.rewards[~dead] == 1).all()
            assert np.abs(step.observations[dead]).max(initial=0) <= 0.05  # where episodes begin
            lengths += ~dead
            dead = step.ends_episode
            assert np.array_equal(step.ends_return, dead)
            seen.append(step.observations)
        assert (lengths < 60).all()
        return np.stack(seen)

    first, again, other = play([1, 2, 3]), play([1, 2, 3]), play([4, 5, 6])
    assert np.array_equal(first, again) and not np.array_equal(first, other)
    before = batch.step(np.array([0, 0, 0])).observations
    after = batch.restart(np.array([False, True, False]))
    assert np.array_equal(after[[0, 2]], before[[0, 2]]) and not np.array_equal(after[1], before[1])
    assert batch.state() == {}
    batch.close()


@needs_it
@pytest.mark.parametrize("env", ["envpool:CartPole-v1", "envpool:Pendulum-v1"])
def test_a_pool_trains(env, tmp_path):
    assert family_of(env).batch is not None
    small = {"environments": 4, "replay_start": 100, "eval_episodes": 2, "eval_limit": 50}
    model = ACER(env, **small).learn(400, out=tmp_path / "run")
    assert len(model.evaluate(3).returns) == 3
    model.close()
    again = ACER.load(tmp_path / "run", env=env, resume=True).learn(100)
    assert again.steps >= 500
    again.close()


@needs_it
def test_what_it_has_not_is_said():
    with pytest.raises(EnvironmentFault, match="EnvPool has no 'CartPole-v9'"):
        spaces_of("envpool:CartPole-v9")
