"""Fills the whole Atari replay with real frames of a random policy and weighs it: results/bench/replay_memory.csv.

    python benchmarks/replay_memory.py [GAME …]

16 × 50,000 frames of each game. The memory's own bytes are its compressed blocks and plain arrays; the process' are
what the operating system counts (resident set), with PyTorch and the preset's networks loaded.
"""

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from table import write

GAMES = ["pong", "breakout", "seaquest", "beam_rider", "space_invaders", "qbert", "montezuma_revenge"]
FILE = Path("results/bench/replay_memory.csv")


def fill(learner: Any, rng: np.random.Generator) -> float:
    """Plays at random until the replay memory is full; the seconds that storing took."""
    actions = learner.agent.action.size
    uniform = np.full((learner.config.environments, actions), -np.log(actions), np.float32)
    adding = 0.0
    while len(learner.replay) < learner.replay.slots * learner.config.environments:
        trajectory, _ = learner.rollout.collect(lambda x: (rng.integers(actions, size=len(x)), uniform))
        began = time.perf_counter()
        learner.replay.add(trajectory)
        adding += time.perf_counter() - began
    return adding


def weigh(game: str) -> list[object]:
    from acer.config import defaults
    from acer.training import Training

    training = Training(defaults(game, continuous=False, preset="atari"))
    learner, rng = training.learner, np.random.default_rng(0)
    adding = fill(learner, rng)
    stored = learner.replay.added * 20 * training.config.environments
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    arrays, blocks = learner.replay.state()
    weight = sum(array.nbytes for array in arrays.values()) + sum(map(len, blocks))
    began = time.perf_counter()
    for _ in range(100):
        learner.replay.sample(rng, 16)
    sampling = (time.perf_counter() - began) / (100 * 16 * 21)
    training.close()
    sizes = [round(weight / 1e6), round(weight / stored), round(peak / 1e6)]
    return [game, stored, *sizes, round(1e6 * adding / stored, 1), round(1e6 * sampling, 1)]


def main() -> None:
    if sys.argv[1:2] == ["--weigh"]:
        print(*weigh(sys.argv[2]), sep="\t")
        return
    rows = []
    for game in sys.argv[1:] or GAMES:  # each in a process of its own, for its memory is counted
        command = [sys.executable, __file__, "--weigh", game]
        rows.append(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.split())
        print(*rows[-1], sep="\t", flush=True)
    columns = "game frames megabytes bytes_per_frame process_megabytes microseconds_to_add microseconds_to_sample"
    write(FILE, columns.split(), rows)


if __name__ == "__main__":
    main()
