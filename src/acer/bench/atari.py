"""A game at replay ratio 4 with 16 environments: each precision of the machine, with and without reuse of patches."""

from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean
from typing import Any

import torch

from acer.bench.contenders import PFRL, Pair, pair, pairs, pfrl
from acer.bench.measure import Parts, Speeds, alternate, at_once, medians, peer_python, ratio, report, where_time_goes
from acer.config import Config, defaults
from acer.errors import SettingsError
from acer.learner.networks import faster_precision
from acer.machine import cores

ENVIRONMENTS = 16
MOST_SECONDS = 30.0  # of a measurement
DENSE = " dense"  # in a contender's name: every patch is computed


def settings(precision: str, game: str = "pong", **changes: Any) -> Config:
    """The preset with replay from the beginning."""
    return defaults(game, continuous=False, preset="atari", precision=precision, replay_start=640, **changes)


def atari(
    turns: int, peers: bool, say: Callable[[str], None], game: str = "pong", processes: int = 0
) -> dict[str, Any]:
    """Steps per second of training on a game with the atari preset, beside the bare work in the same precision.

    What has no precision in its name is that of the one that this machine is made for, in one process. float32 is
    measured too where that is bfloat16, not the other way round: there bfloat16 is emulated. Beside one process, as
    PFRL has it, actor-learners in processes of their own that share 16 environments and their parameters; or only as
    many as `processes` says. Each of them also without reuse (*dense*).
    """
    native = faster_precision(torch.device("cpu"))
    precisions = list(dict.fromkeys((native, "float32")))
    config = settings(native, game)
    groups = ENVIRONMENTS // config.trajectories_per_update
    actors = max(n for n in range(1, cores() + 1) if groups % n == 0)
    counts = [processes] if processes else list(dict.fromkeys((1, actors)))
    if groups % counts[0]:
        raise SettingsError(f"--processes must divide {groups}, not be {processes}")
    parts: dict[str, list[Parts]] = {}
    shares: list[float] = []  # of distinct patches

    def measure(precision: str, processes: int, dense: bool) -> dict[str, float]:
        changes = {"reuse": "never"} if dense else {}
        # In processes of their own, as the peer's.
        measured: list[Pair] = (
            at_once(pair, [(settings(precision, game, **changes), 960, 10, MOST_SECONDS)])
            if processes == 1
            else pairs(
                settings(precision, game, home="shared", actors=processes, environments=ENVIRONMENTS // processes,
                         **changes), 960, 10, MOST_SECONDS
            )
        )  # fmt: skip
        which = _name(precision, processes, dense)
        parts.setdefault(which, []).append((measured[0].own, measured[0].bare))
        shares.extend(one.distinct for one in measured if one.distinct is not None)
        return {f"acer {which}": sum(each.speed for each in measured),
                f"roofline {which}": sum(each.roofline for each in measured)}  # fmt: skip

    def contenders_of(precision: str) -> Iterator[Callable[[], dict[str, float]]]:
        for processes in counts:
            for dense in (False, True):
                yield partial(measure, precision, processes, dense)

    contenders = list(contenders_of(native))
    if peers:
        python = peer_python("pfrl", PFRL, say)
        # It replays only finished episodes: measured after the first of each process.
        contenders.append(lambda: {"pfrl": pfrl(python, config, 1_500 * cores(), 500 * cores(), replay_start=100)})
    for precision in precisions[1:]:
        contenders += contenders_of(precision)
    results = alternate(contenders, turns, say)

    def compared(precision: str, processes: int) -> dict[str, Any]:
        own, dense = (_name(precision, processes, dense) for dense in (False, True))
        return _compared(results, parts, own) | {
            "times_dense": ratio(results, f"acer {own}", f"acer {dense}"),
            "dense": _compared(results, parts, dense),
        }

    def shared(precision: str) -> dict[str, Any]:
        found = compared(precision, counts[-1])
        if 1 in counts:
            own = _name(precision, counts[-1], False)
            found["roofline_fraction_of_one_process"] = ratio(results, f"acer {own}", f"roofline {precision}")
        return found

    first = _name(native, counts[0], False)
    return report("atari", config, results, parts[first], ["pfrl"], suffix=f" {first}") | {
        "game": game,
        "distinct": fmean(shares),
        "precision": native,
        "by_precision": {precision: compared(precision, 1) for precision in precisions if 1 in counts},
        "shared_actors": counts[-1],
        "shared": {precision: shared(precision) for precision in precisions if counts[-1] > 1},
    }  # fmt: skip


def _name(precision: str, processes: int, dense: bool) -> str:
    return precision + " shared" * (processes > 1) + DENSE * dense


def _compared(results: Speeds, parts: dict[str, list[Parts]], which: str) -> dict[str, Any]:
    own = f"acer {which}"
    return {
        "steps_per_second": medians(results)[own],
        "roofline_fraction": ratio(results, own, f"roofline {which}"),
        "times_the_peers": {peer: ratio(results, own, peer) for peer in ("pfrl",) if peer in results},
        "milliseconds_per_iteration": where_time_goes(parts[which]),
    }
