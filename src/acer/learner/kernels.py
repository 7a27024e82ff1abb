"""Loops that neither NumPy nor PyTorch makes in one pass, compiled by Numba on their first call and kept on disk.

Each runs in one thread and adds in one order, so that the same numbers give the same bits. All arrays are contiguous.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """The function as machine code. NumPy's way with errors, not Python's: x / 0 is no exception, which would keep
    loops from being vectorised."""
    try:
        return numba.njit(function, cache=True, nogil=True, error_model="numpy")  # type: ignore[no-any-return]
    except RuntimeError:  # no directory can be written to: each process compiles its own
        return numba.njit(function, nogil=True, error_model="numpy")  # type: ignore[no-any-return]


@compiled
def changed_blocks(words: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Which 4×4 blocks differ from those a step earlier; at the first step all do.

    words: images [T+1, B, C, h, w] of bytes, four to a word; result [T+1, B, h/4, w]."""
    steps, count, channels, height, width = words.shape
    changed = np.ones((steps, count, height // 4, width), np.bool_)
    difference = np.empty(width, np.uint32)
    for t in range(1, steps):
        for b in range(count):
            for i in range(height // 4):
                difference[:] = 0
                for c in range(channels):
                    for y in range(4 * i, 4 * i + 4):
                        new, old = words[t, b, c, y], words[t - 1, b, c, y]
                        for j in range(width):
                            difference[j] |= new[j] ^ old[j]
                for j in range(width):
                    changed[t, b, i, j] = difference[j] != 0
    return changed


@compiled
def windows(changed: NDArray[np.bool_], kernel: int, stride: int) -> NDArray[np.bool_]:
    """Where anything changed within a window of kernel × kernel, for windows `stride` apart. [T+1, B, h, w], twice."""
    steps, count, height, width = changed.shape
    out = np.zeros((steps, count, (height - kernel) // stride + 1, (width - kernel) // stride + 1), np.bool_)
    for t in range(steps):
        for b in range(count):
            for i in range(out.shape[2]):
                for y in range(stride * i, stride * i + kernel):
                    source, target = changed[t, b, y], out[t, b, i]
                    for x in range(kernel):
                        for j in range(len(target)):
                            target[j] |= source[stride * j + x]
    return out


@compiled
def rows(fresh: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The row that each place [T+1, B, h, w] reads: a fresh one takes the next row, any other that of the step before.
    Also how many rows there are up to the end of each step [T+1]."""
    out = np.empty(fresh.shape, np.int32)
    ends = np.empty(len(fresh), np.int64)
    steps, count, height, width = fresh.shape
    taken = 0
    for t in range(steps):
        for b in range(count):
            for i in range(height):
                for j in range(width):
                    if fresh[t, b, i, j]:
                        out[t, b, i, j] = taken
                        taken += 1
                    else:
                        out[t, b, i, j] = out[t - 1, b, i, j]
        ends[t] = taken
    return out, ends


@compiled
def wire(fresh: NDArray[np.bool_], below: NDArray[np.int32], kernel: int, stride: int, size: int) -> NDArray[np.int32]:
    """For each fresh window, in the order of `rows`, the rows of the layer below that it covers [size, kernel²]; what
    is left of `size` covers the first row."""
    out = np.zeros((size, kernel * kernel), np.int32)
    steps, count, height, width = fresh.shape
    n = 0
    for t in range(steps):
        for b in range(count):
            for i in range(height):
                for j in range(width):
                    if fresh[t, b, i, j]:
                        for y in range(kernel):
                            for x in range(kernel):
                                out[n, y * kernel + x] = below[t, b, stride * i + y, stride * j + x]
                        n += 1
    return out


@compiled
def patches(
    images: NDArray[np.uint8], fresh: NDArray[np.bool_], scale: float, shift: NDArray[Any], out: NDArray[Any]
) -> None:
    """out [n, C, 8, 8]: scale · byte + shift [C, h, w] of each fresh 8×8 patch, 4 apart, in the order of `rows`."""
    steps, count, height, width = fresh.shape
    n = 0
    for t in range(steps):
        for b in range(count):
            for i in range(height):
                for j in range(width):
                    if fresh[t, b, i, j]:
                        for c in range(images.shape[2]):
                            for y in range(8):
                                source = images[t, b, c, 4 * i + y, 4 * j : 4 * j + 8]
                                added = shift[c, 4 * i + y, 4 * j : 4 * j + 8]
                                target = out[n, c, y]
                                for x in range(8):
                                    target[x] = scale * source[x] + added[x]
                        n += 1


@compiled
def patches_bfloat16(
    images: NDArray[np.uint8], fresh: NDArray[np.bool_], scale: float, shift: NDArray[Any], out: NDArray[np.uint16]
) -> None:
    """`patches`, computed in float32 and rounded to the nearest bfloat16, half to even, as its bits."""
    steps, count, height, width = fresh.shape
    single = np.empty((8, 8), np.float32)
    bits = single.view(np.uint32)
    n = 0
    for t in range(steps):
        for b in range(count):
            for i in range(height):
                for j in range(width):
                    if fresh[t, b, i, j]:
                        for c in range(images.shape[2]):
                            for y in range(8):
                                source = images[t, b, c, 4 * i + y, 4 * j : 4 * j + 8]
                                added = shift[c, 4 * i + y, 4 * j : 4 * j + 8]
                                for x in range(8):
                                    single[y, x] = scale * source[x] + added[x]
                            target = out[n, c]
                            for y in range(8):
                                for x in range(8):
                                    last = (bits[y, x] >> np.uint32(16)) & np.uint32(1)
                                    target[y, x] = (bits[y, x] + np.uint32(0x7FFF) + last) >> np.uint32(16)
                        n += 1


@compiled
def gather(values: NDArray[Any], index: NDArray[np.int32], out: NDArray[Any]) -> None:
    """out[i] ← values[index[i]], row by row."""
    for i in range(len(index)):
        source, target = values[index[i]], out[i]
        for c in range(len(target)):
            target[c] = source[c]


@compiled
def scatter(values: NDArray[Any], index: NDArray[np.int32], out: NDArray[Any]) -> None:
    """out[index[i]] ← out[index[i]] + values[i], row by row."""
    for i in range(len(index)):
        source, target = values[i], out[index[i]]
        for c in range(len(target)):
            target[c] += source[c]


@compiled
def scatter_bfloat16(bits: NDArray[np.uint16], index: NDArray[np.int32], out: NDArray[np.float32]) -> None:
    """`scatter` of bfloat16, given as its bits, into float32: they are the upper half of a float32's."""
    wide = np.empty(bits.shape[1], np.uint32)
    single = wide.view(np.float32)
    for i in range(len(index)):
        source, target = bits[i], out[index[i]]
        for c in range(len(target)):
            wide[c] = np.uint32(source[c]) << np.uint32(16)
        for c in range(len(target)):
            target[c] += single[c]


@compiled
def add_bfloat16(bits: NDArray[np.uint16], out: NDArray[np.float32]) -> None:
    """out ← out + values, given as the bits of bfloat16."""
    wide = np.empty(1024, np.uint32)
    single = wide.view(np.float32)
    for start in range(0, len(bits), 1024):
        source, target = bits[start : start + 1024], out[start : start + 1024]
        for i in range(len(source)):
            wide[i] = np.uint32(source[i]) << np.uint32(16)
        for i in range(len(target)):
            target[i] += single[i]


@compiled
def descend(
    theta: NDArray[Any], theta_a: NDArray[Any], square: NDArray[Any], gradient: NDArray[Any], constants: NDArray[Any]
) -> None:
    """RMSProp of θ, and θ_a after it, which is as long as the first part of θ. constants: η, factor,
    β, 1 − β, ε and 1 − α, in the vectors' precision."""
    rate, factor, decay, new, epsilon, moved = constants
    for start in range(0, len(theta), 4096):  # by parts that stay in the cache
        stop = min(start + 4096, len(theta))
        t, s, g = theta[start:stop], square[start:stop], gradient[start:stop]
        for i in range(stop - start):
            step = factor * g[i]
            s[i] = decay * s[i] + new * step * step
            t[i] -= rate * step / np.sqrt(s[i] + epsilon)
        a = theta_a[start:stop]
        for i in range(len(a)):
            a[i] += moved * (t[i] - a[i])


@compiled
def descend_bfloat16(
    theta: NDArray[np.float32],
    theta_a: NDArray[np.float32],
    square: NDArray[np.float32],
    bits: NDArray[np.uint16],
    constants: NDArray[np.float32],
) -> None:
    """`descend` with a gradient of bfloat16, given as its bits: they are the upper half of a float32's."""
    wide = np.empty(4096, np.uint32)
    single = wide.view(np.float32)
    for start in range(0, len(theta), 4096):
        stop = min(start + 4096, len(theta))
        source = bits[start:stop]
        for i in range(len(source)):
            wide[i] = np.uint32(source[i]) << np.uint32(16)
        descend(theta[start:stop], theta_a[start:stop], square[start:stop], single[: stop - start], constants)
