"""Training speed on Pong from 1 to 64 environments, with one thread and with every core: results/bench/atari_scaling.*

    python benchmarks/atari_scaling.py

Replay ratio 4, the preset's four trajectories per update (as many as there are environments, if fewer). Each setting in
a process of its own; three rounds, of which the median counts.
"""

import statistics
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from acer.bench.atari import settings
from acer.bench.contenders import train
from acer.machine import cores
from table import write

ENVIRONMENTS = [1, 2, 4, 8, 16, 32, 64]
RESULTS = Path("results/bench")


def speed(environments: int, threads: int) -> float:
    per_update = min(4, environments)
    config = settings("float32", environments=environments, trajectories_per_update=per_update, threads=threads)
    return train(config, 700, max(640, 80 * environments))


def main() -> None:
    if len(sys.argv) == 3:
        print(speed(int(sys.argv[1]), int(sys.argv[2])))
        return
    threads = sorted({1, cores()})
    found: dict[tuple[int, int], list[float]] = {}
    for _ in range(3):
        for n in ENVIRONMENTS:
            for t in threads:
                run = subprocess.run(
                    [sys.executable, __file__, str(n), str(t)], check=True, stdout=subprocess.PIPE, text=True
                )
                found.setdefault((n, t), []).append(float(run.stdout))
    rows = [[n, t, round(statistics.median(speeds), 1)] for (n, t), speeds in found.items()]
    for row, speeds in zip(rows, found.values(), strict=True):
        print(*row, *(round(s, 1) for s in speeds), sep="\t")
    write(RESULTS / "atari_scaling.csv", ["environments", "threads", "steps_per_second"], rows)
    figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
    for t in threads:
        axes.plot(
            ENVIRONMENTS,
            [statistics.median(found[n, t]) for n in ENVIRONMENTS],
            "o-",
            label=f"{t} thread{'s'[: t - 1]}",
        )
    axes.set_xscale(
        "log",
        base=2,
    )
    axes.set_xticks(ENVIRONMENTS, [str(n) for n in ENVIRONMENTS])
    axes.set_ylim(bottom=0)
    axes.set_xlabel("environments")
    axes.set_ylabel("environment steps per second")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(RESULTS / "atari_scaling.png", dpi=130)


if __name__ == "__main__":
    main()
