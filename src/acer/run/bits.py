"""What decides a run's bits beside its settings and its seed: threads, the processor's instructions, versions.

It is saved with the run. When the run goes on, the number of threads is the same again where this machine has as many
cores; what is different is said in one line, for then the numbers may round otherwise.
"""

import contextlib
import dataclasses
import functools
import platform
from collections.abc import Mapping
from typing import Any

import torch

from acer.config import Config
from acer.envs import ObservationSpec
from acer.learner import algorithms
from acer.machine import cores, versions

VERSIONS = {"code": "acer's code", "torch": "torch", "numpy": "NumPy", "numba": "Numba", "gymnasium": "Gymnasium",
            "mujoco": "MuJoCo", "ale-py": "ale-py"}  # fmt: skip


def machine() -> dict[str, int | str]:
    """How this process computes."""
    return {"threads": torch.get_num_threads(), "instructions": _instructions()}


@functools.cache
def _instructions() -> str:
    """Which vector instructions there are, and whose: the libraries have code for each."""
    vendor = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as file:
        vendor = next((line.split()[-1] for line in file if line.startswith("vendor_id")), "")
    return f"{platform.machine()} {torch.backends.cpu.get_cpu_capability()} {vendor}".strip()


def with_threads_of(state: Mapping[str, Any], config: Config, observation: ObservationSpec) -> Config:
    """With as many threads as the run had when it was saved, if the user leaves that open and it matters: a network
    that is small has one thread everywhere."""
    saved = _part(state, "machine").get("threads")
    free = config.threads == 0 and algorithms.is_large(config, observation)
    if free and type(saved) is int and 1 <= saved <= cores():
        return dataclasses.replace(config, threads=saved)
    return config


def difference(state: Mapping[str, Any]) -> str:
    """What is not as it was when `state` was saved, for one line; empty if all is."""
    then = {**_part(state, "versions"), **_part(state, "machine")}
    now: dict[str, Any] = {**versions(), **machine()}
    pairs = []
    for name, said in {**VERSIONS, "threads": "threads:", "instructions": "instructions"}.items():
        if name in then and then[name] != now.get(name):
            pairs.append(f"{said} {str(then[name])[:40]}, here {now.get(name, 'none')}")
    return "; ".join(pairs)


def _part(state: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Empty in checkpoints from before it was saved."""
    part = state.get(name, {})
    if type(part) is not dict or not all(type(value) in (str, int) for value in part.values()):
        raise ValueError(f"{name} is {part!r}")
    return part
