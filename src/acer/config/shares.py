"""What follows from several settings: how many actor-learners there are, and what each of them gets."""

from collections.abc import Mapping
from typing import Any

from acer.config.setting import coerced
from acer.config.settings import SETTINGS, Config
from acer.envs.others import EnvMaker
from acer.envs.registry import options_of
from acer.machine import cores


def team_size(config: Config) -> int:
    """How many actor-learners there are."""
    return 1 if config.home == "local" else teams(config) * config.processes_per_actor


def teams(config: Config) -> int:
    """How many of them work on their own; on Ray each may be several that share memory."""
    return config.actors or max(1, cores() // config.processes_per_actor)


def threads_of(config: Config) -> int:
    """Threads of each actor-learner for what is worth more than one: a share of the machine, on Ray of what it sets
    aside."""
    if config.home == "ray":
        return config.threads or max(1, int(config.cpus_per_actor))
    return config.threads or max(1, cores() // team_size(config))


def options_for(env: str | EnvMaker, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of settings that are not yet a configuration, those that go to the environment."""
    return {name: coerced(SETTINGS[name], settings[name]) for name in options_of(env) if name in settings}


def environment_options(config: Config) -> dict[str, Any]:
    """Settings that go to the environment: those that its family knows."""
    return {name: getattr(config, name) for name in options_of(config.env)}
