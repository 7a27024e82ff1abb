"""EnvPool's environments, by the name `envpool:ID`: batches that step in native threads, if EnvPool is installed."""

from typing import Any, cast

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from acer.envs.batch import EnvBatch, Step
from acer.envs.family import Family
from acer.errors import EnvironmentFault

PREFIX = "envpool:"


class PoolBatch(EnvBatch):
    """A pool, which has its seeds from its beginning: new seeds take a new pool. An unfinished episode cannot be taken
    up again."""

    def __init__(self, name: str, count: int, threads: int, kwargs: dict[str, Any]) -> None:
        self._made = name.removeprefix(PREFIX), {**kwargs, "num_envs": count, "num_threads": threads or count}
        super().__init__(self._pool(list(range(count))), name)
        self._last: NDArray[Any] = np.zeros((count, *self.observation.shape), self.observation.dtype)

    def _pool(self, seeds: list[int]) -> VectorEnv[Any, Any, Any]:
        try:
            import envpool
        except ImportError as error:
            raise EnvironmentFault(f"{PREFIX} needs EnvPool: pip install envpool ({error})") from None
        task, kwargs = self._made
        if task not in envpool.list_all_envs():
            raise EnvironmentFault(f"EnvPool has no {task!r}; envpool.list_all_envs() names what it has")
        return cast("VectorEnv[Any, Any, Any]", envpool.make_gymnasium(task, seed=seeds, **kwargs))

    def reset(self, seeds: list[int]) -> NDArray[Any]:
        with self._named("reset"):
            self.env.close()
            self.env = self._pool(seeds)
        self._last = super().reset(seeds)
        return self._last

    def restart(self, which: NDArray[np.bool_]) -> NDArray[Any]:
        self._dead[which] = False
        with self._named("reset"):
            raw, _ = self.env.reset(options={"reset_mask": which.copy()})
            self._last = self._last.copy()
            self._last[which] = self.observation.encode(raw, int(which.sum()))
        self._check(self._last, np.zeros(self.count, np.float32))
        return self._last

    def step(self, actions: NDArray[Any]) -> Step:
        step = super().step(actions)
        self._last = step.observations
        return step

    def _reset(self, seeds: list[int] | None, options: dict[str, Any] | None = None) -> Any:
        return self.env.reset()[0]


def make(name: str, count: int, threads: int = 0, env_kwargs: dict[str, Any] | None = None) -> EnvBatch:
    return PoolBatch(name, count, threads, env_kwargs or {})


POOL = Family(
    knows=lambda name: name.startswith(PREFIX),
    preset=lambda name: "classic",
    batch=make,
    options=("env_kwargs",),
)
