"""Pong at replay ratio 4 with 16 environments, in float32 and in bfloat16."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from acer.bench.contenders import PFRL, pair, pfrl
from acer.bench.measure import Parts, alternate, peer_python, ratio, report, where_time_goes
from acer.config import Config, defaults
from acer.machine import cores
from acer.networks import bfloat16_pays

PRECISIONS = ("float32", "bfloat16")


def settings(precision: str, **changes: Any) -> Config:
    """The preset with replay from the beginning."""
    return defaults("pong", continuous=False, preset="atari", precision=precision, replay_start=640, **changes)


def atari(turns: int, peers: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Steps per second of training on Pong with the atari preset, each precision beside its own roofline.

    What has no precision in its name is that of the one that this machine is made for.
    """
    native = "bfloat16" if bfloat16_pays(torch.device("cpu")) else "float32"
    other = PRECISIONS[native == "float32"]
    config = settings(native)
    parts: dict[str, list[Parts]] = {precision: [] for precision in PRECISIONS}

    def own(precision: str) -> dict[str, float]:
        measured = pair(settings(precision), 960, 10, most_seconds=30)  # where bfloat16 is emulated it takes long
        parts[precision].append((measured.own, measured.bare))
        return {f"acer {precision}": measured.speed, f"roofline {precision}": measured.roofline}

    contenders: list[Callable[[], dict[str, float]]] = [partial(own, native)]
    if peers:
        python = peer_python("pfrl", PFRL, say)
        # It replays only finished episodes: measured after the first of each process.
        contenders.append(lambda: {"pfrl": pfrl(python, config, 1_500 * cores(), 500 * cores(), replay_start=100)})
    contenders.append(partial(own, other))
    results = alternate(contenders, turns, say)
    return report("atari", config, results, parts[native], ["pfrl"], suffix=f" {native}") | {
        "precision": native,
        "by_precision": {
            precision: {
                "roofline_fraction": ratio(results, f"acer {precision}", f"roofline {precision}"),
                "times_the_peers": {"pfrl": ratio(results, f"acer {precision}", "pfrl")} if peers else {},
                "milliseconds_per_iteration": where_time_goes(parts[precision]),
            }
            for precision in PRECISIONS
        },
    }
