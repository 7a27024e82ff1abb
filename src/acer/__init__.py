"""ACER: Sample Efficient Actor-Critic with Experience Replay (Wang et al., 2017)."""

import os
from typing import TYPE_CHECKING, Any

# PyTorch's threads wait for their next work in a busy loop, which the emulators' threads pay for: less of it, unless
# the user has said how much. Read when PyTorch is loaded, so it is set before.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")

from acer.envs.control import register

register()

__version__ = "0.1.0"
__all__ = ["ACER", "AcerError", "Callback", "Config", "Evaluation", "RunView", "__version__"]

_HOMES = {
    "ACER": "acer.model",
    "AcerError": "acer.errors",
    "Callback": "acer.run.callbacks",
    "Config": "acer.config",
    "Evaluation": "acer.run.evaluation",
    "RunView": "acer.run.callbacks",
}

if TYPE_CHECKING:
    from acer.config import Config
    from acer.errors import AcerError
    from acer.model import ACER
    from acer.run.callbacks import Callback, RunView
    from acer.run.evaluation import Evaluation


def __getattr__(name: str) -> Any:
    # Loaded on first use: worker processes and `acer --help` need no PyTorch.
    if name not in _HOMES:
        raise AttributeError(f"module 'acer' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
