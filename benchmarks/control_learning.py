"""Trains the `control` preset on the six tasks, three seeds each, and measures each result: results/control/.

    python benchmarks/control_learning.py              all runs, as many at once as there are cores
    python benchmarks/control_learning.py walker fish  only these tasks
    python benchmarks/control_learning.py --collect    writes results/control/ from the runs that are finished

Each run is `acer train TASK --seed S --steps N --threads 1`; runs live in runs/control/ and go on where they stopped.
What counts is measured in 30 episodes with the mode action, on seeds that were not trained on; the median seed has to
reach the mark.
"""

import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from acer import ACER
from acer.envs.control import EPISODE, ControlVectorEnv
from acer.envs.tasks import Fish, Humanoid, rotation
from acer.machine import cores
from acer.run.tables import column_pairs, read
from runs import COMMAND, steps_of, train
from table import write

SEEDS = 3
# Steps, what is measured, least and aim.
TASKS = {
    "cartpole-swingup": (5_000_000, "rewarded steps of 500", 100.0, 250.0),
    "reacher3": (2_000_000, "share of steps on target after step 100", 0.3, 0.6),
    "cheetah": (2_000_000, "m/s after step 100", 2.0, 4.0),
    "fish": (2_000_000, "final distance in m", 0.2, 0.1),
    "walker": (2_000_000, "m/s, if 80 % of episodes are full", 0.5, 1.5),
    "humanoid": (5_000_000, "head's height in m over the last 100 steps", 0.7, 1.2),
}
COLUMNS = ["task", "seed", "steps", "seconds", "eval_mean", "measure", "measured", "error_size",
           "trust_region_active", "kl", "trace"]  # fmt: skip
RUNS, RESULTS = Path("runs/control"), Path("results/control")
TABLE = RESULTS / "learning.csv"


def run(task: str, seed: int) -> None:
    flags = ["--seed", str(seed), "--threads", "1", "--log-every", "20000"]
    train(RUNS / f"{task}-{seed}", task, TASKS[task][0], *flags)


def measure(task: str, directory: Path, episodes: int = 30) -> tuple[float, float]:
    """The task's own measure and the mean return, over episodes that begin together; the mode action."""
    model = ACER.load(directory)
    env = ControlVectorEnv(task, episodes)
    x, _ = env.reset(seed=[1_000_000 + i for i in range(episodes)])
    going, lengths, returns = np.ones(episodes, bool), np.zeros(episodes), np.zeros(episodes)
    seen = []
    for _ in range(EPISODE):
        action, _ = model.predict(x, deterministic=True)
        before = env.physics.qpos.copy()
        x, reward, terminated, truncated, _ = env.step(action)
        returns += reward * going
        lengths += going
        seen.append(np.where(going, quantity(task, env, reward, before), np.nan))
        going &= ~(terminated | truncated)
        if not going.any():
            break
    env.close()
    model.close()
    values = np.stack(seen)
    if task == "cartpole-swingup":
        found = values.sum(0).mean()
    elif task in ("reacher3", "cheetah"):
        found = values[100:].mean()
    elif task == "fish":
        found = values[-1].mean()
    elif task == "humanoid":
        found = values[-100:].mean()
    else:
        found = np.nanmean(values) if (lengths == EPISODE).mean() >= 0.8 else 0.0
    return float(found), float(returns.mean())


def quantity(task: str, env: ControlVectorEnv, reward: np.ndarray, before: np.ndarray) -> np.ndarray:
    """What is measured at each step."""
    p = env.physics
    if task in ("cheetah", "walker"):
        forward = {"cheetah": 0, "walker": 1}[task]
        return (p.qpos[:, forward] - before[:, forward]) / (p.substeps * p.model.opt.timestep)
    if isinstance(env.task, Fish):
        return np.linalg.norm(env.task.to_target(p, env.targets, rotation(p.qpos[:, 3:7])), axis=1)
    if isinstance(env.task, Humanoid):
        return env.task.head_height(p, rotation(p.qpos[:, 3:7]))
    return reward


def last_quarter(progress: Path) -> list[float]:
    """Over a run's last quarter: size of the critic's errors, share of the steps that the trust region changed, KL,
    trace."""
    columns = {name: column_pairs(progress, "steps", name) for name in ("q_loss", "trust_region_active", "kl", "trace")}
    means = {name: np.mean([y for _, y in of[-len(of) // 4 :]]) for name, of in columns.items()}
    means["q_loss"] = np.sqrt(2 * means["q_loss"])
    return [float(f"{mean:.3g}") for mean in means.values()]


def collect() -> None:
    """Writes table, curves and film strips of the runs that are finished; what is there of others as long stays."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    there = read(TABLE) if TABLE.exists() else []
    long = [row for row in there if int(row["steps"]) >= TASKS[row["task"]][0]]
    known = {(row["task"], int(row["seed"])): list(row.values()) for row in long}
    rows = []
    figure, panels = plt.subplots(2, 3, figsize=(12, 6.4), layout="constrained")
    for (task, (steps, what, least, aim)), panel in zip(TASKS.items(), panels.flat, strict=True):
        found = {}
        for seed in range(SEEDS):
            out, curve = RUNS / f"{task}-{seed}", RESULTS / f"{task}-{seed}.csv"
            if steps_of(out) >= steps:
                curve.write_bytes((out / "progress.csv").read_bytes())
                measured, mean = measure(task, out)
                seconds = column_pairs(curve, "seconds")[-1][0]
                figures = [steps_of(out), round(seconds), round(mean, 1), what, round(measured, 3)]
                known[task, seed] = [task, seed, *figures, *last_quarter(curve)]
            if (task, seed) in known:
                rows.append(known[task, seed])
                found[seed] = float(rows[-1][COLUMNS.index("measured")])
                panel.plot(*zip(*column_pairs(curve, "steps"), strict=True), linewidth=1.2, label=f"seed {seed}")
        panel.set_title(task, fontsize=10)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        if found:
            middle = statistics.median(found.values())
            better = -1 if task == "fish" else 1
            reached = [name for name, mark in (("least", least), ("aim", aim)) if better * middle >= better * mark]
            print(
                f"{task:<18} {what}: {', '.join(f'{v:.3f}' for v in found.values())}  marks {least} / {aim}  {reached}"
            )
            seed = min(found, key=lambda s: abs(found[s] - middle))
            if steps_of(RUNS / f"{task}-{seed}") >= steps:
                command = ["record", str(RUNS / f"{task}-{seed}"), "--output", str(RESULTS / f"{task}.png")]
                subprocess.run([*COMMAND, *command], check=False)
    figure.supxlabel("environment steps", fontsize=9)
    figure.supylabel("return while training (last 100 episodes)", fontsize=9)
    figure.savefig(RESULTS / "learning.png", dpi=130)
    write(TABLE, COLUMNS, rows)


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(TASKS)
    if "--collect" not in sys.argv:
        with ThreadPoolExecutor(cores()) as pool:
            jobs = [(task, seed) for seed in range(SEEDS) for task in reversed(names)]  # those that take longest first
            list(pool.map(lambda job: run(*job), jobs))
    collect()


if __name__ == "__main__":
    main()
