"""Environments: names, spaces, batches that step together, the games and the control tasks.

May import: no other room.
"""

from acer.envs.batch import EnvBatch, Step
from acer.envs.registry import canonical, known_names, make_batch, make_one, preset_of, spaces_of
from acer.envs.spaces import ActionSpec, ObservationSpec

__all__ = [
    "ActionSpec",
    "EnvBatch",
    "ObservationSpec",
    "Step",
    "canonical",
    "known_names",
    "make_batch",
    "make_one",
    "preset_of",
    "spaces_of",
]
