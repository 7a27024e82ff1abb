"""Networks: from observations to the policy's output and the critic's estimates.

The policy's path from x to φ comes first among the parameters, so that the average network θ_a is a prefix of θ.
Heads are called by `update` in the paper's order; none of them knows which algorithm it serves.
"""

import math
import time
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from acer.learner.memory import Memory, Recall
from acer.learner.torsos import ACTIVATIONS, Activation, Architecture, ConvNet, Encoded, make_torso

if TYPE_CHECKING:
    from acer.learner.reuse import Patches

WORTH = 0.7  # largest share of the convolutions' work, times threads, at which reuse pays: gathers have one thread


class Encoder(nn.Module):
    """Raw observations to numbers of about unit size: bytes / 255, then (x − mean) / deviation, of vectors within ±10.

    Images for float32 convolutions are laid out channels-last, here once for every network that reads them, and while
    they are bytes: memory is what this costs. Trajectories of images become distinct patches where these are few.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.pixels = architecture.pixels
        self.channels_last = architecture.convolutional and not architecture.bfloat16
        self.reuse = architecture.reuse
        self.patch_type = torch.bfloat16 if architecture.bfloat16 else None  # none: that of what they are made of
        self.distinct: float | None = None  # share of the work that the last trajectories' distinct patches need
        self.normalizes = False
        self.scale, self.shift = 1 / 255, torch.zeros(())  # of pixels: scale · byte + shift
        self.register_buffer("mean", torch.zeros(architecture.observation))
        self.register_buffer("deviation", torch.ones(architecture.observation))

    def set_statistics(self, mean: Tensor, deviation: Tensor) -> None:
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)
        self.normalizes = True
        if self.pixels:
            one = float(deviation.reshape(-1)[0])  # that all of them have
            self.scale = 1 / (255 * one)
            self.shift = self._laid_out(-self.mean.unsqueeze(0) / one).squeeze(0)

    def forward(self, x: Tensor) -> Encoded:
        """x: [B, …], or trajectories [T+1, B, …]."""
        if self.reuse != "never" and x.dim() == 5:
            patches = self._distinct_patches(x.contiguous())
            if patches is not None:
                return patches
        if self.channels_last:
            x = self._laid_out(x.reshape(-1, *x.shape[-3:])).view(x.shape)
        if self.pixels:
            x = x.to(self.mean.dtype)  # a copy, for pixels are bytes
            return torch.add(self.shift, x, alpha=self.scale, out=x)
        x = x.to(self.mean.dtype)
        return ((x - self.mean) / self.deviation).clamp(-10, 10) if self.normalizes else x

    def _distinct_patches(self, images: Tensor) -> "Patches | None":
        """Those of trajectories of bytes, if they are few enough to be worth it."""
        from acer.learner import reuse  # takes half a second, which no other network needs

        fresh = reuse.fresh_places(images.numpy())
        self.distinct = reuse.share_of_work(fresh, images.shape[2])
        if self.reuse == "auto" and self.distinct * torch.get_num_threads() > WORTH:
            return None
        shift = self.shift.to(self.mean.dtype).expand(images.shape[2:])
        return reuse.Patches.of(images, fresh, self.scale, shift, self.patch_type)

    def _laid_out(self, images: Tensor) -> Tensor:
        return images.contiguous(memory_format=torch.channels_last) if self.channels_last else images


class ActionHead(nn.Module):
    """One number for a state's features and an action: A(x, a) of the dueling network, or Q(x, a) of the ablation."""

    def __init__(self, features: int, dimensions: int, hidden: int, activation: Activation) -> None:
        super().__init__()
        self.from_features = nn.Linear(features, hidden)
        self.from_action = nn.Linear(dimensions, hidden, bias=False)
        # As one layer over both begins: by itself it would be larger, and the action would decide which units are on.
        bound = 1 / math.sqrt(features + dimensions)
        nn.init.uniform_(self.from_action.weight, -bound, bound)
        self.activation = ACTIVATIONS[activation]()
        self.output = nn.Linear(hidden, 1)

    def forward(self, features: Tensor, actions: Tensor) -> Tensor:
        """features: […, n]. actions: [m, …, d], m actions for each state. Result: [m, …]."""
        # As a product with a matrix of d rows: PyTorch has its gradient several times as fast as a layer's.
        by_action = actions @ self.from_action.weight.t().contiguous()
        hidden = self.activation(by_action.add_(self.from_features(features)))
        return self.output(hidden).squeeze(-1)  # type: ignore[no-any-return]


class Policy(nn.Module):
    """The policy's path: torso, memory if there is one, and linear head. φ_θ and φ_θa are two of these."""

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.torso = make_torso(architecture)
        self.memory, self.features = _memory(architecture, self.torso.features, 0)
        free = architecture.free_outputs
        self.free = nn.Parameter(torch.zeros(free)) if free else None
        self.head = nn.Linear(self.features, architecture.outputs - free)
        with torch.no_grad():  # ours: begin near the uniform policy, or near the middle of the action's range
            self.head.weight.mul_(0.01)
            self.head.bias.zero_()

    def forward(self, x: Encoded, recall: Recall | None = None) -> tuple[Tensor, Tensor]:
        """Encoded x […, n] to output […, φ] and the features that the heads read."""
        features = _remembered(self.torso(x), self.memory, recall)
        return self.output(features), features

    def output(self, features: Tensor) -> Tensor:
        """The heads' features to output […, φ]."""
        output: Tensor = self.head(features)
        if self.free is not None:
            output = torch.cat((output, self.free.expand(*output.shape[:-1], -1)), -1)
        return output


def _memory(architecture: Architecture, features: int, place: int) -> tuple[Memory | None, int]:
    """A torso's memory, if it has one, and how many features the heads then read."""
    if not architecture.memory:
        return None, features
    return Memory(features, architecture.memory, place), architecture.memory


def _remembered(features: Tensor, memory: Memory | None, recall: Recall | None) -> Tensor:
    """What the heads read of a torso's features."""
    if memory is None:
        return features
    assert recall is not None
    return memory(features, recall)  # type: ignore[no-any-return]


class Network(nn.Module):
    """θ and θ_v: the policy's path, then whatever the critic adds to it.

    With a shared torso the critic's heads read the policy's features and train them; otherwise they read a torso of
    their own.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.architecture = architecture
        self.encoder = Encoder(architecture)
        self.policy = Policy(architecture)
        self.critic_torso = None if architecture.shared_torso else make_torso(architecture)
        features = self.policy.torso.features
        memories = 1
        self.critic_memory: Memory | None = None
        if self.critic_torso is not None:
            self.critic_memory, _ = _memory(architecture, features, memories)
            memories += 1

        kind = architecture.critic
        heads = self.policy.features
        head = (heads, architecture.action_dimensions, architecture.advantage_hidden, architecture.activation)
        self.q_head = (
            nn.Linear(heads, architecture.choices or architecture.outputs) if kind == "action-values" else None
        )
        self.v_head = nn.Linear(heads, 1) if kind != "action-values" else None
        self.advantage_head = ActionHead(*head) if kind == "stochastic-dueling" else None
        self.q_torso = make_torso(architecture) if kind == "separate" else None
        self.q_memory: Memory | None = None
        if self.q_torso is not None:
            self.q_memory, _ = _memory(architecture, features, memories)
            memories += 1
        self.q_action_head = ActionHead(*head) if kind == "separate" else None
        self.remembers = memories * architecture.memory  # numbers that all memories hold of one environment

    def forward(self, x: Encoded, recall: Recall | None = None) -> tuple[Tensor, Tensor]:
        """Encoded x to the policy's output, and the features that the critic's heads take."""
        output, features = self.policy(x, recall)
        if self.critic_torso is None:
            return output, features
        return output, _remembered(self.critic_torso(x), self.critic_memory, recall)

    def act(self, x: Encoded, state: Tensor, policy: Policy) -> tuple[Tensor, Tensor]:
        """Encoded x [B, …] of one step to a recurrent policy's output, and what the memories hold after it, from what
        they held before [B, n]. A state that has only the policy's part stays one."""
        assert policy.memory is not None
        after = [policy.memory.step(policy.torso(x), state)]
        if state.shape[1] > policy.features:
            others = (self.critic_torso, self.critic_memory), (self.q_torso, self.q_memory)
            after += [memory.step(torso(x), state) for torso, memory in others if torso and memory]
        return policy.output(after[0]), torch.cat(after, -1)

    def critic_features(self, x: Encoded, recall: Recall | None = None) -> Tensor:
        """The features alone, for encoded x."""
        if self.critic_torso is None:
            return _remembered(self.policy.torso(x), self.policy.memory, recall)
        return _remembered(self.critic_torso(x), self.critic_memory, recall)

    def action_values(self, features: Tensor) -> Tensor:
        """Q(x, ·) […, actions]."""
        assert self.q_head is not None
        return self.q_head(features)  # type: ignore[no-any-return]

    def state_value(self, features: Tensor) -> Tensor:
        """V(x) […]."""
        assert self.v_head is not None
        return self.v_head(features).squeeze(-1)  # type: ignore[no-any-return]

    def advantages(self, features: Tensor, actions: Tensor) -> Tensor:
        """A(x, a) [m, …] for actions [m, …, d]."""
        assert self.advantage_head is not None
        return self.advantage_head(features, actions)  # type: ignore[no-any-return]

    def separate_values(self, x: Encoded, actions: Tensor, recall: Recall | None = None) -> Tensor:
        """Q(x, a) [m, …] by the network that shares nothing with the others (Appendix E.4), for encoded x."""
        assert self.q_torso is not None and self.q_action_head is not None
        features = _remembered(self.q_torso(x), self.q_memory, recall)
        return self.q_action_head(features, actions)  # type: ignore[no-any-return]


def faster_precision(device: torch.device) -> Literal["float32", "bfloat16"]:
    """In which this machine computes the torso faster, by trying both in turn on as many images as an update of the
    preset has; by the processor's time in one thread, for others may use the machine."""
    images = torch.zeros(84, 4, 84, 84, dtype=torch.uint8, device=device)
    networks = {}
    for bfloat16 in (False, True):
        architecture = Architecture((4, 84, 84), True, 1, 1, "state-value", (512,), 0, convolutional=True,
                                    bfloat16=bfloat16)  # fmt: skip
        networks[bfloat16] = nn.Sequential(Encoder(architecture), ConvNet(architecture)).to(device)
    best = {False: math.inf, True: math.inf}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for _ in range(6):
        for bfloat16, network in networks.items():
            began = time.process_time()
            network(images).sum().backward()
            best[bfloat16] = min(best[bfloat16], time.process_time() - began)
        if best[True] > 2 * best[False]:  # emulated
            break
    torch.set_num_threads(threads)
    return "bfloat16" if best[True] < 0.9 * best[False] else "float32"
