"""CartPole at replay ratio 4."""

from collections.abc import Callable
from typing import Any

from acer.bench.contenders import PFRL, pair, pfrl
from acer.bench.measure import Parts, alternate, peer_python, report
from acer.config import defaults
from acer.machine import cores


def classic(turns: int, peers: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Steps per second of training on CartPole-v1 with the classic preset."""
    config = defaults("CartPole-v1", continuous=False, replay_ratio=4.0, replay_start=1_000)
    parts: list[Parts] = []

    def own() -> dict[str, float]:
        measured = pair(config, 4_000, 100)
        parts.append((measured.own, measured.bare))
        return {"acer": measured.speed, "roofline": measured.roofline}

    contenders: list[Callable[[], dict[str, float]]] = [own]
    if peers:
        python = peer_python("pfrl", PFRL, say)
        # Past its first finished episodes, or its replay ratio would be 0.
        contenders.append(lambda: {"pfrl": pfrl(python, config, 750 * cores(), 1_500 * cores(), replay_start=500)})
    return report("classic", config, alternate(contenders, turns, say), parts, ["pfrl"])
