"""Policies as files for programs without acer: they act as `predict` does."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from acer import ACER
from acer.errors import SettingsError
from acer.learner.categorical import Categorical
from acer.run import export
from environments import Corridor, Dials, Market, Target

onnxruntime = pytest.importorskip("onnxruntime")  # an extra

TINY = {"hidden": (8,), "environments": 4, "replay_start": 320, "eval_episodes": 1, "eval_limit": 20}


class Mixed(Corridor):
    """An image, and numbers beside it; without words, which are left out."""

    def __init__(self, *names):
        super().__init__()
        parts = {"image": spaces.Box(0, 255, (8, 9, 3), np.uint8), "side": spaces.Discrete(3),
                 "where": spaces.Box(0, 1, (2,), np.float32), "word": spaces.Text(5)}  # fmt: skip
        self.observation_space = spaces.Dict({name: parts[name] for name in names})


MODELS = {
    "image-and-numbers": (partial(Mixed, "image", "side", "where"), {"precision": "float32"}),
    "image-and-choice": (partial(Mixed, "image", "side", "word"), {"precision": "float32"}),
    "categorical": (partial(Corridor, "box"), {"normalize_observations": True}),
    "probabilities": (partial(Corridor, "discrete"), {"statistic": "probabilities", "layer_norm": True}),
    "multi": (Dials, {}),
    "binary": (partial(Dials, (2, 2, 2), True), {}),
    "masks": (partial(Market, (3, 4)), {}),
    "gaussian": (Target, {"activation": "tanh"}),
    "bounded": (Target, {"bounded_mean": True, "shared_torso": False}),
    "free": (Target, {"learn_sigma": "free", "normalize_observations": True}),
    "state": (Target, {"learn_sigma": "state", "hidden": ()}),
    "squashed": (Target, {"squashed": True, "act_with": "average"}),
    "squashed-state": (Target, {"squashed": True, "learn_sigma": "state"}),
    "recurrent": (Dials, {"recurrent": "gru", "memory_size": 5}),
    "dict": (partial(Corridor, "dict"), {}),
    "tuple": (partial(Corridor, "tuple"), {}),
    "image": (partial(Corridor, "image"), {"normalize_observations": True, "precision": "float32"}),
}
FILES = [("categorical", "onnx"), ("recurrent", "onnx"), ("categorical", "torch"), ("masks", "onnx"), ("free", "torch")]
SLOW = [(name, to) for name in MODELS for to in export.SUFFIX if (name, to) not in FILES]


def trained(name):
    """With weights of about unit size, and none of its actions always ahead."""
    env, settings = MODELS[name]
    model = ACER(env, **TINY | settings)
    if "normalize_observations" in settings:
        model.learn(80)
    network, observation = model.agent.network, model.agent.observation
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        policy = model.agent.average if settings.get("act_with") == "average" else network.policy
        for parameter in policy.parameters():
            inputs = max(1, parameter[0].numel())
            parameter.copy_(torch.randn(parameter.shape, generator=generator) / inputs**0.5)
        raw, _ = observations(observation.space, 100, np.random.default_rng(0))
        x = network.encoder(torch.from_numpy(observation.encode(raw, 100)))
        output = policy(x)[0] if policy.memory is None else network.act(x, torch.zeros(100, 5), policy)[0]
        policy.head.bias.sub_(output.mean(0)[: len(policy.head.bias)])
    return model


def through_onnx(path, inputs):
    session = onnxruntime.InferenceSession(path)
    names = [given.name for given in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def through_torch(path, inputs):
    return [tensor.numpy() for tensor in torch.export.load(path).module()(*map(torch.from_numpy, inputs))]


def observations(space, count, rng):
    """A batch as a vector environment gives it, and the arrays in it."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        parts = list(space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))
        parts = [(key, part) for key, part in parts if not isinstance(part, spaces.Text)]
        batches = {key: observations(part, count, rng) for key, part in parts}
        raw = {key: batch for key, (batch, _) in batches.items()}
        return raw if isinstance(space, spaces.Dict) else tuple(raw.values()), [
            array for _, arrays in batches.values() for array in arrays
        ]
    space.seed(int(rng.integers(1000)))
    raw = np.stack([np.asarray(space.sample(), space.dtype) for _ in range(count)])
    return raw, [raw]


def given(model, name):
    """What a graph takes, and what `predict` makes of it."""
    agent, rng = model.agent, np.random.default_rng(1)
    raw, inputs = observations(agent.observation.space, 50, rng)
    masks = state = None
    if name == "masks":
        masks = rng.random((50, 7)) < 0.6
        masks[:, [0, 3]] = True
        inputs = [*inputs, masks]
    if name == "recurrent":
        state = (rng.uniform(-1, 1, (50, 5)).astype(np.float32),)
        inputs = [*inputs, state[0]]
    expected, after = model.predict(raw, state, deterministic=True, action_masks=masks)
    assert len(np.unique(expected, axis=0)) > 1
    memory = None if state is None else state[0].copy()
    statistics = agent.act(agent.observation.encode(raw, 50), None, masks, memory)[1]
    return inputs, [expected, statistics, *(after or ())]


@pytest.mark.parametrize("name", MODELS)
def test_the_graph_of_every_distribution_and_space_acts_as_predict(name):
    model = trained(name)
    inputs, expected = given(model, name)
    graph = export.Exported(model.agent, name == "masks")
    found = [tensor.numpy() for tensor in graph(*map(torch.from_numpy, inputs))]
    assert found[0].dtype == expected[0].dtype
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "to"), [*FILES, *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)])
def test_a_file_acts_as_predict(name, to, tmp_path):
    model = trained(name)
    path = tmp_path / f"policy{export.SUFFIX[to]}"
    check = model.export(path, to)
    assert check.observations == check.same == export.CHECKED
    inputs, expected = given(model, name)
    found = (through_onnx if to == "onnx" else through_torch)(path, inputs)
    assert found[0].dtype == expected[0].dtype
    for here, there in zip(found, expected, strict=True):
        np.testing.assert_allclose(here, there, rtol=1e-4, atol=1e-4)


def test_what_the_file_takes_and_gives_is_named(tmp_path):
    trained("dict").export(tmp_path / "dict.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "dict.onnx")
    assert [(given.name, given.shape) for given in session.get_inputs()] == [
        ("observation.end", ["batch"]),
        ("observation.where", ["batch", 1]),
    ]
    assert [made.name for made in session.get_outputs()] == ["action", "statistics"]


class Worst(Categorical):
    """A wrong variant: takes the least likely action in the graph, not in `predict`."""

    def mode(self, phi):
        return phi.argmin(-1) if torch.compiler.is_exporting() else super().mode(phi)


class Warmer(Categorical):
    """Another: other statistics in the graph."""

    def statistics(self, output, masks=None):
        return super().statistics(output * 2 if torch.compiler.is_exporting() else output, masks)


@pytest.mark.parametrize(("wrong", "what"), [(Worst, "action"), (Warmer, "statistics")])
def test_a_file_that_acts_otherwise_is_not_written(wrong, what, tmp_path):
    model = trained("categorical")
    model.agent.distribution = wrong(2)
    with pytest.raises(SettingsError, match=f"not written: the exported policy has other {what} than predict"):
        model.export(tmp_path / "policy.pt2", "torch")
    assert not list(tmp_path.iterdir())


def test_normalisation_is_inside(tmp_path):
    """The running mean and deviation matter, and the file has them."""
    model = ACER("CartPole-v1", normalize_observations=True, **TINY).learn(400)
    moments = model.agent.moments
    assert moments is not None and not np.allclose(moments.deviation, 1)
    model.export(tmp_path / "policy.pt2", "torch")
    x = np.array([[0.1, 1.0, -0.05, 0.5]], np.float32)
    _, phi = through_torch(tmp_path / "policy.pt2", [x])
    seen = torch.from_numpy(((x - moments.mean) / moments.deviation).clip(-10, 10).astype(np.float32))
    by_hand = model.agent.network.policy(seen)[0].log_softmax(-1).detach()
    np.testing.assert_allclose(phi, by_hand, atol=1e-5)


def test_bfloat16_becomes_float32_and_is_said(tmp_path):
    model = ACER(partial(Corridor, "image"), precision="bfloat16", **TINY)
    check = model.export(tmp_path / "policy.pt2", "torch")
    assert check.same <= check.observations
    _, phi = through_torch(tmp_path / "policy.pt2", [np.zeros((1, 40, 48, 3), np.uint8)])
    assert phi.dtype == np.float32


def test_onnx_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SettingsError, match=r"ONNX needs onnxruntime: pip install 'acer-rl\[export\]'"):
        trained("categorical").export(tmp_path / "policy.onnx")
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_and_a_bad_place_are_one_line(tmp_path):
    model = trained("categorical")
    with pytest.raises(SettingsError, match="to must be one of onnx, torch, not 'tflite'"):
        model.export(tmp_path / "policy", "tflite")
    with pytest.raises(SettingsError, match="cannot write"):
        model.export(tmp_path / "missing" / "policy.pt2", "torch")


def test_a_network_that_pytorch_cannot_export_is_one_line(tmp_path):
    model = trained("categorical")

    class Moody(Categorical):
        def statistics(self, output, masks=None):
            return super().statistics(output if output.sum() > 0 else -output, masks)

    model.agent.distribution = Moody(2)
    with pytest.raises(SettingsError, match="PyTorch cannot export this policy: "):
        model.export(tmp_path / "policy.pt2", "torch")


def test_wide_and_odd_bounds_are_drawn_within(monkeypatch):
    for space in (
        spaces.Box(-3.4e38, 3.4e38, (2,), np.float32),
        spaces.Box(np.array([5.0, -np.inf]), np.array([np.inf, -7.0]), dtype=np.float64),
        spaces.Box(0, 255, (2, 2), np.uint8),
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 5]),
    ):
        drawn = export._values(space, np.random.default_rng(0), 20)
        assert all(space.contains(one) for one in drawn)
        assert len(np.unique(drawn)) > 1


def test_the_command(tmp_path, call):
    gym_id = "CartPole-v1"
    ACER(gym_id, **TINY).learn(100).save(tmp_path / "model")
    code, out, err = call("export", tmp_path / "model", "--to", "torch")
    assert code == 0
    assert out.strip().endswith("policy.pt2: the same action as predict on 100 of 100 observations")
    assert "Exporting acer on CartPole-v1" in err
    actions, phi = through_torch(tmp_path / "model" / "policy.pt2", [np.zeros((3, 4), np.float32)])
    assert actions.shape == (3,) and phi.shape == (3, gym.make(gym_id).action_space.n)
    assert ACER.load(tmp_path / "model").steps == 0  # the file beside it is in nobody's way
    code, _, err = call("export", tmp_path / "nothing")
    assert code == 2 and len(err.strip().splitlines()) <= 2


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1"])
def test_twenty_lines_play_a_file_where_neither_acer_nor_pytorch_is(env, tmp_path):
    model = ACER(env, **TINY)
    model.export(tmp_path / "policy.onnx")
    played, score, ended = gym.make(env), 0.0, False
    observation, _ = played.reset(seed=0)
    while not ended:
        observation, reward, terminated, truncated, _ = played.step(model.predict(observation, deterministic=True)[0])
        score, ended = score + float(reward), terminated or truncated
    model.close()

    example = Path(__file__).parents[2] / "examples" / "play_onnx.py"
    assert len(example.read_text().splitlines()) <= 20
    code = "import runpy, sys; sys.modules.update(acer=None, torch=None); runpy.run_path({!r}, None, '__main__')"
    command = [sys.executable, "-c", code.format(str(example)), "policy.onnx", env]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(score, rel=1e-4)
