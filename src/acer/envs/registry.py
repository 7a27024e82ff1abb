"""The families of environments, and what can be asked about an environment by name or by the function that makes it."""

import contextlib
import difflib
import functools
from collections.abc import Iterator
from functools import partial
from typing import Any

import gymnasium as gym

from acer.console import warn
from acer.envs.atari import ATARI
from acer.envs.batch import EnvBatch
from acer.envs.control import CONTROL
from acer.envs.family import Family
from acer.envs.guests import House, hosted, is_ours
from acer.envs.others import OTHERS, UNKNOWN, EnvMaker, OwnBatch, vector_class
from acer.envs.pool import POOL
from acer.envs.spaces import ActionSpec, ObservationSpec
from acer.envs.suite import SUITE
from acer.errors import EnvironmentFault, described

FAMILIES = (ATARI, CONTROL, SUITE, POOL, OTHERS)
"""The first that knows a name has it."""


def family_of(env: str | EnvMaker) -> Family:
    return next(family for family in FAMILIES if family.knows(env)) if isinstance(env, str) else OTHERS


def canonical(env: str) -> str:
    """Of several names of the same environment, the one that a run keeps."""
    with _named(env):
        return family_of(env).canonical(env)


def preset_of(env: str | EnvMaker) -> str:
    """The preset that is made for an environment, by its name."""
    return family_of(env).preset(env) if isinstance(env, str) else "classic"


def options_of(env: str | EnvMaker) -> tuple[str, ...]:
    """Names of the settings that an environment is made with."""
    return family_of(env).options


def steps_natively(env: str | EnvMaker) -> bool:
    """Whether a batch of the environment steps in threads of its own."""
    return family_of(env).batch is not None


def known_names() -> list[str]:
    """What can be trained by name: the paper's games and tasks, then Gymnasium's ids."""
    return [name for family in FAMILIES for name in family.names()]


def make_one(env: str | EnvMaker, **kwargs: Any) -> gym.Env[Any, Any]:
    """Makes one environment by name or from the user's own class or function."""
    make = family_of(env).make
    if make is None:
        raise EnvironmentFault(f"{env} is made in batches only: use make_batch")
    with _named(env):
        return make(env, **kwargs)


@contextlib.contextmanager
def _named(env: str | EnvMaker) -> Iterator[None]:
    """Whatever goes wrong while an environment is made, in one line."""
    house = House()
    try:
        yield
    except UNKNOWN as error:
        raise EnvironmentFault(f"unknown environment {env!r}{_suggestion(str(env))}; `acer envs` lists all") from error
    except EnvironmentFault:
        raise
    except BaseException as error:
        if is_ours(error):
            raise
        raise EnvironmentFault(f"cannot make environment {env!r}: {described(error)}") from error
    finally:
        house.tidy()


def spaces_of(env: str | EnvMaker, **options: Any) -> tuple[ObservationSpec, ActionSpec]:
    """What the environment observes and takes."""
    if family_of(env).batch is not None or vector_class(env) is not None:
        batch = make_batch(env, 1, **options)
        batch.close()
        return batch.observation, batch.action
    one = make_one(env, **options.get("env_kwargs", {}))
    with hosted(f"cannot use environment {env!r}"):
        spaces = ObservationSpec(one.observation_space), ActionSpec(one.action_space)
        one.close()
    if spaces[0].left_out:
        _say_left_out(getattr(env, "__name__", str(env)), ", ".join(spaces[0].left_out))
    return spaces


@functools.cache
def _say_left_out(env: str, parts: str) -> None:
    """Once, however often a run asks."""
    warn(f"{env}: parts of the observation that are no numbers are left out: {parts}")


def make_batch(env: str | EnvMaker, count: int, workers: bool = False, threads: int = 0, **options: Any) -> EnvBatch:
    """A batch of `count` environments. Some families step in `threads` threads, 0 for one on each core; `options` are
    those of the family.

    With workers, one is made here first, so that a bad name fails with its own message.
    """
    batch = family_of(env).batch
    if batch is not None:
        with _named(env):
            return batch(env, count, threads, **options)
    name = env if isinstance(env, str) else getattr(env, "__name__", "environment")
    kwargs = options.get("env_kwargs", {})
    many = vector_class(env)
    if many is not None:
        with _named(env):
            return OwnBatch(many(num_envs=count, **kwargs), name)
    maker = partial(make_one, env, **kwargs)
    if workers:
        with hosted(f"cannot close environment {env!r}"):
            maker().close()
    return EnvBatch.of([maker] * count, name, workers)


def _suggestion(env: str) -> str:
    names = {name.lower(): name for name in [*known_names(), *gym.registry]}
    near = [names[match] for match in difflib.get_close_matches(env.lower(), names, 3, 0.5)]
    return f"; did you mean {' or '.join(near)}?" if near else ""
