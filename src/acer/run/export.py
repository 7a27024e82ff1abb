"""Policies for programs that have no acer: as ONNX, or as PyTorch's own exported program.

The file takes what the environment observes and gives what it takes: reading, scaling and normalisation of
observations, the mode action within its bounds, and φ beside it are all inside.
"""

import contextlib
import dataclasses
import importlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from acer.envs import ActionSpec, ObservationSpec
from acer.envs.spaces import channels_last, image_shape, is_image
from acer.errors import SettingsError, in_one_line, install
from acer.learner.actor_learner import Agent
from acer.learner.gaussian import Gaussian, LearntGaussian
from acer.learner.networks import Network
from acer.run.outputs import beside

Format = Literal["onnx", "torch"]
SUFFIX: dict[Format, str] = {"onnx": ".onnx", "torch": ".pt2"}
MASKS = "action_masks"  # an input, of environments that have masks
MEMORY, AFTER = "memory", "next_memory"  # the last input and output of a recurrent policy; zeros begin an episode
CHECKED = 100  # observations on which a file is compared with `predict`
TOLERANCE = {False: 1e-4, True: 0.1}  # of φ, relative and absolute; larger for a policy that acts in bfloat16

Arrays = list[NDArray[Any]]
Runner = Callable[[Arrays], Arrays]


@dataclass(frozen=True)
class Check:
    """A file beside `predict`."""

    observations: int
    same: int  # of them that get the same action


def export(agent: Agent, masked: bool, output: Path, to: Format = "onnx") -> Check:
    """Writes the policy's file; nothing is left of one that does not act as `predict` does.

    masked: whether the environment says which choices are legal, so that the file takes masks.
    """
    policy = Exported(agent, masked)
    with beside(output) as partial:
        run = (_write_onnx if to == "onnx" else _write_torch)(policy, partial)
        return _check(policy, agent, run, output)


# ------------------------------------------------------------------ the policy as a graph


class Reader(nn.Module):
    """`ObservationSpec.encode`, as a graph."""

    def __init__(self, spec: ObservationSpec) -> None:
        super().__init__()
        self.spec = spec
        self.dtype = torch.from_numpy(np.empty(0, spec.dtype)).dtype

    def forward(self, *raw: Tensor) -> Tensor:
        """raw: a batch of each part."""
        turn = self._channels if self.spec.is_image else _flat
        parts = [turn(space, value) for (_, space), value in zip(self.spec.parts, raw, strict=True)]
        return (parts[0] if len(parts) == 1 else torch.cat(parts, 1)).to(self.dtype)

    def _channels(self, space: Any, value: Tensor) -> Tensor:
        """One part of an image: [N, channels, height, width]."""
        if is_image(space):
            images = value.movedim(-1, 1) if channels_last(space) else value
            images = images.reshape(-1, *image_shape(space))
            become_fractions = self.dtype != torch.uint8 and len(self.spec.parts) > 1 and space.dtype == np.uint8
            return images * (1 / 255) if become_fractions else images
        flat = _flat(space, value)
        if self.dtype == torch.uint8 and space.dtype != np.uint8:
            flat = 255 * flat.to(torch.bool)
        return flat.to(self.dtype)[:, :, None, None].expand(-1, -1, *self.spec.shape[1:])


class Decoder(nn.Module):
    """`ActionSpec.decode`, as a graph."""

    low: Tensor
    high: Tensor
    start: Tensor

    def __init__(self, spec: ActionSpec) -> None:
        super().__init__()
        self.spec = spec
        space: Any = spec.space
        self.shape = tuple(space.shape or ())
        self.dtype = torch.from_numpy(np.empty(0, space.dtype)).dtype
        bounds = (space.low, space.high) if spec.continuous else (0, 0)
        for name, bound in zip(("low", "high"), bounds, strict=True):
            self.register_buffer(name, torch.as_tensor(np.asarray(bound, np.float64)))
        self.register_buffer("start", torch.as_tensor(np.asarray(getattr(space, "start", 0), np.int64)))

    def forward(self, actions: Tensor) -> Tensor:
        if not self.spec.continuous:
            return (actions.reshape(-1, *self.shape) + self.start).to(self.dtype)
        unit = actions.clamp(-1, 1).reshape(-1, *self.shape).double()
        scaled = self.low + (unit + 1) * ((self.high - self.low) / 2)
        if not self.dtype.is_floating_point:
            scaled = scaled.round()
        return scaled.clamp(self.low, self.high).to(self.dtype)


class Exported(nn.Module):
    """Raw observations, masks and a memory where there are any, to the mode action, φ and the memory after it; in
    float32."""

    def __init__(self, agent: Agent, masked: bool) -> None:
        super().__init__()
        plain = dataclasses.replace(agent.architecture, bfloat16=False, reuse="never")
        network = Network(plain)
        network.load_state_dict(agent.network.state_dict())
        if agent.config.act_with == "average":
            network.policy.load_state_dict(agent.average.state_dict())
        if agent.network.encoder.normalizes:
            network.encoder.set_statistics(network.encoder.mean.clone(), network.encoder.deviation.clone())
        self.reader, self.encoder, self.policy = Reader(agent.observation), network.encoder, network.policy
        self.decoder = Decoder(agent.action)
        self.distribution = agent.distribution
        self.masked, self.remembers = masked, self.policy.memory is not None
        self.requires_grad_(False).eval()

    @property
    def inputs(self) -> list[str]:
        """Names of what it takes, in order."""
        paths = [".".join(map(str, ("observation", *path))) for path, _ in self.reader.spec.parts]
        return [*paths, *[MASKS] * self.masked, *[MEMORY] * self.remembers]

    @property
    def outputs(self) -> list[str]:
        """Names of what it gives, in order."""
        return ["action", "statistics", *[AFTER] * self.remembers]

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        parts = len(self.reader.spec.parts)
        x = self.encoder(self.reader(*inputs[:parts]))
        masks = inputs[parts] if self.masked else None
        after: tuple[Tensor, ...] = ()
        if self.policy.memory is None:
            output, _ = self.policy(x)
        else:
            after = (self.policy.memory.step(self.policy.torso(x), inputs[-1]),)
            output = self.policy.output(after[0])
        phi = self.distribution.statistics(output, masks)
        action = self.distribution.mode(phi)
        if isinstance(self.distribution, Gaussian | LearntGaussian) and self.distribution.squashed:
            action = action.tanh()  # what `Distribution.applied` does with arrays
        return self.decoder(action), phi, *after


def _flat(space: Any, value: Tensor) -> Tensor:
    """[N, n], one-hot where it is discrete."""
    if isinstance(space, spaces.Discrete):
        return _one_hot(value.reshape(-1) - int(space.start), int(space.n))
    if isinstance(space, spaces.MultiDiscrete):
        columns = value.reshape(value.shape[0], -1) - torch.as_tensor(space.start.reshape(-1))
        return torch.cat([_one_hot(columns[:, i], int(n)) for i, n in enumerate(space.nvec.reshape(-1))], -1)
    return value.reshape(value.shape[0], -1).to(torch.float32)


def _one_hot(value: Tensor, n: int) -> Tensor:
    return (value.unsqueeze(-1) == torch.arange(n)).to(torch.float32)


# ------------------------------------------------------------------ writing


def _write_torch(policy: Exported, path: Path) -> Runner:
    file = io.BytesIO()  # a path has to end in .pt2
    torch.export.save(_traced(policy), file)
    path.write_bytes(file.getvalue())
    file.seek(0)
    with _quiet():
        module = torch.export.load(file).module()
    return lambda inputs: [tensor.numpy() for tensor in module(*map(torch.from_numpy, inputs))]


def _write_onnx(policy: Exported, path: Path) -> Runner:
    try:
        onnxruntime = importlib.import_module("onnxruntime")
        importlib.import_module("onnxscript")
    except ImportError as error:
        raise SettingsError(f"ONNX needs {error.name}: {install('export')}") from None
    with _quiet():
        program = torch.onnx.export(
            _traced(policy),
            verbose=False,
            input_names=policy.inputs,
            output_names=policy.outputs,
            dynamic_shapes=_any_number(policy),
        )
    assert program is not None
    program.save(path, external_data=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(policy.outputs, dict(zip(policy.inputs, inputs, strict=True)))


def _traced(policy: Exported) -> torch.export.ExportedProgram:
    """The policy for any number of observations."""
    inputs = tuple(map(torch.from_numpy, Drawn(policy, 2).inputs))
    policy(*inputs)  # what a distribution computes once must not be part of a trace
    try:
        with _quiet():
            return torch.export.export(policy, inputs, dynamic_shapes=_any_number(policy))
    except Exception as error:  # PyTorch has no class for it
        raise SettingsError(f"PyTorch cannot export this policy: {in_one_line(error)[:200]}") from None


def _any_number(policy: Exported) -> Any:
    """The first dimension of each input."""
    batch = torch.export.Dim("batch")
    return (tuple({0: batch} for _ in policy.inputs),)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what PyTorch's exporters say of themselves."""
    logger = logging.getLogger("torch.onnx._internal.exporter")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


# ------------------------------------------------------------------ the check


def _check(policy: Exported, agent: Agent, run: Runner, output: Path) -> Check:
    """Refuses a file whose φ is not that of `predict`, or whose action is not the mode of its φ."""
    drawn = Drawn(policy, CHECKED)
    found = run(drawn.inputs)
    memory = None if drawn.memory is None else drawn.memory.copy()
    expected, phi = agent.act(agent.observation.encode(drawn.observations, CHECKED), None, drawn.masks, memory)
    mode = agent.distribution.applied(agent.distribution.mode(torch.from_numpy(found[1])).numpy())
    right = [agent.action.decode(mode), phi, *([] if memory is None else [memory])]
    one = run([values[:1] for values in drawn.inputs])
    tolerance = TOLERANCE[agent.architecture.bfloat16]
    for name, here, there in (
        *zip(policy.outputs, found, right, strict=True),
        *((f"{name} of one observation", a, b[:1]) for name, a, b in zip(policy.outputs, one, found, strict=True)),
    ):
        if here.shape != there.shape or not np.allclose(here, there, tolerance, tolerance):
            raise SettingsError(f"{output} is not written: the exported policy has other {name} than predict")
    same = np.isclose(found[0], agent.action.decode(expected), tolerance, tolerance).reshape(CHECKED, -1).all(1)
    return Check(CHECKED, int(same.sum()))


class Drawn:
    """Observations, masks and memories at random, as arrays and as `predict` takes them."""

    def __init__(self, policy: Exported, count: int) -> None:
        rng = np.random.default_rng(0)
        action = policy.decoder.spec
        values = [_values(space, rng, count) for _, space in policy.reader.spec.parts]
        self.observations: Any = {}
        for (path, _), value in zip(policy.reader.spec.parts, values, strict=True):
            self.observations = _placed(self.observations, path, value)
        self.masks = self.memory = None
        if policy.masked:
            self.masks = rng.random((count, action.size)) < 0.7
            starts = np.cumsum((0, *action.parts[:-1]))
            self.masks[:, starts] |= ~np.logical_or.reduceat(self.masks, starts, axis=1)  # something is legal
        if policy.policy.memory is not None:
            self.memory = rng.uniform(-1, 1, (count, policy.policy.memory.size)).astype(np.float32)
        self.inputs: Arrays = [*values, *(of for of in (self.masks, self.memory) if of is not None)]


def _placed(whole: dict[Any, Any], path: tuple[Any, ...], value: Any) -> Any:
    """`value` where the path leads to; a `Tuple` becomes a dict of its numbers."""
    if not path:
        return value
    whole[path[0]] = _placed(whole.get(path[0], {}), path[1:], value)
    return whole


def _values(space: Any, rng: np.random.Generator, count: int) -> NDArray[Any]:
    """A batch within the space's bounds; near 0 where they are wide."""
    size = (count, *space.shape)
    if isinstance(space, spaces.Box):
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        middle = np.clip(0, low, high)
        wide = ~(high / 2 - low / 2 < 1e6)
        drawn = rng.uniform(np.where(wide, middle - 3, low), np.where(wide, middle + 3, high), size)
        of_box: NDArray[Any] = np.clip(drawn, low, high).astype(space.dtype)
        return of_box
    start = getattr(space, "start", 0)
    choices = getattr(space, "n", 2) if isinstance(space, spaces.Discrete) else getattr(space, "nvec", 2)
    of_choices: NDArray[Any] = (start + rng.integers(0, choices, size)).astype(space.dtype)
    return of_choices
