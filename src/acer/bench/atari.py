"""Pong at replay ratio 4 with 16 environments, in float32 and in bfloat16."""

from collections.abc import Callable
from typing import Any

import torch

from acer.bench.contenders import PFRL, costs, pfrl, roofline, train
from acer.bench.measure import alternate, peer_python, ratio, report
from acer.config import Config, defaults
from acer.machine import cores
from acer.networks import bfloat16_pays


def settings(precision: str, **changes: Any) -> Config:
    """The preset with replay from the beginning."""
    return defaults("pong", continuous=False, preset="atari", precision=precision, replay_start=640, **changes)


def atari(turns: int, peers: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Steps per second of training on Pong with the atari preset, each precision beside its own roofline.

    `steps_per_second` and `roofline_fraction` are those of the precision that this machine is made for.
    """
    native = "bfloat16" if bfloat16_pays(torch.device("cpu")) else "float32"
    config = settings(native)
    contenders: dict[str, Callable[[], float]] = {}
    for precision in ("float32", "bfloat16"):
        of = settings(precision)
        # Where bfloat16 is emulated it takes seconds for what float32 does in one.
        measured, iterations = (4_800, 4) if precision == native else (320, 1)
        contenders[f"acer {precision}"] = lambda of=of, n=measured: train(of, 960, n)  # type: ignore[misc]
        contenders[f"roofline {precision}"] = lambda of=of, n=iterations: roofline(of, n)  # type: ignore[misc]
    if peers:
        python = peer_python("pfrl", PFRL, say)
        # It replays only finished episodes: measured after the first of each process.
        contenders["pfrl"] = lambda: pfrl(python, config, 1_500 * cores(), 500 * cores(), replay_start=100)
    results = alternate(contenders, turns, say)
    return report("atari", config, results, ["pfrl"], suffix=f" {native}") | {
        "precision": native,
        "roofline_fractions": {p: ratio(results, f"acer {p}", f"roofline {p}") for p in ("float32", "bfloat16")},
        "roofline_parts": costs(config, 4),
    }
