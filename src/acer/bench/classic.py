"""CartPole at replay ratio 4."""

from collections.abc import Callable
from typing import Any

from acer.bench.contenders import PFRL, pfrl, roofline, train
from acer.bench.measure import alternate, peer_python, report
from acer.config import defaults
from acer.machine import cores


def classic(turns: int, peers: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Steps per second of training on CartPole-v1 with the classic preset."""
    config = defaults("CartPole-v1", continuous=False, replay_ratio=4.0, replay_start=1_000)
    contenders: dict[str, Callable[[], float]] = {
        "acer": lambda: train(config, 4_000, 30_000),
        "roofline": lambda: roofline(config, 20),
    }
    if peers:
        python = peer_python("pfrl", PFRL, say)
        # Past its first finished episodes, or its replay ratio would be 0.
        contenders["pfrl"] = lambda: pfrl(python, config, 750 * cores(), 1_500 * cores(), replay_start=500)
    return report("classic", config, alternate(contenders, turns, say), ["pfrl"])
