"""What it costs to keep an environment from changing its process: results/reliability/guest_cost.csv.

    python benchmarks/guest_cost.py [SECONDS]

CartPole-v1 with its preset, with 1 and with 16 environments. Iterations of Algorithm 1 are done by turns with
`acer.envs.guests.House` and with one that does nothing. Both have the same replay draws. A ratio is that of the
processor's time of two turns side by side; the result is the median of all.
"""

import math
import sys
import time
from pathlib import Path
from statistics import median

from acer.config import defaults
from acer.envs import batch
from acer.run.training import Training
from table import write

FILE = Path("results/reliability/guest_cost.csv")
TURN = 0.25  # seconds


class Nobody:
    def tidy(self) -> None:
        pass


def measure(environments: int, seconds: float) -> list[object]:
    training = Training(defaults("CartPole-v1", continuous=False, environments=environments))
    learner, house = training.learner, batch.House
    learner.draw_replays = lambda: 4  # type: ignore[method-assign]
    steps = environments * training.config.trajectory_length

    def turn(guarded: bool) -> float:
        batch.House = house if guarded else Nobody  # type: ignore[misc,assignment]
        began = time.process_time()
        for _ in range(iterations):
            learner.iterate()
        return (time.process_time() - began) / iterations

    iterations = 5
    while learner.steps < 2 * training.config.replay_start:
        turn(True)
    iterations = max(1, math.ceil(TURN / turn(True)))
    turns = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        order = (True, False) if len(turns) % 2 else (False, True)
        of = {guarded: turn(guarded) for guarded in order}
        turns.append((of[True], of[False]))
    training.close()
    batch.House = house  # type: ignore[misc]
    cost = median(one / other for one, other in turns) - 1
    each = median(one for one, _ in turns) / steps
    return [environments, len(turns), f"{1e6 * each:.1f}", f"{cost:.2%}"]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    rows = []
    for environments in (1, 16):
        rows.append(measure(environments, seconds))
        print(*rows[-1], sep="\t", flush=True)
    write(FILE, ["environments", "turns", "microseconds_of_a_step", "cost_of_the_guards"], rows)


if __name__ == "__main__":
    main()
