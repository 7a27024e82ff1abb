"""What five minutes buy: return on cheetah and walker, ACER beside Stable-Baselines3: results/control/peers.csv.

    python benchmarks/control_peers.py [SECONDS]

Every agent has the whole machine for 300 seconds of wall-clock, one after the other, each in a process of its own,
three seeds each, on the same environments; ACER with its preset, the others with Stable-Baselines3's defaults (PPO and
A2C with 16 environments, SAC with one). ACER's learning rate falls to 0 over the steps that it is told: about as
many as it makes in that time on two cores. It ends there, or with the time, whichever comes first. Then 30 episodes
with the mode action on seeds that were not trained on. Two hours; what is in the file is not measured again.
"""

import csv
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import gymnasium
import numpy as np

from acer import ACER, Callback
from acer.envs.control import EPISODE, ControlVectorEnv
from acer.envs.tasks import TASKS

FILE = Path("results/control/peers.csv")
STEPS = {"cheetah": 1_600_000, "walker": 1_100_000}
COLUMNS = ["task", "agent", "seed", "seconds", "steps", "eval_mean", "eval_std"]


class Clock(Callback):
    def __init__(self, seconds: float) -> None:
        self.end = time.perf_counter() + seconds

    def on_rollout(self, training: object, report: object) -> bool:
        return time.perf_counter() < self.end


def acer(task: str, seed: int, seconds: float) -> tuple[object, int]:
    model = ACER(task, seed=seed, steps=STEPS[task])
    model.learn(callbacks=[Clock(seconds)])
    return model, model.steps


def peer(name: str, task: str, seed: int, seconds: float) -> tuple[object, int]:
    import stable_baselines3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Stop(BaseCallback):
        def _on_step(self) -> bool:
            return time.perf_counter() < end

    count = 1 if name == "SAC" else 16
    env = DummyVecEnv([lambda: gymnasium.make(f"acer/{TASKS[task].__name__}-v0")] * count)
    model = getattr(stable_baselines3, name)("MlpPolicy", env, device="cpu", seed=seed)
    end = time.perf_counter() + seconds
    model.learn(10**9, callback=Stop())
    return model, model.num_timesteps


def play(model: object, task: str, episodes: int = 30) -> np.ndarray:
    """Returns of episodes that begin together."""
    env = ControlVectorEnv(task, episodes)
    x, _ = env.reset(seed=[1_000_000 + i for i in range(episodes)])
    going, returns = np.ones(episodes, bool), np.zeros(episodes)
    for _ in range(EPISODE):
        action, _ = model.predict(x, deterministic=True)  # type: ignore[attr-defined]
        x, reward, terminated, truncated, _ = env.step(action)
        returns += reward * going
        going &= ~(terminated | truncated)
    env.close()
    return returns


def measure(agent: str, task: str, seed: int, seconds: float) -> tuple[int, np.ndarray]:
    model, steps = acer(task, seed, seconds) if agent == "ACER" else peer(agent, task, seed, seconds)
    return steps, play(model, task)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 300.0
    FILE.parent.mkdir(parents=True, exist_ok=True)
    if not FILE.exists():
        FILE.write_text(",".join(COLUMNS) + "\n")
    with FILE.open(newline="") as file:
        done = {(row["task"], row["agent"], row["seed"]) for row in csv.DictReader(file)}
    for seed in range(3):
        for task in ("cheetah", "walker"):
            for agent in ("ACER", "SAC", "PPO", "A2C"):
                if (task, agent, str(seed)) in done:
                    continue
                with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                    steps, returns = pool.submit(measure, agent, task, seed, seconds).result()
                row = [task, agent, seed, round(seconds), steps, round(returns.mean(), 1), round(returns.std(), 1)]
                with FILE.open("a", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow(row)
                print(*row, sep="\t", flush=True)


if __name__ == "__main__":
    main()
