"""SBX's SAC, TD3 and PPO at equal samples: results/efficiency/peers.csv.

    python benchmarks/sbx_peers.py AGENT TASK SEED [STEPS] [FILE]

SBX (github.com/araffin/sbx) is Stable-Baselines3's algorithms with the same defaults in JAX, several times as fast. It
needs other versions of many packages than we do, so give it a virtual environment of its own (`pip install sbx-rl`,
then acer without its dependencies). An agent named `sb3-sac` is Stable-Baselines3's own, to compare the two.

Each run is evaluated after 10,000, 26,000, 50,000 and 100,000 steps: 20 episodes with the mode action, on seeds that
were not trained on. A line of the file is one evaluation.
"""

import csv
import sys
import time
from pathlib import Path

import gymnasium
import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

import acer  # noqa: F401  registers the tasks
from acer.envs.control import EPISODE, ControlVectorEnv
from acer.envs.tasks import TASKS

FILE = Path("results/efficiency/peers.csv")
MARKS = (10_000, 26_000, 50_000, 100_000, 300_000, 1_000_000)
EPISODES = 20
COLUMNS = ["task", "agent", "seed", "steps", "return_mean", "return_std", "seconds", "processor_seconds"]


def play(model, task: str, seed: int) -> np.ndarray:
    """Returns of the mode action's episodes."""
    env = ControlVectorEnv(task, EPISODES, 1)
    x, _ = env.reset(seed=(10_000 + 1_000 * seed + np.arange(EPISODES)).tolist())
    returns, alive = np.zeros(EPISODES), np.ones(EPISODES, bool)
    for _ in range(EPISODE):
        x, reward, terminated, truncated, _ = env.step(model.predict(x, deterministic=True)[0])
        returns += reward * alive
        alive &= ~(terminated | truncated)
    env.close()
    return returns


class Marks(BaseCallback):
    """Evaluates where a mark is passed; what that takes does not count as training."""

    def __init__(self, agent: str, task: str, seed: int, file: Path) -> None:
        super().__init__()
        self.of, self.file, self.marks = (task, agent, seed), file, list(MARKS)
        self.wall, self.processor = time.perf_counter(), time.process_time()

    def _on_step(self) -> bool:
        while self.marks and self.num_timesteps >= self.marks[0]:
            wall, processor = time.perf_counter(), time.process_time()
            returns = play(self.model, self.of[0], self.of[2])
            row = [*self.of, self.marks.pop(0), round(float(returns.mean()), 2), round(float(returns.std()), 2),
                   round(wall - self.wall, 1), round(processor - self.processor, 1)]  # fmt: skip
            new = not self.file.exists()
            with self.file.open("a", newline="") as stream:
                csv.writer(stream, lineterminator="\n").writerows([COLUMNS, row] if new else [row])
            print(*row, flush=True)
            self.wall += time.perf_counter() - wall
            self.processor += time.process_time() - processor
        return True


def main() -> None:
    agent, task, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    steps = int(sys.argv[4]) if len(sys.argv) > 4 else 100_000
    file = Path(sys.argv[5]) if len(sys.argv) > 5 else FILE
    if agent.startswith("sb3-"):
        import stable_baselines3 as library
    else:
        import sbx as library
    file.parent.mkdir(parents=True, exist_ok=True)
    env = gymnasium.make(f"acer/{TASKS[task].__name__}-v0")
    model = getattr(library, agent.removeprefix("sb3-").upper())("MlpPolicy", env, seed=seed)
    model.learn(steps, callback=Marks(agent, task, seed, file))


if __name__ == "__main__":
    main()
