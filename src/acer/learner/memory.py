"""The policy's memory: a GRU between torso and heads, for what one observation does not show.

Each network has memories of its own: φ_θ, φ_θa, and the critic where it shares no torso with the policy. What the
behaviour's memories held before x_0 is stored with a trajectory; all networks begin there, and burn-in steps lead them
away from it before anything is learnt.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Recall:
    """What memories need to read a batch of trajectories."""

    state: Tensor  # what was remembered before x_0: [B, n], a part for each memory
    starts: Tensor  # where an episode begins [T+1, B]: nothing is remembered from before
    burn_in: int = 0  # steps that only refresh the memory: no gradient goes through them

    @classmethod
    def of(cls, state: Tensor, live: Tensor, burn_in: int = 0) -> "Recall":
        """state: [1, B, n]. live: [T, B]. The observation after a dead step is an episode's first; what was remembered
        before x_0 belongs to x_0 already."""
        return cls(state.squeeze(0), torch.cat((torch.zeros_like(live[:1]), ~live)), burn_in)


class Memory(nn.Module):
    """A GRU, whose state is its output."""

    def __init__(self, features: int, size: int, place: int) -> None:
        """place: which part of a state is this memory's."""
        super().__init__()
        self.size, self.place = size, place
        self.cell = nn.GRUCell(features, size)

    def forward(self, features: Tensor, recall: Recall) -> Tensor:
        """Features of trajectories [T, B, …] to what is remembered after each step [T, B, size]."""
        state = self.part(recall.state)
        ends = recall.starts.unsqueeze(-1)
        forgets = recall.starts.any(-1).tolist()
        after = []
        for t, of_step in enumerate(features):
            if forgets[t]:
                state = state.masked_fill(ends[t], 0)
            if t == recall.burn_in:
                state = state.detach()
            state = self.cell(of_step, state)
            after.append(state)
        return torch.stack(after)

    def step(self, features: Tensor, state: Tensor) -> Tensor:
        """The same for one step [B, …], from a whole state [B, n]."""
        return self.cell(features, self.part(state))  # type: ignore[no-any-return]

    def part(self, state: Tensor) -> Tensor:
        return state[:, self.place * self.size : (self.place + 1) * self.size]
