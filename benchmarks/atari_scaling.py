"""Training speed on Pong from 1 to 64 environments, with one thread and with every core: results/bench/atari_scaling.*

    python benchmarks/atari_scaling.py

Replay ratio 4, the preset's four trajectories per update (as many as there are environments, if fewer), the precision
that this machine is made for. Each setting in a process of its own, all of them in each of three rounds; ratios are
medians of those within a round. About ten minutes; what is in atari_scaling_rounds.csv is not measured again.
"""

import csv
import statistics
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch

from acer.bench.atari import settings
from acer.bench.contenders import train
from acer.learner.networks import faster_precision
from acer.machine import cores
from table import write

ENVIRONMENTS = [1, 2, 4, 8, 16, 32, 64]
ROUNDS = 3
RESULTS = Path("results/bench")
FILE = RESULTS / "atari_scaling_rounds.csv"


def speed(environments: int, threads: int, precision: str) -> float:
    config = settings(precision, environments=environments, threads=threads)
    return train(config, max(680, 40 * environments), max(1_000, 80 * environments))


def measure(threads: list[int], precision: str) -> dict[tuple[int, int, int], float]:
    """Steps per second by round, environments and threads; each is written down as it comes."""
    if not FILE.exists():
        FILE.write_text("round,environments,threads,precision,steps_per_second\n")
    with FILE.open(newline="") as file:
        rows = list(csv.reader(file))[1:]
    found = {(int(r), int(n), int(t)): float(s) for r, n, t, p, s in rows if p == precision}
    for key in [(r, n, t) for r in range(ROUNDS) for n in ENVIRONMENTS for t in threads]:
        if key in found:
            continue
        command = [sys.executable, __file__, *map(str, key[1:]), precision]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found[key] = float(run.stdout)
        with FILE.open("a") as file:
            print(*key, precision, round(found[key], 1), sep=",", file=file)
        print(*key, round(found[key], 1), sep="\t", flush=True)
    return found


def main() -> None:
    if len(sys.argv) == 4:
        print(speed(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
        return
    threads = sorted({1, cores()})
    precision = faster_precision(torch.device("cpu"))
    found = measure(threads, precision)

    def middle(n: int, t: int, over: tuple[int, int] | None = None) -> float:
        """Median over the rounds of the speed, or of its ratio to another in the same round."""
        return statistics.median(found[r, n, t] / (found[(r, *over)] if over else 1) for r in range(ROUNDS))

    rows = [
        [n, t, precision, round(middle(n, t), 1), round(middle(n, t, (1, t)), 2), round(middle(n, t, (n, 1)), 2)]
        for n in ENVIRONMENTS
        for t in threads
    ]
    columns = ["environments", "threads", "precision", "steps_per_second", "over_one_environment", "over_one_thread"]
    write(RESULTS / "atari_scaling.csv", columns, rows)
    figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
    for t in threads:
        axes.plot(ENVIRONMENTS, [middle(n, t) for n in ENVIRONMENTS], "o-", label=f"{t} thread{'s' * (t > 1)}")
    axes.set_xscale("log", base=2)
    axes.set_xticks(ENVIRONMENTS, [str(n) for n in ENVIRONMENTS])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("environments")
    axes.set_ylabel(f"environment steps per second, {precision}")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(RESULTS / "atari_scaling.png", dpi=130)


if __name__ == "__main__":
    main()
