"""Torsos: from observations to the features that the heads read, and what decides the network's shape."""

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch
from torch import Tensor, nn

from acer.config.own import OwnCode
from acer.envs.others import import_own
from acer.errors import EnvironmentFault, SettingsError, described

if TYPE_CHECKING:
    from acer.learner.reuse import Patches

Encoded: TypeAlias = "Tensor | Patches"  # what the encoder makes of observations

CriticKind = Literal["action-values", "state-value", "stochastic-dueling", "separate"]
Activation = Literal["relu", "tanh"]
Reuse = Literal["auto", "always", "never"]
# In place where the gradient allows it: memory is slower than arithmetic.
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": partial(nn.ReLU, inplace=True), "tanh": nn.Tanh}

CONVOLUTIONS = (
    (36, ((32, 8, 4), (64, 4, 2), (64, 3, 1))),
    (16, ((32, 4, 2), (64, 3, 2))),
    (5, ((32, 3, 1), (64, 3, 1))),
)
"""Channels, kernel and stride of each layer, for images of so many pixels a side at least: the paper's (Section 4), and
ours for smaller ones."""
PAPERS = CONVOLUTIONS[0][0]


@dataclass(frozen=True)
class Architecture:
    """Everything that decides the network's shape."""

    observation: tuple[int, ...]  # shape of one observation: (n,) or channels-first (c, h, w)
    pixels: bool  # observations are bytes, divided by 255
    outputs: int  # size of φ
    action_dimensions: int  # numbers of an action, for critics that take one
    critic: CriticKind
    hidden: tuple[int, ...]
    advantage_hidden: int
    activation: Activation = "relu"
    convolutional: bool = False
    memory: int = 0  # units of a GRU behind each torso; 0 for none
    own_torso: str = ""  # module:Class, or the code itself
    shared_torso: bool = True
    layer_norm: bool = False
    orthogonal: bool = False  # first weights of the torso, gain √2; PyTorch's own otherwise
    bfloat16: bool = False  # arithmetic of the convolutional torso
    reuse: Reuse = "never"  # whether it computes a patch that stays as it was a step before only once
    choices: int = 0  # actions that Q has an output for, if they are not as many as the policy's outputs
    free_outputs: int = 0  # the last of the policy's outputs, that do not depend on x


def _layers(sizes: tuple[int, ...], activation: Activation, layer_norm: bool) -> list[nn.Module]:
    layers: list[nn.Module] = []
    for size_in, size_out in pairwise(sizes):
        layers.append(nn.Linear(size_in, size_out))
        if layer_norm:
            layers.append(nn.LayerNorm(size_out))
        layers.append(ACTIVATIONS[activation]())
    return layers


class MLP(nn.Module):
    """Fully connected torso for vectors."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        inputs = int(torch.Size(architecture.observation).numel())
        self.inputs = inputs
        self.features = architecture.hidden[-1] if architecture.hidden else inputs
        self.layers = nn.Sequential(
            *_layers((inputs, *architecture.hidden), architecture.activation, architecture.layer_norm)
        )
        self.flatten = len(architecture.observation) != 1

    def forward(self, x: Tensor) -> Tensor:
        if self.flatten:
            x = x.reshape(*x.shape[:-3], self.inputs)
        return self.layers(x)  # type: ignore[no-any-return]


class ConvNet(nn.Module):
    """Torso for images: convolutions by their size, then fully connected."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        channels, height, width = architecture.observation
        layers: list[nn.Module] = []
        for out, kernel, stride in next(of for least, of in CONVOLUTIONS if min(height, width) >= least):
            layers += [nn.Conv2d(channels, out, kernel, stride), ACTIVATIONS[architecture.activation]()]
            channels = out
        self.convolutions = nn.Sequential(*layers, nn.Flatten())
        with torch.no_grad():
            size = self.convolutions(torch.zeros(1, *architecture.observation)).shape[1]
        self.features = architecture.hidden[-1]
        self.layers = nn.Sequential(
            *_layers((size, *architecture.hidden), architecture.activation, architecture.layer_norm)
        )
        self.in_bfloat16 = architecture.bfloat16

    def forward(self, x: Encoded) -> Tensor:
        weight = next(self.parameters())
        with torch.autocast(weight.device.type, torch.bfloat16, enabled=self.in_bfloat16):
            if isinstance(x, Tensor):
                features = self.layers(self.convolutions(x.flatten(0, -4)).unflatten(0, x.shape[:-3]))
            else:
                features = self.layers[1:](x.through(self.convolutions, self.layers[0]))
        return features.to(weight.dtype)  # type: ignore[no-any-return]


class OwnTorso(nn.Module):
    """A torso of the user's own: what makes it takes the shape of an observation and gives a module [N, …] to
    [N, features]."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        name, self.shape = architecture.own_torso, architecture.observation
        try:
            module = copy.deepcopy(own_code(name)(self.shape))  # each network has its own, wherever it comes from
            x = torch.linspace(-1, 1, 2 * math.prod(self.shape)).view(2, *self.shape)
            seen = x.clone()
            with torch.no_grad():
                features = module.eval()(x)
            features_shape = tuple(features.shape)
        except Exception as error:
            if isinstance(error, SettingsError):
                raise
            raise SettingsError(
                f"--torso {name} cannot be used for observations of shape {self.shape}: {described(error)}"
            ) from error
        if not isinstance(module, nn.Module) or len(features_shape) != 2 or features_shape[0] != 2:
            raise SettingsError(
                f"--torso {name} must make a module that turns [N, …] into [N, features]; of observations "
                f"{(2, *self.shape)} it made {features_shape}"
            )
        if not torch.equal(x, seen):
            raise SettingsError(
                f"--torso {name} changes its input, which is not its own: use no operation in place on it"
            )
        buffers = module.state_dict().keys() - dict(module.named_parameters()).keys()
        if buffers:
            raise SettingsError(
                f"--torso {name} has buffers ({', '.join(sorted(buffers))}), which are not saved and not shared: use "
                "layer or group normalisation instead of batch normalisation"
            )
        self.module, self.features = module, features_shape[1]

    def forward(self, x: Tensor) -> Tensor:
        leading = x.shape[: -len(self.shape)]
        return self.module(x.reshape(-1, *self.shape)).view(*leading, -1)  # type: ignore[no-any-return]


def own_code(name: str) -> Callable[..., Any]:
    """What makes a torso of the user's own."""
    if isinstance(name, OwnCode):
        return name.code
    try:
        own: Any = import_own(name)
    except EnvironmentFault as error:
        raise SettingsError(f"--torso {error}") from None
    if not callable(own):
        raise SettingsError(f"--torso {name} is not a class or a function that makes a torch.nn.Module")
    made: Callable[..., Any] = own
    return made


def make_torso(architecture: Architecture) -> MLP | ConvNet | OwnTorso:
    if architecture.own_torso:
        return OwnTorso(architecture)
    torso = ConvNet(architecture) if architecture.convolutional else MLP(architecture)
    if architecture.orthogonal:
        for layer in torso.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
    return torso
