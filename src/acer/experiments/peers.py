"""Stable-Baselines3's agents as an experiment's methods: trained on our environments, logged and evaluated as ours are.

Each has the settings that RL Zoo (github.com/DLR-RM/rl-baselines3-zoo) gives for the environment, otherwise the
library's own defaults. `random` takes any action, and says what a return of no skill is.
"""

import math
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, cast

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from acer import config as configuration
from acer.envs import ActionSpec
from acer.envs.tasks import TASKS
from acer.errors import EnvironmentFault
from acer.experiments import runs
from acer.experiments.plan import Job
from acer.learner.actor_learner import Agent, environments
from acer.machine import signals_go_to
from acer.run.evaluation import evaluate
from acer.run.logs import EVALUATIONS

AGENTS = ("sac", "td3", "ppo", "a2c", "dqn")
RANDOM = "random"

Tell = Callable[[dict[str, Any]], Any]


def falling(value: float) -> Callable[[float], float]:
    """A schedule from `value` to 0, by the share of steps that are left."""
    return lambda left: left * value


# By agent and environment. `environments` step together; `normalized` observations and rewards are the library's.
_WIDE = {"policy_kwargs": {"net_arch": [256, 256]}}
_ACROBOT_DQN = {"learning_rate": 6.3e-4, "batch_size": 128, "buffer_size": 50_000, "learning_starts": 0,
                "target_update_interval": 250, "train_freq": 4, "gradient_steps": -1, "exploration_fraction": 0.12,
                "exploration_final_eps": 0.1, **_WIDE}  # fmt: skip
TUNED: dict[tuple[str, str], dict[str, Any]] = {
    ("ppo", "CartPole-v1"): {"environments": 8, "n_steps": 32, "batch_size": 256, "gae_lambda": 0.8, "gamma": 0.98,
                             "n_epochs": 20, "learning_rate": falling(1e-3), "clip_range": falling(0.2)},
    ("ppo", "Acrobot-v1"): {"environments": 16, "normalized": True, "n_steps": 256, "gae_lambda": 0.94, "n_epochs": 4},
    ("ppo", "LunarLander-v3"): {"environments": 16, "n_steps": 1024, "batch_size": 64, "gae_lambda": 0.98,
                                "gamma": 0.999, "n_epochs": 4, "ent_coef": 0.01},
    ("a2c", "CartPole-v1"): {"environments": 8},
    ("a2c", "Acrobot-v1"): {"environments": 16, "normalized": True},
    ("a2c", "LunarLander-v3"): {"environments": 8, "gamma": 0.995, "learning_rate": falling(8.3e-4), "ent_coef": 1e-5},
    ("dqn", "CartPole-v1"): {"learning_rate": 2.3e-3, "batch_size": 64, "buffer_size": 100_000,
                             "learning_starts": 1_000, "target_update_interval": 10, "train_freq": 256,
                             "gradient_steps": 128, "exploration_fraction": 0.16, "exploration_final_eps": 0.04,
                             **_WIDE},
    ("dqn", "Acrobot-v1"): _ACROBOT_DQN,
    ("dqn", "LunarLander-v3"): _ACROBOT_DQN,
}  # fmt: skip


def has(env: str, method: str) -> bool:
    """Whether a method is for an environment: SAC and TD3 have continuous actions, DQN discrete ones."""
    return method not in (("dqn",) if env in TASKS else ("sac", "td3"))


def train(job: Job, directory: Path, say: Tell) -> bool:
    """Trains one to its end and keeps its curve and its evaluations; False if it was asked to stop before.

    There are no checkpoints: one that was stopped begins again.
    """
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    (directory / "config.json").write_text(configuration.to_json(job.config))
    torch.set_num_threads(job.config.threads or 1)
    watch = Watch(job, directory, say)
    with signals_go_to(watch.stop, signal.SIGINT, signal.SIGTERM):
        try:
            if job.method == RANDOM:
                watch.evaluate(job.config.steps, Uniform(watch.env.action, job.config.seed))
            else:
                _learn(job, watch)
        finally:
            watch.close()
    return not watch.stopping


def _learn(job: Job, watch: "Watch") -> None:
    library, config = _library(), job.config
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    settings = dict(TUNED.get((job.method, config.env), {}))
    count, normalized = settings.pop("environments", 1), settings.pop("normalized", False)
    name = f"acer/{TASKS[config.env].__name__}-v0" if config.env in TASKS else config.env
    venv = make_vec_env(lambda: gym.make(name), count, seed=config.seed)
    if normalized:
        venv = VecNormalize(venv, gamma=settings.get("gamma", 0.99))
    try:
        model = getattr(library, job.method.upper())("MlpPolicy", venv, device="cpu", seed=config.seed, **settings)
        player = Model(model, venv if isinstance(venv, VecNormalize) else None)
        model.learn(config.steps, callback=lambda scope, _: watch.step(model, player, int(np.sum(scope["dones"]))))
        if not watch.stopping:
            watch.row(model)
            watch.evaluate(config.steps, player)
    finally:
        venv.close()


def _library() -> ModuleType:
    try:
        import stable_baselines3
    except ImportError as error:
        raise EnvironmentFault(f"the peers are Stable-Baselines3's: pip install stable-baselines3 ({error})") from None
    return stable_baselines3


class Player:
    """What an evaluation asks of an agent: here one that remembers nothing."""

    def memory(self, count: int) -> NDArray[np.float32]:
        """Of `count` environments [B, 0]."""
        return np.zeros((count, 0), np.float32)


class Model(Player):
    """A trained model that plays."""

    def __init__(self, model: Any, normalizer: Any) -> None:
        self.model, self.normalizer = model, normalizer

    def act(self, x: NDArray[Any], *_: object) -> tuple[NDArray[Any], None]:
        """The mode action for observations [B, …]."""
        seen = self.normalizer.normalize_obs(x) if self.normalizer else x
        actions, _ = self.model.predict(seen, deterministic=True)
        return actions, None


class Uniform(Player):
    """Plays any action."""

    def __init__(self, action: ActionSpec, seed: int) -> None:
        self.action, self.rng = action, np.random.default_rng(seed)

    def act(self, x: NDArray[Any], *_: object) -> tuple[NDArray[Any], None]:
        """Actions for observations [B, …]."""
        if self.action.continuous:
            return self.rng.uniform(-1, 1, (len(x), self.action.size)).astype(np.float32), None
        return self.rng.integers(self.action.size, size=len(x)), None


class Watch:
    """A run's curve and evaluations, written down as it goes: the same columns as ours, from the same kind of seeds."""

    def __init__(self, job: Job, directory: Path, say: Tell) -> None:
        self.config, self.directory, self.say = job.config, directory, say
        self.began = time.perf_counter()
        self.rows: list[dict[str, Any]] = []
        self.evaluations: list[dict[str, Any]] = []
        self.episodes = 0
        self.stopping = False
        self.env = environments(job.config, job.config.env, min(job.config.eval_episodes, job.config.environments))
        self.seeds = np.random.SeedSequence(job.config.seed).spawn(3)[2]  # as `run.state` has them

    def stop(self, number: int, frame: FrameType | None) -> None:
        """A signal's handler."""
        self.stopping = True

    def close(self) -> None:
        self.env.close()

    def step(self, model: Any, player: Player, ended: int) -> bool:
        """After each step of the environments; whether the training goes on. ended: episodes."""
        steps, config = int(model.num_timesteps), self.config
        self.episodes += ended
        if steps // config.log_every > (self.rows[-1]["steps"] if self.rows else 0) // config.log_every:
            self.row(model)
            self.say({"steps": steps})
        done = self.evaluations[-1]["steps"] if self.evaluations else 0
        if config.eval_every and steps < config.steps and steps // config.eval_every > done // config.eval_every:
            self.evaluate(steps, player)
        return not self.stopping and steps < config.steps

    def row(self, model: Any) -> None:
        """Adds one to progress.csv."""
        returns = [episode["r"] for episode in model.ep_info_buffer or ()]
        self.rows.append({
            "steps": min(int(model.num_timesteps), self.config.steps),
            "seconds": time.perf_counter() - self.began,
            "episodes": self.episodes,
            "return_mean": float(np.mean(returns)) if returns else math.nan,
        })  # fmt: skip
        (self.directory / "progress.csv").write_text(runs.table(runs.COLUMNS, self.rows))

    def evaluate(self, steps: int, player: Player) -> None:
        """Adds one to eval.csv: the mode action, in environments and on seeds of its own."""
        seconds = time.perf_counter() - self.began
        (seeds,) = self.seeds.spawn(1)
        try:
            result = evaluate(cast(Agent, player), self.env, self.config.eval_episodes, seeds, True,
                              self.config.eval_limit, lambda: self.stopping)  # fmt: skip
        except KeyboardInterrupt:
            return
        self.evaluations.append({"steps": steps, "seconds": seconds, **result.row()})
        (self.directory / "eval.csv").write_text(runs.table(EVALUATIONS, self.evaluations))
