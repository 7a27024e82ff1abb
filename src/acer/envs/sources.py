"""From whatever a Python user has in hand to an environment's name and what makes it: ids, functions, instances and
vector environments."""

import copy
import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from acer.console import warn
from acer.envs.atari import ATARI
from acer.envs.others import EnvMaker
from acer.envs.registry import canonical, preset_of, spaces_of, steps_natively
from acer.envs.spaces import ObservationSpec
from acer.errors import AcerError, EnvironmentFault

AnyEnv = str | EnvMaker | gym.Env[Any, Any] | VectorEnv[Any, Any, Any]


@dataclass(frozen=True)
class Source:
    """Where a run has its environments from."""

    name: str  # as config.json has it
    env: str | EnvMaker
    preset: str = "classic"
    settings: dict[str, Any] = field(default_factory=dict)  # that an instance brings along


def source_of(env: AnyEnv) -> Source:
    if isinstance(env, str):
        name = canonical(env)
        return Source(name, name, preset_of(name))
    if isinstance(env, gym.Env):
        return _like(env.spec, env.observation_space)
    if isinstance(env, VectorEnv):
        source = _like(env.spec, env.single_observation_space, env)
        brought = {"environments": env.num_envs}
        if isinstance(env, AsyncVectorEnv) and not steps_natively(source.env):
            brought["workers"] = True
        return replace(source, settings=source.settings | brought)
    if not callable(env):
        raise EnvironmentFault(
            f"{env!r} is no environment: give a Gymnasium id, an environment, or a function that makes one"
        )
    return Source(f"{getattr(env, '__module__', '<own>')}:{getattr(env, '__qualname__', 'environment')}", env)


def _like(spec: EnvSpec | None, space: gym.Space[Any], many: Any = None) -> Source:
    """Environments like an instance: acer steps copies of its own, made from what the instance was made from."""
    if not isinstance(spec, EnvSpec):  # none, or EnvPool's, which has names of its own here
        if isinstance(many, SyncVectorEnv | AsyncVectorEnv):
            return Source("<instance>:environment", many.env_fns[0])
        raise EnvironmentFault(
            "this environment has no spec to make others like it from: give a function that makes one"
        )
    spec = _of_one(spec)
    plain = gym.make(spec.id).spec if spec.id in gym.registry else None
    if plain is not None:
        given = {name: value for name, value in spec.kwargs.items() if plain.kwargs.get(name, gym) != value}
        plain.kwargs = spec.kwargs
        name = canonical(spec.id)
        if plain == spec and _observes(name, space, given):
            return Source(name, name, preset_of(name), {"env_kwargs": given} if given else {})
        if ATARI.knows(spec.id):
            papers = f'ACER("{spec.id}") has the paper\'s preprocessing'
            if plain == spec and not given:
                warn(f"{papers}, and this has it, too: predict takes images 4×84×84")
                return Source(name, name, preset_of(name))
            warn(f"{papers}; this is played as it was made")
    return Source(f"<instance>:{spec.id}", partial(_make, spec), preset_of(spec.id))


def _of_one(spec: EnvSpec) -> EnvSpec:
    """The spec without what belongs to the instance: how it is looked at, and how many there are."""
    spec = copy.deepcopy(spec)
    spec.max_episode_steps = spec.kwargs.pop("max_episode_steps", spec.max_episode_steps)
    for name in ("render_mode", "num_envs", "vectorization_mode"):
        spec.kwargs.pop(name, None)
    return spec


def _observes(name: str, space: gym.Space[Any], kwargs: dict[str, Any]) -> bool:
    """Whether what the name makes observes `space`."""
    try:
        json.dumps(kwargs)
        return spaces_of(name, **({"env_kwargs": kwargs} if kwargs else {}))[0] == ObservationSpec(space)
    except (AcerError, TypeError, ValueError):
        return False


def _make(spec: EnvSpec, **kwargs: Any) -> gym.Env[Any, Any]:
    return gym.make(spec, **kwargs)
