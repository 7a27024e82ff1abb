"""Pong at replay ratio 4 with 16 environments, in float32 and in bfloat16, in one process and in several."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from acer.bench.contenders import PFRL, pair, pairs, pfrl
from acer.bench.measure import Parts, Speeds, alternate, at_once, medians, peer_python, ratio, report, where_time_goes
from acer.config import Config, defaults
from acer.learner.networks import faster_precision
from acer.machine import cores

PRECISIONS = ("float32", "bfloat16")
ENVIRONMENTS = 16
MOST_SECONDS = 30.0  # of a measurement: where bfloat16 is emulated it takes long


def settings(precision: str, **changes: Any) -> Config:
    """The preset with replay from the beginning."""
    return defaults("pong", continuous=False, preset="atari", precision=precision, replay_start=640, **changes)


def atari(turns: int, peers: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Steps per second of training on Pong with the atari preset, each precision beside its own roofline.

    What has no precision in its name is that of the one that this machine is made for, in one process. Beside it, as
    PFRL has it, actor-learners in processes of their own that share 16 environments and their parameters.
    """
    native = faster_precision(torch.device("cpu"))
    other = PRECISIONS[native == "float32"]
    config = settings(native)
    groups = ENVIRONMENTS // config.trajectories_per_update
    actors = max(n for n in range(1, cores() + 1) if groups % n == 0)
    parts: dict[str, list[Parts]] = {}

    def own(precision: str) -> dict[str, float]:
        # In a process of its own, as the others are.
        (measured,) = at_once(pair, [(settings(precision), 960, 10, MOST_SECONDS)])
        parts.setdefault(precision, []).append((measured.own, measured.bare))
        return {f"acer {precision}": measured.speed, f"roofline {precision}": measured.roofline}

    def shared(precision: str) -> dict[str, float]:
        team = settings(precision, home="shared", actors=actors, environments=ENVIRONMENTS // actors)
        measured = pairs(team, 960, 10, MOST_SECONDS)
        parts.setdefault(f"{precision} shared", []).append((measured[0].own, measured[0].bare))
        return {f"acer {precision} shared": sum(each.speed for each in measured),
                f"roofline {precision} shared": sum(each.roofline for each in measured)}  # fmt: skip

    def both(precision: str) -> list[Callable[[], dict[str, float]]]:
        return [partial(own, precision), *([partial(shared, precision)] if actors > 1 else [])]

    contenders = both(native)
    if peers:
        python = peer_python("pfrl", PFRL, say)
        # It replays only finished episodes: measured after the first of each process.
        contenders.append(lambda: {"pfrl": pfrl(python, config, 1_500 * cores(), 500 * cores(), replay_start=100)})
    contenders += both(other)
    results = alternate(contenders, turns, say)
    return report("atari", config, results, parts[native], ["pfrl"], suffix=f" {native}") | {
        "precision": native,
        "by_precision": {precision: _compared(results, parts, precision) for precision in PRECISIONS},
        "shared_actors": actors,
        "shared": {
            precision: {
                **_compared(results, parts, f"{precision} shared"),
                "roofline_fraction_of_one_process": ratio(results, f"acer {precision} shared", f"roofline {precision}"),
            }
            for precision in PRECISIONS
            if actors > 1
        },
    }


def _compared(results: Speeds, parts: dict[str, list[Parts]], which: str) -> dict[str, Any]:
    own = f"acer {which}"
    return {
        "steps_per_second": medians(results)[own],
        "roofline_fraction": ratio(results, own, f"roofline {which}"),
        "times_the_peers": {peer: ratio(results, own, peer) for peer in ("pfrl",) if peer in results},
        "milliseconds_per_iteration": where_time_goes(parts[which]),
    }
