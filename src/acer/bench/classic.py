"""CartPole at replay ratio 4."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from acer.bench.contenders import PFRL, pfrl, roofline, train
from acer.bench.measure import alternate, medians, peer_python
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
        contenders["pfrl"] = lambda: pfrl(python, config, 1_500, 3_000, replay_start=500)
    results = alternate(contenders, turns, say)
    middle = medians(results)
    return {
        "benchmark": "classic",
        "steps_per_second": middle["acer"],
        "roofline_steps_per_second": middle["roofline"],
        "roofline_fraction": middle["acer"] / middle["roofline"],
        "peers": {"pfrl": middle["pfrl"]} if peers else {},
        "turns": results,
        "cores": cores(),
        "settings": asdict(config),
    }
