"""Names of environments: the paper's games and control tasks, Gymnasium ids, and `module:Class` of the user's own."""

import difflib
import importlib
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.error import DependencyNotInstalled, NameNotFound, NamespaceNotFound, UnregisteredEnv, VersionNotFound

from acer.envs.atari import AtariBatch
from acer.envs.batch import EnvBatch
from acer.envs.control import TASKS, ControlBatch, ControlEnv, ControlVectorEnv
from acer.envs.scores import GAMES
from acer.envs.spaces import ActionSpec, ObservationSpec
from acer.errors import EnvironmentFault, described, in_one_line
from acer.machine import cores

EnvMaker = Callable[..., gym.Env[Any, Any]]
OWN = "acer/"  # the paper's control tasks as Gymnasium has them
SUITE = "dm_control/"  # dm_control's own tasks, through shimmy: dm_control/cheetah-run-v0


def preset_of(env: str | EnvMaker) -> str:
    """The preset that is made for an environment, by its name."""
    if env in GAMES:
        return "atari"
    if env in TASKS or (isinstance(env, str) and (env.startswith((SUITE, OWN)) or "mujoco" in _entry(env))):
        return "control"
    return "classic"


def options_of(env: str) -> tuple[str, ...]:
    """Names of the settings that an environment is made with."""
    return ("sticky_actions", "full_action_set", "life_loss") if env in GAMES else ()


def steps_natively(env: str) -> bool:
    """Whether a batch of the environment steps in threads of its own."""
    return env in GAMES or env in TASKS


def known_names() -> list[str]:
    """The paper's games and tasks, then every Gymnasium id that is registered now, newest version of each."""
    newest: dict[str, gym.envs.registration.EnvSpec] = {}
    for spec in gym.registry.values():
        key = f"{spec.namespace}/{spec.name}" if spec.namespace else spec.name
        if key not in newest or (spec.version or 0) > (newest[key].version or 0):
            newest[key] = spec
    hidden = ("phys2d/", "tabular/", "GymV", OWN)
    return [*GAMES, *TASKS, *sorted(spec.id for spec in newest.values() if not spec.id.startswith(hidden))]


def make_one(env: str | EnvMaker, **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes one environment by name or from the user's own class or function."""
    if isinstance(env, gym.Env):
        raise EnvironmentFault("acer steps several environments at once: give a function that makes one, not one")
    if isinstance(env, str) and env in TASKS:
        return ControlEnv(env, **kwargs)
    try:
        if isinstance(env, str) and env.startswith(SUITE):
            _register_suite()
        own = env if callable(env) else _import_own(env)
        made = own(**kwargs) if own is not None else gym.make(str(env), **kwargs)
        if not isinstance(made, gym.Env):
            raise EnvironmentFault(f"{env} makes a {type(made).__name__}, not a gymnasium.Env")
        return made
    except (NameNotFound, VersionNotFound, NamespaceNotFound, UnregisteredEnv) as error:
        raise EnvironmentFault(f"unknown environment {env!r}{_suggestion(str(env))}; `acer envs` lists all") from error
    except DependencyNotInstalled as error:
        raise EnvironmentFault(f"{env}: {in_one_line(error)}{_extra(str(env))}") from error
    except EnvironmentFault:
        raise
    except Exception as error:
        raise EnvironmentFault(f"cannot make environment {env!r}: {described(error)}") from error


def spaces_of(env: str | EnvMaker, **options: Any) -> tuple[ObservationSpec, ActionSpec]:
    """What the environment observes and takes."""
    if env in GAMES:
        batch = make_batch(env, 1, **options)
        batch.close()
        return batch.observation, batch.action
    one = make_one(env)
    try:
        return ObservationSpec(one.observation_space), ActionSpec(one.action_space)
    finally:
        one.close()


def make_batch(env: str | EnvMaker, count: int, workers: bool = False, threads: int = 0, **options: Any) -> EnvBatch:
    """A batch of `count` environments; games and control tasks step in `threads` threads, 0 for one on each core;
    `options` are those of Atari games.

    With workers, one is made here first, so that a bad name fails with its own message.
    """
    if isinstance(env, str) and env in GAMES:
        return AtariBatch(env, count, threads=threads, **options)
    if isinstance(env, str) and env in TASKS:
        return ControlBatch(ControlVectorEnv(env, count, threads or cores()), env)
    name = env if isinstance(env, str) else getattr(env, "__name__", "environment")
    if workers:
        make_one(env).close()
    return EnvBatch.of([partial(make_one, env)] * count, name, workers)


def _import_own(env: str) -> EnvMaker | None:
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
    own = getattr(module, attribute, None)
    if own is None and attribute not in gym.registry:
        names = [name for name in vars(module) if not name.startswith("_")]
        near = difflib.get_close_matches(attribute, names, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise EnvironmentFault(f"{env!r}: module {module_name!r} has no {attribute!r}{hint}")
    return own


def _suggestion(env: str) -> str:
    names = {name.lower(): name for name in known_names()}
    near = [names[match] for match in difflib.get_close_matches(env.lower(), names, 3, 0.5)]
    return f"; did you mean {' or '.join(near)}?" if near else ""


def _register_suite() -> None:
    """Makes dm_control's tasks known to Gymnasium."""
    try:
        import shimmy
    except ImportError as error:
        raise EnvironmentFault(
            f"dm_control's tasks need shimmy and dm_control: pip install '.[control]' ({error})"
        ) from None
    gym.register_envs(shimmy)


def _entry(env: str) -> str:
    """Where Gymnasium has the environment from."""
    spec = gym.registry.get(env)
    return str(spec.entry_point) if spec else ""


def _extra(env: str) -> str:
    """Which of this package's extras has what a known family of environments needs."""
    families = {"box2d": "box2d", "classic_control": "classic", "toy_text": "classic", "mujoco": "control"}
    extras = (extra for family, extra in families.items() if family in _entry(env))
    return next((f" (or: pip install '.[{extra}]')" for extra in extras), "")
