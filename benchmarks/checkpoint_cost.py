"""What a checkpoint of the whole Atari run costs: results/reliability/checkpoint_cost.csv.

    python benchmarks/checkpoint_cost.py [GAME …]

The replay memory is filled with 16 × 50,000 real frames of a random policy (some four minutes a game). Then Algorithm 1
goes on: ten iterations without a save, then a save with iterations until it is on disk, three times. Lost to a save is
the time that training stands still to copy its state, and what its iterations take longer until the save is done.
"""

import shutil
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from acer.config import defaults
from acer.run.training import Training
from replay_memory import fill
from table import write

FILE = Path("results/reliability/checkpoint_cost.csv")
RUN = Path("runs/checkpoint-cost")


def measure(game: str) -> list[object]:
    shutil.rmtree(RUN, ignore_errors=True)
    training = Training(defaults(game, continuous=False, preset="atari"), directory=RUN)
    learner = training.learner
    learner.draw_replays = lambda: 4  # type: ignore[method-assign]
    fill(learner, np.random.default_rng(0))

    def iteration() -> float:
        began = time.perf_counter()
        learner.iterate()
        return time.perf_counter() - began

    for _ in range(3):
        iteration()
    lost, copying, writing = [], [], []
    for _ in range(3):
        usual = median(iteration() for _ in range(10))
        began = time.perf_counter()
        training.checkpoint()
        copied = time.perf_counter() - began
        longer = 0.0
        while training._saver is not None and training._saver._writing and not training._saver._writing.done():
            longer += iteration() - usual
        writing.append(time.perf_counter() - began)
        copying.append(copied)
        lost.append(copied + longer)
    assert training._saver is not None and training._saver.wait()
    newest = max((RUN / "checkpoints").glob("[0-9]*"))
    size = sum(file.stat().st_size for file in newest.iterdir())
    training.close()
    shutil.rmtree(RUN)
    frames = learner.replay.slots * 20 * 16
    return [game, frames, round(size / 1e6), round(median(copying), 2), round(median(writing), 1),
            round(median(lost), 2), f"{median(lost) / 300:.2%}"]  # fmt: skip


def main() -> None:
    rows = []
    for game in sys.argv[1:] or ["pong", "beam_rider"]:
        rows.append(measure(game))
        print(*rows[-1], sep="\t", flush=True)
    columns = "game frames megabytes seconds_to_copy seconds_until_written seconds_lost lost_at_one_save_in_5_minutes"
    write(FILE, columns.split(), rows)


if __name__ == "__main__":
    main()
