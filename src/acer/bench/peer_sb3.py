"""Stable-Baselines3 on a control task: run by `acer bench control`, not imported.

Arguments: algorithm, task, environments, steps to measure. Prints environment steps per second after a warm-up. SAC
learns from one environment at a time, as its users run it; PPO from as many as ACER has.
"""

import sys
import time

import gymnasium
import stable_baselines3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import acer  # noqa: F401  (registers the tasks)
from acer.envs.tasks import TASKS


class Clock(BaseCallback):
    """Notes when the warm-up is over."""

    def __init__(self, warm_up: int) -> None:
        super().__init__()
        self.warm_up, self.began, self.at = warm_up, 0.0, 0

    def _on_step(self) -> bool:
        if not self.began and self.num_timesteps > self.warm_up:  # PPO has learnt from its first rollout then
            self.began, self.at = time.perf_counter(), self.num_timesteps
        return True


def main() -> None:
    algorithm, task, environments, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    name = f"acer/{TASKS[task].__name__}-v0"
    count = 1 if algorithm == "SAC" else environments
    warm_up = 500 if algorithm == "SAC" else 2_048 * count
    model = getattr(stable_baselines3, algorithm)(
        "MlpPolicy", DummyVecEnv([lambda: gymnasium.make(name)] * count), device="cpu", seed=0
    )
    clock = Clock(warm_up)
    model.learn(warm_up + steps, callback=clock)
    print((model.num_timesteps - clock.at) / (time.perf_counter() - clock.began))


if __name__ == "__main__":
    main()
