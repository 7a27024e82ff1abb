"""Torsos of a user's own, as `module:Class` names them; some cannot be meant."""

from typing import Any

import torch
from torch import Tensor, nn


class Wide(nn.Module):
    """One wide layer with group normalisation."""

    def __init__(self, shape: tuple[int, ...], features: int = 24) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(torch.Size(shape).numel(), features), nn.GroupNorm(4, features), nn.Tanh()
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)  # type: ignore[no-any-return]


class Fails(nn.Module):
    def __init__(self, shape: tuple[int, ...]) -> None:
        raise ValueError("not enough paint")


class TwoOutputs(Wide):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).unsqueeze(0)


class Remembers(Wide):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape)
        self.layers.append(nn.BatchNorm1d(24))


class InPlace(Wide):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.mul_(2))


number = 3
