"""The replay memory gives back exactly what went in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acer.learner.replay import Replay
from acer.learner.rollout import FIELDS, Trajectory


def trajectory(rng, length=4, count=3, pixels=False):
    shape = (length + 1, count, 2, 5, 5) if pixels else (length + 1, count, 6)
    observations = (
        rng.integers(256, size=shape, dtype=np.uint8) if pixels else rng.normal(size=shape).astype(np.float32)
    )
    return Trajectory(
        observations,
        rng.integers(4, size=(length, count)),
        rng.normal(size=(length, count)).astype(np.float32),
        rng.random((length, count), np.float32),
        rng.random((length, count)) < 0.8,
        rng.normal(size=(length, count, 4)).astype(np.float32),
    )


def layout(t):
    """Shape and dtype of one environment's part of each field."""
    parts = {name: np.moveaxis(getattr(t, name), 1, 0) for name in FIELDS}
    return {name: (array.shape[1:], array.dtype) for name, array in parts.items()}


def unit(t, i):
    return b"".join(np.ascontiguousarray(getattr(t, name)[:, i]).tobytes() for name in FIELDS)


@given(st.integers(1, 12), st.booleans(), st.integers(0, 99))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_bit_for_bit_and_only_the_newest(adds, pixels, seed):
    rng = np.random.default_rng(seed)
    replay = Replay(capacity=4 * 5 + 1, length=4, environments=3)  # five slots
    stored = []
    for _ in range(adds):
        t = trajectory(rng, pixels=pixels)
        replay.add(t)
        stored.append(t)
    kept = {unit(t, i) for t in stored[-5:] for i in range(3)}
    assert len(replay) == len(kept)
    sample = replay.sample(rng, 200)
    assert {unit(sample, i) for i in range(200)} <= kept


def test_sampling_is_uniform():
    rng = np.random.default_rng(1)
    replay = Replay(capacity=16, length=4, environments=3)
    stored = [trajectory(rng) for _ in range(6)]
    for t in stored:
        replay.add(t)
    names = [unit(t, i) for t in stored[-4:] for i in range(3)]
    sample = replay.sample(rng, 12_000)
    counts = np.array([[unit(sample, i) for i in range(12_000)].count(name) for name in names])
    # Each of twelve is drawn 1,000 times on average, with a deviation of 30.
    assert np.abs(counts - 1_000).max() < 150


@pytest.mark.parametrize("adds", [0, 2, 9])
def test_state_restores_the_whole_memory(adds):
    rng = np.random.default_rng(2)
    replay, other = (Replay(capacity=20, length=4, environments=3) for _ in range(2))
    for _ in range(adds):
        replay.add(trajectory(rng))
    arrays, blocks = replay.state()
    other.restore(arrays, b"".join(blocks), layout(trajectory(rng)))
    assert (len(other), other.added) == (len(replay), replay.added)
    if adds:
        a, b = (r.sample(np.random.default_rng(3), 50) for r in (replay, other))
        assert all(unit(a, i) == unit(b, i) for i in range(50))
        t = trajectory(rng)
        replay.add(t)
        other.add(t)
        a, b = (r.sample(np.random.default_rng(4), 50) for r in (replay, other))
        assert all(unit(a, i) == unit(b, i) for i in range(50))


def test_each_environment_is_replayed_from_its_own_memory():
    rng = np.random.default_rng(0)
    replay = Replay(capacity=12, length=4, environments=3)
    added = [trajectory(rng) for _ in range(4)]  # one more than there is room for
    for t in added:
        replay.add(t)
    which = np.array([2, 0])
    seen = [replay.sample_each(rng, which) for _ in range(60)]
    for place, environment in enumerate(which):
        found = {unit(t, place) for t in seen}
        assert found == {unit(t, environment) for t in added[1:]}
