"""The homes by name: how each one's workers are made, and what a run has to know of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from acer.config import Config
from acer.envs.others import EnvMaker
from acer.errors import SettingsError, install
from acer.homes.local import InProcess, Local
from acer.homes.shared import WorkerProcesses
from acer.homes.supervisor import Workers
from acer.learner.actor_learner import ActorLearner

Seeds = np.random.SeedSequence


@dataclass(frozen=True)
class Start:
    """What workers begin with."""

    config: Config
    env: str | EnvMaker
    home: Local  # θ, θ_a and the optimiser's statistics so far
    seeds: Seeds
    learner: Callable[[], ActorLearner]  # the run's own, for the home that works in this process
    again: bool  # the run had begun, and lost its parameters elsewhere


@dataclass(frozen=True)
class Kind:
    """One home."""

    workers: Callable[[Start], Workers]
    in_process: bool = False  # the run's own process is the worker: it keeps the environments, and sees each update
    can_lose_parameters: bool = False  # they live elsewhere: a run needs a checkpoint from the beginning


def _in_process(start: Start) -> Workers:
    return InProcess(start.learner())


def _processes(start: Start) -> Workers:
    return WorkerProcesses(start.config, start.env, start.home, start.seeds)


def _on_ray(start: Start) -> Workers:
    try:
        from acer.homes.ray import RayWorkers
    except ImportError as error:
        raise SettingsError(f"--home ray needs Ray: {install('ray')} ({error})") from None
    return RayWorkers(start.config, start.env, start.home, start.seeds, start.again)


HOMES = {
    "local": Kind(_in_process, in_process=True),
    "shared": Kind(_processes),
    "ray": Kind(_on_ray, can_lose_parameters=True),
}
