"""Fills the whole Atari replay with real frames of a random policy and weighs it: results/bench/replay_memory.csv.

    python benchmarks/replay_memory.py [GAME …]

16 × 50,000 frames of each game, and a tenth more that overwrites the oldest. The memory's own bytes are its compressed
blocks and plain arrays; the process' are the most that the operating system counted (resident set) while it was filled,
learnt from and saved. A game that is in the file is not measured again.
"""

import csv
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from table import write

GAMES = ["pong", "breakout", "seaquest", "beam_rider", "space_invaders", "qbert", "montezuma_revenge"]
FILE = Path("results/bench/replay_memory.csv")
COLUMNS = ["game", "frames", "megabytes", "bytes_per_frame", "process_megabytes", "microseconds_to_add",
           "microseconds_to_sample"]  # fmt: skip


def fill(learner: Any, rng: np.random.Generator) -> float:
    """Plays at random until the replay memory is more than full; the seconds that storing took."""
    actions = learner.agent.action.size
    uniform = np.full((learner.config.environments, actions), -np.log(actions), np.float32)
    adding = 0.0
    while learner.replay.added < 1.1 * learner.replay.slots:
        trajectory, _ = learner.rollout.collect(lambda x, masks: (rng.integers(actions, size=len(x)), uniform))
        began = time.perf_counter()
        learner.replay.add(trajectory)
        adding += time.perf_counter() - began
    return adding / (learner.replay.added * learner.config.environments * learner.config.trajectory_length)


def weigh(game: str) -> list[object]:
    from acer.config import defaults
    from acer.run.training import Training

    with tempfile.TemporaryDirectory() as directory:
        training = Training(defaults(game, continuous=False, preset="atari"), directory=Path(directory))
        learner, rng = training.learner, np.random.default_rng(0)
        adding = fill(learner, rng)
        frames = len(learner.replay) * learner.config.trajectory_length
        arrays, blocks = learner.replay.state()
        weight = sum(array.nbytes for array in arrays.values()) + sum(map(len, blocks))
        del arrays, blocks
        began = time.perf_counter()
        for _ in range(100):
            learner.replay.sample(rng, 16)
        sampling = (time.perf_counter() - began) / (100 * 16 * 21)
        for _ in range(3):
            learner.iterate()
        training.checkpoint()
        training._saver.wait()
        training.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sizes = [round(weight / 1e6), round(weight / frames), round(peak / 1e6)]
    return [game, frames, *sizes, round(1e6 * adding, 1), round(1e6 * sampling, 1)]


def main() -> None:
    if sys.argv[1:2] == ["--weigh"]:
        print(*weigh(sys.argv[2]), sep="\t")
        return
    rows = {}
    if FILE.exists():
        with FILE.open(newline="") as file:
            rows = {row[0]: row for row in list(csv.reader(file))[1:]}
    for game in sys.argv[1:] or GAMES:  # each in a process of its own, for its memory is counted
        if game not in rows:
            command = [sys.executable, __file__, "--weigh", game]
            rows[game] = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split()
            print(*rows[game], sep="\t", flush=True)
            write(FILE, COLUMNS, list(rows.values()))


if __name__ == "__main__":
    main()
