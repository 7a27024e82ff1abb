"""All other environments: Gymnasium ids, `module:Class` and `module:EnvId` of the user's own, and functions."""

import difflib
import importlib
import sys
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import DependencyNotInstalled, NameNotFound, NamespaceNotFound, UnregisteredEnv, VersionNotFound

from acer.envs.batch import EnvBatch
from acer.envs.family import Family
from acer.errors import EnvironmentFault, in_one_line, install

EnvMaker = Callable[..., gym.Env[Any, Any]]
OWN = "acer/"  # the paper's control tasks as Gymnasium has them
UNKNOWN = (NameNotFound, VersionNotFound, NamespaceNotFound, UnregisteredEnv)


def make(env: str | EnvMaker, **kwargs: Any) -> gym.Env[Any, Any]:
    own = env if callable(env) else import_own(env)
    try:
        made = own(**kwargs) if own is not None else _make_by_id(str(env), **kwargs)
    except DependencyNotInstalled as error:
        raise EnvironmentFault(f"{env}: {in_one_line(error)}{_extra(str(env))}") from error
    if isinstance(made, gym.vector.VectorEnv):
        raise EnvironmentFault(f"{env} makes many environments at once: give the class, which takes num_envs=…")
    if not isinstance(made, gym.Env):
        raise EnvironmentFault(f"{env} makes a {type(made).__name__}, not a gymnasium.Env")
    return made


def _make_by_id(env: str, **kwargs: Any) -> gym.Env[Any, Any]:
    try:
        return gym.make(env, **kwargs)
    except UNKNOWN:
        if not _register(env):
            raise
        return gym.make(env, **kwargs)


def _register(env: str) -> bool:
    """Has an installed package register its namespace's ids, if it says how; Gymnasium itself no longer asks."""
    declared = entry_points(group="gymnasium.envs", name=env.partition("/")[0])
    for point in declared:
        point.load()()
    return bool(declared)


def vector_class(env: str | EnvMaker) -> Callable[..., gym.vector.VectorEnv[Any, Any, Any]] | None:
    """A class of the user's own that makes many environments at once."""
    own: Any = env if callable(env) else import_own(env)
    return own if isinstance(own, type) and issubclass(own, gym.vector.VectorEnv) else None


class OwnBatch(EnvBatch):
    """A vector environment of the user's own: what Gymnasium promises of every one, and no more."""

    def _reset(self, seeds: list[int] | None, options: dict[str, Any] | None = None) -> Any:
        if seeds is None:
            raise EnvironmentFault(
                "a single episode cannot be begun anew in a vector environment of your own: let its episodes end "
                "before --eval-limit"
            )
        return self.env.reset(seed=int(np.random.SeedSequence(seeds).generate_state(1)[0]))[0]


def ids() -> list[str]:
    """Every Gymnasium id that is registered now, newest version of each."""
    newest: dict[str, gym.envs.registration.EnvSpec] = {}
    for spec in gym.registry.values():
        key = f"{spec.namespace}/{spec.name}" if spec.namespace else spec.name
        if key not in newest or (spec.version or 0) > (newest[key].version or 0):
            newest[key] = spec
    hidden = ("phys2d/", "tabular/", "GymV", OWN)
    return sorted(spec.id for spec in newest.values() if not spec.id.startswith(hidden))


def _preset(env: str) -> str:
    return "control" if env.startswith(OWN) or "mujoco" in _entry(env) else "classic"


def import_own(env: str) -> EnvMaker | None:
    """`module:Class`, looked up from the current folder too; None for an id, also one that the module registers."""
    module_name, _, attribute = env.partition(":")
    if not attribute:
        return None
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise EnvironmentFault(
            f"{env!r}: no module named {error.name!r}; run where it can be imported, or install it"
        ) from error
    own: EnvMaker | None = getattr(module, attribute, None)
    if own is None and attribute not in gym.registry:
        names = [name for name in vars(module) if not name.startswith("_")]
        near = difflib.get_close_matches(attribute, names, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise EnvironmentFault(f"{env!r}: module {module_name!r} has no {attribute!r}{hint}")
    return own


def _entry(env: str) -> str:
    """Where Gymnasium has the environment from."""
    spec = gym.registry.get(env)
    return str(spec.entry_point) if spec else ""


def _extra(env: str) -> str:
    """Which of this package's extras has what a known environment needs."""
    packages = {"box2d": "box2d", "classic_control": "classic", "toy_text": "classic", "mujoco": "control"}
    extras = (extra for package, extra in packages.items() if package in _entry(env))
    return next((f" (or: {install(extra)})" for extra in extras), "")


OTHERS = Family(knows=lambda _: True, names=ids, preset=_preset, make=make, options=("env_kwargs",))
