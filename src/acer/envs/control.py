"""The control tasks on MuJoCo: many at once, and each as a Gymnasium environment (`acer/Fish-v0`, …)."""

import os
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from acer.envs.batch import EnvBatch
from acer.envs.episodes import seed_of
from acer.envs.family import Family
from acer.envs.tasks import TASKS, Array
from acer.errors import EnvironmentFault, install
from acer.machine import cores

if TYPE_CHECKING:
    from acer.envs.rendering import Camera

EPISODE = 500  # steps, then the episode is truncated


class ControlVectorEnv(gym.vector.VectorEnv[Any, Any, Any]):
    """`num_envs` copies of a task that step together; every episode of each has a seed of its own."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, name: str, num_envs: int, threads: int = 1) -> None:
        try:
            from acer.envs.physics import Physics
        except ImportError as error:
            raise EnvironmentFault(f"{name} needs MuJoCo: {install('control')} ({error})") from None
        except Exception as error:  # its renderer is loaded with it, whether or not pictures are wanted
            renderer = os.environ.get("MUJOCO_GL", "its own choice")
            raise EnvironmentFault(
                f"{name}: MuJoCo cannot load the renderer that MUJOCO_GL names, {renderer} ({type(error).__name__}); "
                "unset it, or install it (osmesa: apt install libosmesa6)"
            ) from None
        self.task = TASKS[name]()
        self.num_envs = num_envs
        self.physics = Physics(self.task.model(), num_envs, self.task.substeps, threads)
        self.single_observation_space = Box(-np.inf, np.inf, (self.task.observation,), np.float32)
        self.single_action_space = Box(-1.0, 1.0, (self.task.action,), np.float32)
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self.targets = np.zeros((num_envs, self.task.target))
        self.steps = np.zeros(num_envs, np.int64)  # of each unfinished episode
        self.over = np.zeros(num_envs, np.bool_)  # the next step begins a new episode
        self.roots = np.random.SeedSequence().generate_state(num_envs).astype(np.int64)
        self.episodes = np.full(num_envs, -1)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        if isinstance(seed, int):
            seed = [int(s) for s in np.random.SeedSequence(seed).generate_state(self.num_envs)]
        if seed is not None:
            self.roots, self.episodes = np.array(seed, np.int64), np.full(self.num_envs, -1)
        which = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        self._begin(np.flatnonzero(which))
        return self._observations(), {}

    def step(
        self, actions: NDArray[Any]
    ) -> tuple[NDArray[np.float32], Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        actions = np.maximum(np.minimum(np.asarray(actions, np.float64), 1), -1)
        waiting = self.over
        broken = self.physics.step(actions)
        seen = self.task.observe(self.physics, self.targets)
        rewards, terminated = self.task.judge(seen, actions)
        self.steps += 1
        if broken.any():
            rewards[broken], terminated[broken] = 0, False
        truncated = ((self.steps >= EPISODE) & ~terminated) | broken
        if waiting.any():
            rewards[waiting], terminated[waiting], truncated[waiting] = 0, False, False
            self._begin(np.flatnonzero(waiting))
            seen = self.task.observe(self.physics, self.targets)
        self.over = terminated | truncated
        return seen.astype(np.float32), rewards, terminated, truncated, {}

    def state(self) -> dict[str, NDArray[Any]]:
        """Everything that decides what comes next."""
        return {
            "physics": self.physics.state.copy(),
            "sensors": self.physics.sensors.copy(),
            "targets": self.targets.copy(),
            "steps": self.steps.copy(),
            "over": self.over.copy(),
            "roots": self.roots.copy(),
            "episodes": self.episodes.copy(),
        }

    def restore(self, state: dict[str, NDArray[Any]]) -> NDArray[np.float32]:
        """Takes over what `state` gave; returns the observations there."""
        for name, own in self.state().items():
            if state[name].shape != own.shape or state[name].dtype != own.dtype:
                raise ValueError(f"{name} is {state[name].dtype}{list(state[name].shape)}")
        self.physics.restore(state["physics"], state["sensors"])
        self.targets[:] = state["targets"]
        self.steps, self.over = state["steps"].copy(), state["over"].copy()
        self.roots, self.episodes = state["roots"].copy(), state["episodes"].copy()
        return self._observations()

    def close_extras(self, **_: Any) -> None:
        if hasattr(self, "physics"):  # not where the body could not be made
            self.physics.close()

    def _begin(self, which: NDArray[np.int64]) -> None:
        self.episodes[which] += 1
        seeds = [seed_of(int(self.roots[i]), int(self.episodes[i])) for i in which]
        starts = [self.task.start(np.random.default_rng(seed), self.physics.model) for seed in seeds]
        qpos, qvel = (np.stack([getattr(start, name) for start in starts]) for name in ("qpos", "qvel"))
        self.physics.place(which, qpos, qvel, self.task.settle)
        self.targets[which] = [start.target for start in starts]
        self.steps[which], self.over[which] = 0, False

    def _observations(self) -> NDArray[np.float32]:
        return self.task.observe(self.physics, self.targets).astype(np.float32)


class ControlBatch(EnvBatch):
    """A task's copies for the learner, with their whole state."""

    env: ControlVectorEnv

    def state(self) -> dict[str, NDArray[Any]]:
        return self.env.state() | {"dead": self._dead.copy()}

    def restore(self, state: dict[str, NDArray[Any]]) -> NDArray[Any]:
        self._dead = state["dead"].copy()
        return self._encode(self.env.restore(state))


class ControlEnv(gym.Env[NDArray[np.float32], NDArray[np.float32]]):
    """One copy of a task, for anybody's agent."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, name: str, render_mode: str | None = None) -> None:
        self.env = ControlVectorEnv(name, 1)
        self.observation_space, self.action_space = self.env.single_observation_space, self.env.single_action_space
        model = self.env.physics.model
        fps = round(1 / (self.env.task.substeps * model.opt.timestep))
        self.metadata = {**self.metadata, "render_fps": fps}
        self.render_mode = render_mode
        self._camera: Camera | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        super().reset(seed=seed)
        observations, _ = self.env.reset(seed=None if seed is None else [seed])
        return observations[0], {}

    def step(self, action: NDArray[np.float32]) -> tuple[NDArray[np.float32], float, bool, bool, dict[str, Any]]:
        observations, rewards, terminated, truncated, _ = self.env.step(np.asarray(action)[None])
        self.env.over[:] = False  # a single environment is reset by its user
        return observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), {}

    def render(self) -> NDArray[np.uint8]:
        from acer.envs.rendering import Camera

        physics = self.env.physics
        if self._camera is None:
            self._camera = Camera(physics.model, self.env.task.camera)
        if self.env.task.target:
            position = self.env.targets[0]
            physics.model.geom("target").pos[: len(position)] = position
        return self._camera.picture(physics.qpos[0])

    def close(self) -> None:
        if self._camera is not None:
            self._camera.close()
            self._camera = None
        self.env.close()


def register() -> None:
    """Makes the tasks known to Gymnasium as acer/CartpoleSwingup-v0, … ."""
    for name, task in TASKS.items():
        gym.register(
            f"acer/{task.__name__}-v0", "acer.envs.control:ControlEnv", max_episode_steps=EPISODE, kwargs={"name": name}
        )


def _batch(name: str, count: int, threads: int) -> EnvBatch:
    return ControlBatch(ControlVectorEnv(name, count, threads or cores()), name)


CONTROL = Family(
    knows=TASKS.__contains__,
    names=lambda: list(TASKS),
    preset=lambda _: "control",
    make=ControlEnv,
    batch=_batch,
)
