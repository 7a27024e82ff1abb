"""Each distinct patch computed once gives what computing all of them gives."""

import csv
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from acer import ACER
from acer.config import defaults
from acer.errors import SettingsError
from acer.learner import kernels, reuse
from acer.learner.networks import Encoder, Network
from acer.learner.parameters import Constants, descend
from acer.learner.torsos import Architecture
from acer.run.training import Training

SIZES = st.sampled_from([(1, 36, 36), (4, 44, 40), (3, 39, 47), (4, 84, 84)])


def architecture(observation=(4, 84, 84), **changes):
    base = Architecture(observation, True, 3, 1, "action-values", (16,), 0, convolutional=True, reuse="always")
    return dataclasses.replace(base, **changes)


@st.composite
def trajectories(draw):
    """Images [T+1, B, C, h, w] in which, from step to step, as much changes as in one of the ways that games do."""
    channels, height, width = draw(SIZES)
    steps, count = draw(st.integers(1, 5)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    images = np.empty((steps + 1, count, channels, height, width), np.uint8)
    images[0] = rng.integers(256, size=images.shape[1:])
    ways = st.sampled_from(["nothing", "one pixel", "a block", "everything", "there and back", "a new episode"])
    for t in range(1, steps + 1):
        images[t] = images[t - 1]
        for b in range(count):
            way = draw(ways)
            c, y, x = (rng.integers(size) for size in images.shape[2:])
            if way == "one pixel":
                images[t, b, c, y, x] ^= 1
            elif way == "a block":
                images[t, b, :, y : y + 9, x : x + 5] += 7
            elif way == "everything":
                images[t, b] += 1
            elif way == "there and back":
                images[t, b] = images[max(0, t - 2), b]
            elif way == "a new episode":
                images[t, b, :-1], images[t, b, -1] = 0, rng.integers(256, size=(height, width))
    return images


def fresh_by_definition(images):
    """An output is fresh where a pixel that it depends on has changed."""
    changed = np.ones(images.shape[:2] + images.shape[3:], np.bool_)
    changed[1:] = (images[1:] != images[:-1]).any(2)
    fields = ((8, 4), (20, 8), (36, 8))  # receptive field and stride in pixels
    for t, b in np.ndindex(changed.shape[:2]):
        yield t, b, [
            np.array([[changed[t, b, i : i + field, j : j + field].any()
                       for j in range(0, images.shape[4] - field + 1, stride)]
                      for i in range(0, images.shape[3] - field + 1, stride)])
            for field, stride in fields
        ]  # fmt: skip


@settings(deadline=None, max_examples=25)
@given(trajectories())
def test_a_place_is_fresh_just_where_a_pixel_that_it_depends_on_changed(images):
    layers = reuse.fresh_places(images)
    for t, b, expected in fresh_by_definition(images):
        for layer, places in zip(layers, expected, strict=True):
            np.testing.assert_array_equal(layer[t, b], places)


def test_one_pixel_makes_fresh_what_it_reaches():
    images = np.zeros((3, 1, 4, 84, 84), np.uint8)
    images[1:, 0, 2, 40, 41] = 1
    places = [[{int(i) for i in axis} for axis in layer[1, 0].nonzero()] for layer in reuse.fresh_places(images)]
    assert places == [[{9, 10}] * 2, [{3, 4, 5}] * 2, [{1, 2, 3, 4, 5}] * 2]
    assert [layer[2].sum() for layer in reuse.fresh_places(images)] == [0, 0, 0]


def test_a_row_is_read_until_the_place_is_fresh_again():
    fresh = np.array([[1, 1, 1], [0, 1, 0], [0, 1, 1], [1, 0, 0]], np.bool_).reshape(4, 1, 1, 3)
    rows, ends = kernels.rows(fresh)
    assert rows.reshape(4, 3).tolist() == [[0, 1, 2], [0, 3, 2], [0, 4, 5], [6, 4, 5]]
    assert ends.tolist() == [3, 4, 6, 7]


@settings(deadline=None, max_examples=25)
@given(trajectories())
def test_rows_and_wires_lead_every_output_to_its_own_pixels(images):
    """Followed from conv3 down to the bytes, an output reads what its field of 36×36 pixels shows."""
    fresh = reuse.fresh_places(images)
    x = reuse.Patches.of(torch.from_numpy(images), fresh, 1.0, torch.zeros(images.shape[2:]), None)
    patches = x.patches.unflatten(1, (-1, 8, 8)).numpy()
    conv1, conv2, conv3 = (reads.numpy() for reads in x.reads)
    width = fresh[2].shape[3]
    for t, b, place in np.ndindex(conv3.shape):
        field = images[t, b, :, 8 * (place // width) :, 8 * (place % width) :]
        for n, row2 in enumerate(conv2[conv3[t, b, place]]):
            for m, row1 in enumerate(conv1[row2]):
                i, j = 8 * (n // 3) + 4 * (m // 4), 8 * (n % 3) + 4 * (m % 4)
                if (n + m) % 5 == 0:  # some of them
                    np.testing.assert_array_equal(patches[row1], field[:, i : i + 8, j : j + 8])


def both_ways(images, dtype=torch.float64, **changes):
    """Output and gradients, of every patch and of the distinct ones, for the same weights and messages."""
    torch.manual_seed(0)
    every, distinct = (Network(architecture(images.shape[2:], reuse=way, **changes)) for way in ("never", "always"))
    distinct.load_state_dict(every.state_dict())
    mean = torch.rand(images.shape[2:])
    found = []
    for network in (every, distinct):
        network.to(dtype).encoder.set_statistics(mean, torch.full_like(mean, 0.3))
        x = network.encoder(torch.from_numpy(images))
        assert isinstance(x, reuse.Patches) == (network is distinct)
        output, features = network(x)
        with torch.no_grad():
            first_steps = network.policy(x[:-1])[0]
        torch.manual_seed(1)
        torch.autograd.backward([output, features], [torch.randn_like(output), torch.randn_like(features)])
        gradients = [p.grad for p in network.parameters() if p.grad is not None]
        found.append([output.detach(), features.detach(), first_steps, *gradients])
    return zip(*found, strict=True)


def largest_error(every, distinct):
    return float((every - distinct).abs().max() / every.abs().max().clamp(min=1e-30))


@settings(deadline=None, max_examples=40)
@given(trajectories(), st.sampled_from(["relu", "tanh"]), st.booleans())
def test_outputs_and_gradients_are_the_same_in_float64(images, activation, shared_torso):
    for pair in both_ways(images, activation=activation, shared_torso=shared_torso):
        assert largest_error(*pair) < 1e-10


@settings(deadline=None, max_examples=40)
@given(trajectories())
def test_outputs_and_gradients_are_the_same_in_float32(images):
    # A rectifier may take a number next to 0 for one side or the other; tanh has no such edge.
    for pair in both_ways(images, torch.float32, activation="tanh"):
        assert largest_error(*pair) < 1e-5


@settings(deadline=None, max_examples=10)
@given(trajectories())
def test_in_bfloat16_errors_are_no_larger_than_without_reuse(images):
    exact = [every for every, _ in both_ways(images, torch.float32, activation="tanh")]
    for truth, (every, distinct) in zip(
        exact, both_ways(images, torch.float32, activation="tanh", bfloat16=True), strict=True
    ):
        assert largest_error(truth, distinct) < 2 * largest_error(truth, every) + 2e-3


def test_the_same_images_give_the_same_bits():
    images = np.random.default_rng(0).integers(256, size=(6, 2, 4, 84, 84), dtype=np.uint8)
    images[1:, :, :, 30:] = images[:1, :, :, 30:]
    for bfloat16 in (False, True):
        one, two = ([distinct for _, distinct in both_ways(images, torch.float32, bfloat16=bfloat16)] for _ in range(2))
        assert all(torch.equal(*pair) for pair in zip(one, two, strict=True))


def test_a_gather_adds_up_the_gradients_of_all_that_read_a_row():
    index = torch.tensor([[0, 2], [2, 2]], dtype=torch.int32)
    values = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.equal(reuse.Gather.apply(values, index), values[index.long()])
    assert torch.autograd.gradcheck(lambda v: reuse.Gather.apply(v, index), values)


def test_sums_of_bfloat16_are_made_in_float32():
    """In bfloat16 256 + 1 is 256."""
    values = torch.zeros(1, 1, dtype=torch.bfloat16, requires_grad=True)
    reuse.Gather.apply(values, torch.zeros(257, dtype=torch.int32)).backward(
        torch.cat((torch.full((1, 1), 256.0), torch.ones(256, 1))).bfloat16()
    )
    assert values.grad.item() == 512


@pytest.mark.parametrize(
    ("changes", "threads", "reused"),
    [("nothing", 1, True), ("nothing", 3, True), ("nothing", 4, False), ("everything", 1, False)],
)
def test_auto_reuses_where_the_share_of_distinct_patches_times_threads_is_small(changes, threads, reused, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    images = np.zeros((5, 1, 4, 84, 84), np.uint8)
    if changes == "everything":
        images += np.arange(5, dtype=np.uint8)[:, None, None, None, None]
    encoder = Encoder(architecture(reuse="auto"))
    assert isinstance(encoder(torch.from_numpy(images)), reuse.Patches) == reused
    assert encoder.distinct == pytest.approx(1 / 5 if changes == "nothing" else 1)


def test_the_share_counts_multiplications():
    fresh = tuple(np.zeros((1, 1, n, n), np.bool_) for n in (20, 9, 7))
    fresh[1][:] = True
    work = [400 * 256 * 32, 81 * 512 * 64, 49 * 576 * 64]
    assert reuse.share_of_work(fresh, 4) == pytest.approx(work[1] / sum(work))


# ------------------------------------------------------------------ the run

SMALL = {"environments": 4, "trajectories_per_update": 2, "hidden": (8,), "replay_capacity": 400, "replay_start": 80,
         "threads": 1, "precision": "float32", "eval_episodes": 1, "eval_limit": 10}  # fmt: skip


def parameters(model):
    """θ, θ_a and the mean of squares, before the workers leave."""
    home = model._training.state.home
    return torch.cat((home.theta, home.theta_a, home.square)).clone()


def test_a_run_learns_the_same():
    """From fresh trajectories and from replayed ones, but for rounding."""
    found = {}
    for way in ("never", "always"):
        training = Training(defaults("pong", False, "atari", reuse=way, **SMALL))
        for _ in range(2):
            found[way] = training.learner.iterate()
        found[way] = found[way], training.state.home.theta.clone()
        training.close()
    (without, theta), (report, other) = found["never"], found["always"]
    assert report.replays == without.replays > 0
    torch.testing.assert_close(theta, other, rtol=0, atol=1e-6)
    assert "distinct" not in without.diagnostics and 0 < report.diagnostics["distinct"] < 0.7
    assert report.diagnostics["grad_norm"] == pytest.approx(without.diagnostics["grad_norm"], rel=1e-4)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_run_taken_up_again_goes_on_bit_for_bit(precision, tmp_path):
    settings = SMALL | {"reuse": "always", "precision": precision}
    whole = ACER("pong", seed=1, steps=480, **settings).learn(480)
    ACER("pong", seed=1, steps=480, **settings).learn(240, out=tmp_path / "run").close()
    parts = ACER.load(tmp_path / "run", resume=True).learn(240)
    assert torch.equal(parameters(parts), parameters(whole))
    whole.close()
    parts.close()


def test_many_processes_reuse_too(tmp_path):
    model = ACER("pong", home="shared", actors=2, reuse="always", **SMALL).learn(640, out=tmp_path / "run")
    rows = list(csv.DictReader((tmp_path / "run" / "progress.csv").open()))
    assert 0 < float(rows[-1]["distinct"]) < 0.7
    model.close()


@pytest.mark.parametrize("env", ["CartPole-v1", "environments:Corridor"])
def test_reuse_without_images_of_bytes_is_refused(env):
    with pytest.raises(SettingsError, match="reuse='always' is for convolutions of images of bytes"):
        ACER(env, reuse="always")


def test_one_pass_of_the_optimiser_is_its_passes_one_after_the_other():
    rng = np.random.default_rng(0)
    vectors = [torch.from_numpy(rng.normal(size=n).astype(np.float32)) for n in (9_000, 5_000)]
    square, gradient = (torch.from_numpy(rng.gamma(1, size=9_000).astype(np.float32)) for _ in range(2))
    results = []
    for one_pass in (False, True):
        theta, theta_a, squares = (vector.clone() for vector in (*vectors, square))
        descend(theta, theta_a, squares, gradient, 1e-2, Constants(0.9, 0.99, 1e-6, one_pass), 0.5)
        results.append(torch.cat((theta, theta_a, squares)))
    torch.testing.assert_close(*results, rtol=1e-5, atol=1e-6)
    assert not torch.equal(results[0][9_000:14_000], vectors[1])


@pytest.mark.parametrize("one_pass", [False, True])
def test_the_policy_has_a_learning_rate_of_its_own(one_pass):
    """Its parameters move as with its rate, all others as with the critic's; the average follows either."""
    rng = np.random.default_rng(0)
    vectors = [torch.from_numpy(rng.normal(size=n).astype(np.float32)) for n in (90, 50)]
    square, gradient = (torch.from_numpy(rng.gamma(1, size=90).astype(np.float32)) for _ in range(2))

    def after(rate, factor):
        theta, theta_a, squares = (vector.clone() for vector in (*vectors, square))
        descend(theta, theta_a, squares, gradient, rate, Constants(0.9, 0.99, 1e-6, one_pass, factor), 0.5)
        return theta, theta_a, squares

    (theta, theta_a, squares), small, large = after(1e-2, 0.25), after(0.25 * 1e-2, 1.0), after(1e-2, 1.0)
    torch.testing.assert_close(theta, torch.cat((small[0][:50], large[0][50:])))
    torch.testing.assert_close(theta_a, small[1])
    torch.testing.assert_close(squares, large[2])
    assert not torch.equal(theta[:50], large[0][:50])
