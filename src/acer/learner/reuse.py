"""The convolutions of trajectories, each distinct patch computed once: the same numbers but for the order of sums.

Most of a game's picture stays as it is from one step to the next, and where the pixels below an output stay, the output
does. So a place of a layer's output is computed only at steps at which it is *fresh*, as one row of a matrix, and
read from that row until it is fresh again. Three layers at one place, over seven steps:

    step                      0   1   2   3   4   5   6
    conv1   fresh             ×           ×               the pixels below it changed
            row that is read  0   0   0   5   5   5   5
    conv2   fresh             ×   ×       ×               so did others: it covers 4×4 places of conv1
            row that is read  0   3   3   7   7   7   7
    conv3   fresh             ×   ×       ×       ×       and 3×3 of conv2
            row that is read  0   4   4   8   8  11  11

A layer is a matrix product over its rows, and gathers lie between the layers:

    bytes → patches [n1, C·8·8] → conv1 [n1, 32] → gather [n2, 4·4·32] → conv2 [n2, 64] → gather [n3, 3·3·64]
          → conv3 [n3, 64] → gather [(T+1)·B, features] → the fully connected layers, which are not shared

Backwards, a gather sums the gradients of all that read a row, so that weights see each distinct patch once, too. θ and
θ_a share patches and rows.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from acer.learner import kernels

Places = tuple[NDArray[np.bool_], ...]  # [T+1, B, h, w] of each convolution

# Kernel and stride: of conv1 in blocks of 4×4 pixels, of the others in places of the layer below.
GEOMETRY = ((2, 1), (4, 2), (3, 1))
STRIDE = 128  # between the numbers of rows


def fresh_places(images: NDArray[np.uint8]) -> Places:
    """Where the outputs of the three convolutions may differ from those a step before. images: [T+1, B, C, h, w]."""
    height, width = (size // 4 * 4 for size in images.shape[-2:])
    words = np.ascontiguousarray(images[..., :height, :width]).view(np.uint32)
    changed = kernels.changed_blocks(words)
    fresh = []
    for kernel, stride in GEOMETRY:
        changed = kernels.windows(changed, kernel, stride)
        fresh.append(changed)
    return tuple(fresh)


def share_of_work(fresh: Places, channels: int) -> float:
    """How many of the convolutions' multiplications the fresh places need."""
    multiplications = np.array([channels * 8 * 8 * 32, 32 * 4 * 4 * 64, 64 * 3 * 3 * 64])
    needed, all_of_them = ([count(places) for places in fresh] for count in (np.count_nonzero, np.size))
    return float(multiplications @ needed / (multiplications @ all_of_them))


def rounded_up(rows: np.int64) -> int:
    """Rows of a matrix product in bfloat16, of which some are for nothing: for each shape that is new, PyTorch makes
    machine code anew, which costs more."""
    return -(-int(rows) // STRIDE) * STRIDE


@dataclass(frozen=True)
class Patches:
    """Encoded images [T+1, B, …] as their distinct patches, and the rows that each layer reads."""

    patches: Tensor  # [n1, C·8·8]
    reads: tuple[Tensor, ...]  # [n2, 16] of conv1's rows, [n3, 9] of conv2's, [T+1, B, places] of conv3's
    ends: tuple[NDArray[np.int64], ...]  # [T+1] of each convolution: its rows up to the end of each step

    @classmethod
    def of(cls, images: Tensor, fresh: Places, scale: float, shift: Tensor, dtype: torch.dtype | None) -> "Patches":
        """images: bytes [T+1, B, C, h, w]; a patch is scale · byte + shift [C, h, w] in the shift's precision, then
        rounded to `dtype`."""
        rows, ends = zip(*map(kernels.rows, fresh), strict=True)
        size = rounded_up if dtype == torch.bfloat16 else int
        patches = torch.zeros(size(ends[0][-1]), images.shape[2], 8, 8, dtype=dtype or shift.dtype)
        fill = kernels.patches_bfloat16 if dtype == torch.bfloat16 else kernels.patches
        added = shift.contiguous().numpy()
        fill(images.numpy(), fresh[0], added.dtype.type(scale), added, _numbers(patches))
        reads = [kernels.wire(fresh[i], rows[i - 1], *GEOMETRY[i], size(ends[i][-1])) for i in (1, 2)]
        reads.append(rows[-1].reshape(*images.shape[:2], -1))
        return cls(patches.flatten(1), tuple(map(torch.from_numpy, reads)), ends)

    def __getitem__(self, steps: slice) -> "Patches":
        """The first steps: rows are in the order of steps, so theirs are the first of each layer."""
        assert steps.start is None and steps.step is None
        last = len(self.ends[0][steps]) - 1
        size = rounded_up if self.patches.dtype == torch.bfloat16 else int
        first, second, third = (size(ends[last]) for ends in self.ends)
        reads = (self.reads[0][:second], self.reads[1][:third], self.reads[2][steps])
        return Patches(self.patches[:first], reads, tuple(ends[steps] for ends in self.ends))

    def through(self, convolutions: nn.Sequential, connected: Any) -> Tensor:
        """What three convolutions, an activation behind each, and a fully connected layer make of the images:
        [T+1, B, features]."""
        rows = self.patches
        for i, reads in enumerate(self.reads):
            convolution: Any = convolutions[2 * i]
            # A gather lays rows out with the places first, the bytes come with the channels first.
            weight = convolution.weight.permute(0, 2, 3, 1) if i else convolution.weight
            outputs = convolutions[2 * i + 1](
                functional.linear(rows, weight.reshape(len(weight), -1), convolution.bias)
            )
            gathered: Tensor = Gather.apply(outputs, reads)  # type: ignore[no-untyped-call]
            rows = gathered.flatten(-2)
        return linear(connected, gathered.transpose(-1, -2).flatten(-2))


def linear(layer: Any, x: Tensor) -> Tensor:
    """What a layer makes of x, in the precision of x."""
    weight = Rounded.apply(layer.weight) if x.dtype == torch.bfloat16 else layer.weight  # type: ignore[no-untyped-call]
    return functional.linear(x, weight, layer.bias)


class Rounded(torch.autograd.Function):
    """A float32 weight in bfloat16; backwards, its gradient is added to the weight's in one pass over memory."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        ctx.into = weight.grad
        return weight.to(torch.bfloat16)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor | None:
        if ctx.into is None:
            return gradient.to(torch.float32)
        kernels.add_bfloat16(_numbers(gradient.flatten()), ctx.into.flatten().numpy())
        return None


class Gather(torch.autograd.Function):
    """values[index]; backwards, the sums of what comes to each row, in float32 where that is bfloat16."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, index: Tensor) -> Tensor:
        ctx.save_for_backward(index)
        ctx.rows = len(values)
        out = values.new_empty(*index.shape, values.shape[-1])
        kernels.gather(_numbers(values), index.flatten().numpy(), _numbers(out).reshape(-1, values.shape[-1]))
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        gradient = gradient.contiguous().view(-1, gradient.shape[-1])
        halves = gradient.dtype == torch.bfloat16
        out = torch.zeros(ctx.rows, gradient.shape[-1], dtype=torch.float32 if halves else gradient.dtype)
        add = kernels.scatter_bfloat16 if halves else kernels.scatter
        add(_numbers(gradient), index.flatten().numpy(), out.numpy())
        return out.to(gradient.dtype), None


def _numbers(values: Tensor) -> NDArray[Any]:
    """The same memory as an array; bfloat16, which NumPy has not, as its bits."""
    values = values.detach()
    return (values.view(torch.uint16) if values.dtype == torch.bfloat16 else values).numpy()
