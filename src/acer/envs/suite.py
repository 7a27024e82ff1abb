"""dm_control's own tasks, through shimmy: dm_control/cheetah-run-v0."""

from typing import Any

import gymnasium as gym

from acer.envs.family import Family
from acer.errors import EnvironmentFault, install

PREFIX = "dm_control/"


def make(name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    try:
        import shimmy
    except ImportError as error:
        raise EnvironmentFault(
            f"dm_control's tasks need shimmy and dm_control: {install('control')} ({error})"
        ) from None
    gym.register_envs(shimmy)
    return gym.make(name, **kwargs)


SUITE = Family(
    knows=lambda name: name.startswith(PREFIX), preset=lambda _: "control", make=make, options=("env_kwargs",)
)
