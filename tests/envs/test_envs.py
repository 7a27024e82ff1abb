"""Spaces, batches of environments, and the boundaries of episodes."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from acer.envs import ActionSpec, ObservationSpec, known_names, make_batch, make_one, registry
from acer.errors import EnvironmentFault, SettingsError
from acer.learner.rollout import Rollout
from environments import Corridor, Target


@pytest.mark.parametrize(
    ("kind", "shape", "first"),
    [
        ("box", (1,), [0.0]),
        ("discrete", (6,), [1, 0, 0, 0, 0, 0]),
        ("dict", (3,), None),
        ("tuple", (3,), [0, 1, 0]),
    ],
)
@pytest.mark.parametrize("workers", [False, True])
def test_vectors_of_every_supported_space(kind, shape, first, workers):
    batch = make_batch(partial(Corridor, kind), 3, workers)
    try:
        x = batch.reset([1, 2, 3])
        assert x.shape == (3, *shape)
        assert x.dtype == np.float32
        if first is not None:
            np.testing.assert_array_equal(x[1], first)
        step = batch.step(np.array([1, 1, 0]))
        assert step.observations.shape == (3, *shape)
        assert not np.array_equal(step.observations[0], x[0])
        np.testing.assert_array_equal(step.observations[2], x[2])
    finally:
        batch.close()


def test_flattening_agrees_with_gymnasium():
    space = spaces.Dict(
        {
            "a": spaces.Discrete(3),
            "b": spaces.Tuple((spaces.Box(-1, 1, (2, 2)), spaces.MultiDiscrete([2, 4]))),
            "c": spaces.MultiBinary(3),
        }
    )
    space.seed(0)
    values = [space.sample() for _ in range(5)]
    expected = np.stack([spaces.flatten(space, value) for value in values])
    spec = ObservationSpec(space)
    assert spec.shape == expected.shape[1:]
    single = np.concatenate([spec.encode_one(value) for value in values])
    np.testing.assert_allclose(single, expected, rtol=1e-6)
    batched = gym.vector.utils.concatenate(space, values, gym.vector.utils.create_empty_array(space, 5))
    np.testing.assert_allclose(spec.encode(batched, 5), expected, rtol=1e-6)
    assert spec.holds(values[0])
    assert not spec.holds(batched)


def test_images_become_channels_first_and_stay_bytes():
    space = spaces.Box(0, 255, (40, 48, 3), np.uint8)
    spec = ObservationSpec(space)
    image = np.random.default_rng(0).integers(256, size=(2, 40, 48, 3), dtype=np.uint8)
    x = spec.encode(image, 2)
    assert spec.shape == (3, 40, 48)
    assert x.dtype == np.uint8
    np.testing.assert_array_equal(x[1, 2], image[1, :, :, 2])
    assert ObservationSpec(spaces.Box(0, 255, (4, 84, 84), np.uint8)).shape == (4, 84, 84)
    assert ObservationSpec(spaces.Box(0, 255, (84, 84), np.uint8)).shape == (1, 84, 84)


def test_actions_are_scaled_from_the_unit_range_and_clipped():
    spec = ActionSpec(Target().action_space)
    assert spec.size == 2
    decoded = spec.decode(np.array([[-1.0, -1.0], [0.0, 0.0], [5.0, 0.5]], np.float32))
    np.testing.assert_allclose(decoded[..., 0], [[0, -3], [5, -1], [10, 0]])
    assert decoded.dtype == np.float64
    np.testing.assert_array_equal(ActionSpec(spaces.Discrete(2, start=1)).decode(np.array([0, 1])), [1, 2])


@pytest.mark.parametrize("value", [0, 6])
def test_a_discrete_observation_outside_its_space_is_refused(value):
    spec = ObservationSpec(spaces.Discrete(5, start=1))
    np.testing.assert_array_equal(spec.encode(np.array([1, 5]), 2), np.eye(5)[[0, 4]])
    with pytest.raises(EnvironmentFault, match="not in the space"):
        spec.encode(np.array([value]), 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.int32])
def test_decoded_actions_lie_within_their_bounds(dtype):
    rng = np.random.default_rng(0)
    integral = np.issubdtype(dtype, np.integer)
    for _ in range(500):
        bounds = rng.integers(-128, 128, size=2) if integral else rng.normal(0, 10 ** rng.uniform(-3, 3), 2)
        low, high = np.sort(bounds.astype(dtype))
        if low == high:
            continue
        space = spaces.Box(low, high, (3,), dtype)
        for action in ([-1, 0, 1], [5, -5, 0.999], rng.normal(size=3)):
            decoded = ActionSpec(space).decode(np.array([action], np.float32))[0]
            assert space.contains(decoded)
        ends = ActionSpec(space).decode(np.array([[-1, 1, 0]], np.float32))[0].astype(np.float64)
        np.testing.assert_allclose(ends[:2], [low, high], rtol=1e-6)
        np.testing.assert_allclose(
            ends[2], (float(low) + float(high)) / 2, atol=0.5 if integral else 1e-3 * (high - low)
        )


def test_observations_must_have_the_declared_shape():
    spec = ObservationSpec(spaces.Box(0, 255, (96, 64, 3), np.uint8))
    with pytest.raises(EnvironmentFault, match="where the space declares"):
        spec.encode(np.zeros((2, 64, 96, 3), np.uint8), 2)
    with pytest.raises(EnvironmentFault, match="where the space declares"):
        ObservationSpec(spaces.Box(-1, 1, (4,))).encode(np.zeros((2, 5)), 2)


def test_own_environment_by_module_and_class():
    env = make_one("environments:Corridor")
    assert isinstance(env.unwrapped, Corridor)
    assert "CartPole-v1" in known_names()
    assert "CartPole-v0" not in known_names()


def right(x, masks):
    return np.ones(len(x), np.int64), np.zeros((len(x), 2), np.float32)


def test_dead_steps_are_marked_and_not_counted():
    batch = make_batch(partial(Corridor, length=3), 2)
    rollout = Rollout(batch, 8, 0.9, [0, 1])
    trajectory, episodes = rollout.collect(right)
    # Three steps to the end, one dead step, three steps, one dead step.
    np.testing.assert_array_equal(trajectory.live[:, 0], [1, 1, 1, 0, 1, 1, 1, 0])
    np.testing.assert_allclose(trajectory.discounts[:, 0], np.float32([0.9, 0.9, 0, 0, 0.9, 0.9, 0, 0]))
    np.testing.assert_array_equal(trajectory.rewards[:, 0], [0, 0, 1, 0, 0, 0, 1, 0])
    # The observation at a dead step is the true last one; the next is the new episode's first.
    np.testing.assert_allclose(trajectory.observations[3, 0], 1.0)
    np.testing.assert_allclose(trajectory.observations[4, 0], 0.0)
    assert episodes == [(1.0, 3)] * 4


def test_an_episode_that_ends_on_a_trajectorys_last_step():
    batch = make_batch(partial(Corridor, length=4), 1)
    rollout = Rollout(batch, 4, 0.9, [0])
    first, episodes = rollout.collect(right)
    assert first.live.all()
    assert episodes == [(1.0, 4)]
    second, episodes = rollout.collect(right)
    np.testing.assert_array_equal(second.live[:, 0], [0, 1, 1, 1])
    assert episodes == []
    third, episodes = rollout.collect(right)
    np.testing.assert_array_equal(third.live[:, 0], [1, 0, 1, 1])
    assert episodes == [(1.0, 4)]


def test_a_time_limit_keeps_its_discount():
    def limited():
        return gym.wrappers.TimeLimit(Corridor(length=50), 3)

    trajectory, episodes = Rollout(make_batch(limited, 1), 5, 0.9, [0]).collect(right)
    np.testing.assert_array_equal(trajectory.live[:, 0], [1, 1, 1, 0, 1])
    np.testing.assert_allclose(trajectory.discounts[:, 0], np.float32([0.9, 0.9, 0.9, 0, 0.9]))
    np.testing.assert_allclose(trajectory.observations[3, 0], 3 / 50)
    assert episodes == [(0.0, 3)]


# ------------------------------------------------------------------ images among other parts, words among numbers


def grid_space(**more):
    image = spaces.Box(0, 255, (7, 6, 3), np.uint8)
    return spaces.Dict({"image": image, "direction": spaces.Discrete(4, start=1), **more})


def test_an_image_among_choices_has_a_channel_for_each_of_their_numbers():
    spec = ObservationSpec(grid_space(bits=spaces.MultiBinary(2)))
    assert spec.is_image and spec.is_pixels and spec.dtype == np.uint8 and spec.shape == (4 + 2 + 3, 7, 6)
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(2, 7, 6, 3), dtype=np.uint8)
    raw = {"image": images, "direction": np.array([1, 4]), "bits": np.array([[0, 1], [1, 0]], np.int8)}
    x = spec.encode(raw, 2)
    assert x.dtype == np.uint8
    for part, channels in (([0, 1], x[0, :2]), ([1, 0], x[1, :2]), ([0, 0, 0, 1], x[1, 2:6])):
        np.testing.assert_array_equal(channels, np.broadcast_to(255 * np.array(part)[:, None, None], channels.shape))
    np.testing.assert_array_equal(x[1, 6:], np.moveaxis(images[1], -1, 0))
    one = {"image": images[1], "direction": 4, "bits": np.array([1, 0], np.int8)}
    np.testing.assert_array_equal(spec.encode_one(one)[0], x[1])
    assert spec.holds(one) and not spec.holds(raw) and spec.count(raw) == 2


def test_an_image_among_numbers_becomes_fractions():
    spec = ObservationSpec(grid_space(speed=spaces.Box(-9, 9, (2,), np.float32), other=spaces.Box(0, 1, (5, 7, 6))))
    assert spec.dtype == np.float32 and not spec.is_pixels and spec.shape == (4 + 3 + 5 + 2, 7, 6)
    image = np.full((7, 6, 3), 51, np.uint8)
    other = np.random.default_rng(0).random((5, 7, 6), np.float32)
    x = spec.encode_one({"image": image, "direction": 2, "speed": np.array([-4, 8.5], np.float32), "other": other})[0]
    np.testing.assert_allclose(x[4:7], 0.2)
    np.testing.assert_array_equal(x[7:12], other)
    np.testing.assert_array_equal(x[12:, 3, 3], [-4, 8.5])
    assert x[:4].max(axis=(1, 2)).tolist() == [0, 1, 0, 0]


def test_images_of_two_sizes_become_a_vector():
    spec = ObservationSpec(grid_space(other=spaces.Box(0, 255, (9, 9, 1), np.uint8)))
    assert not spec.is_image and spec.dtype == np.float32 and spec.shape == (4 + 7 * 6 * 3 + 81,)


class Talking(Corridor):
    """What it says is no number, and hides between what is."""

    def __init__(self, tells=True):
        super().__init__("dict")
        self.own = self.observation_space
        deeper = spaces.Tuple((spaces.Text(9), spaces.Discrete(3)))
        self.observation_space = spaces.Dict({"a": spaces.Text(9), "corridor": self.own, "z": deeper})

    def _observe(self):
        return {"a": "left", "corridor": super()._observe(), "z": ("right", self.at % 3)}


@pytest.mark.parametrize("workers", [False, True])
def test_parts_that_are_no_numbers_are_left_out(workers):
    batch = make_batch(Talking, 2, workers)
    try:
        x = batch.reset([0, 1])
        assert x.shape == (2, 6) and batch.observation.left_out == ()
        moved = batch.step(np.array([1, 0])).observations
        np.testing.assert_array_equal(moved[0], [1, 0, np.float32(0.2), 0, 1, 0])
        if not workers:
            state = batch.state()
            np.testing.assert_array_equal(batch.restore(state), moved)
    finally:
        batch.close()
    whole = ObservationSpec(Talking().observation_space)
    assert whole.left_out == ("a (Text)", "z[0] (Text)") and whole.describe() == batch.observation.describe()
    raw = Talking().reset()[0]
    whole.check(raw)
    np.testing.assert_array_equal(whole.encode_one(raw), x[:1])
    with pytest.raises(SettingsError, match="no part 'end'"):
        whole.check({"corridor": {"where": raw["corridor"]["where"]}, "z": raw["z"]})


def test_what_is_left_out_is_said_once(capfd):
    registry._say_left_out.cache_clear()
    for _ in range(2):
        registry.spaces_of(Talking)
    assert capfd.readouterr().err.replace("\n", " ").count("no numbers are left out: a (Text), z[0] (Text)") == 1


def test_an_observation_of_nothing_but_words_is_refused():
    with pytest.raises(EnvironmentFault, match="is not supported"):
        ObservationSpec(spaces.Dict({"a": spaces.Text(5), "b": spaces.Tuple((spaces.Text(5),))}))
