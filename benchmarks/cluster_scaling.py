"""Measures what one update costs on its way to the server and back, and simulates up to 1,000 actor-learners.

    python benchmarks/cluster_scaling.py            measures, simulates, draws (about two minutes)
    python benchmarks/cluster_scaling.py --drawn    simulates and draws from the last measurement

Measured, for the Atari network and one thread each: an actor-learner's update with its share of acting, a pull and a
push through Ray's object store on this machine, and the holder's own work in a push (many sent at once, so that it
never waits). The simulation has one server,
which serves one message after the other, and a network card in front of it; each actor-learner computes, sends its
gradient, and computes the next update meanwhile, as `--overlap` does. Written: results/homes/scaling.json,
results/homes/scaling.csv and docs/scaling.png.
"""

import csv
import heapq
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

RESULTS = Path("results/homes")
ACTORS = [1, 2, 4, 8, 16, 32, 64, 125, 250, 500, 1_000]


@dataclass(frozen=True)
class Plan:
    """A way to hold the parameters."""

    name: str
    shards: int = 1  # holders, each with a part of the parameters and a network card of its own
    bytes_per_number: float = 4.0  # of gradients and parameters on their way
    bits_per_second: float = 10e9
    trajectories: int = 4  # in one update


PLANS = [
    Plan("one server, 10 Gb/s (as built)"),
    Plan("one server, 1 Gb/s", bits_per_second=1e9),
    Plan("one server, 1 Gb/s, 16-bit numbers", bits_per_second=1e9, bytes_per_number=2.0),
    Plan("8 shards, 10 Gb/s each", shards=8),
    Plan("8 shards, 16 trajectories an update", shards=8, trajectories=16),
]


def times(work: Callable[[], object], repeats: int = 25) -> float:
    """Median seconds of one call."""
    for _ in range(3):
        work()
    found = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return median(found)


def measure() -> dict[str, float]:
    import ray

    from acer.config import defaults
    from acer.homes.ray import ParameterServer
    from acer.learner.parameters import descend
    from acer.run.training import Training

    config = defaults("pong", False, "atari", precision="float32", threads=1, replay_start=640, replay_capacity=2_000)
    training = Training(config)
    learner, home = training.learner, training.home
    learner.draw_replays = lambda: 4  # type: ignore[method-assign]
    for _ in range(3):
        learner.iterate()
    before, began = learner.updates, time.perf_counter()
    for _ in range(4):
        learner.iterate()
    update = (time.perf_counter() - began) / (learner.updates - before)

    gradient = torch.randn_like(home.theta)
    apply = times(lambda: descend(home.theta, home.theta_a, home.square, gradient, 1e-9, home.constants))
    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    arrays = [tensor.numpy() for tensor in (home.theta, home.theta_a, home.square)]
    server = ray.remote(ParameterServer).remote(*arrays, (0, 0), home.moments, home.constants)
    for _ in range(100):  # until Ray's store has touched all its memory
        ray.get(server.pull.remote())
    pull = times(lambda: ray.get(server.pull.remote()))
    push = times(lambda: ray.get(server.push.remote(gradient.numpy(), 1e-9, 0)))
    small = times(lambda: ray.get(server.count.remote(0, 0)))
    stored = ray.put(gradient.numpy())
    queued = times(lambda: ray.get([server.push.remote(stored, 1e-9, 0) for _ in range(20)])) / 20
    ray.shutdown()
    training.close()
    return {
        "parameters": float(home.theta.numel()),
        "average_parameters": float(home.theta_a.numel()),
        "seconds_of_one_update_in_an_actor": update,
        "seconds_of_a_pull": pull,
        "seconds_of_a_push_and_pull": push,
        "seconds_of_an_empty_call": small,
        "seconds_of_a_push_in_the_holder": queued,
        "seconds_of_applying_an_update": apply,
    }


def simulate(costs: dict[str, float], plan: Plan, actors: int, updates: int = 4_000) -> tuple[float, float]:
    """Updates per second of all, and mean staleness of an update.

    Events are messages that arrive at the server. It is busy with each for its own work, or its card for the bytes,
    whichever takes longer; the answer is what the actor-learner computes its next-but-one update from.
    """
    rng = np.random.default_rng(0)
    numbers = costs["parameters"] + costs["average_parameters"]  # θ and θ_a out, while a gradient comes in
    wire = numbers * plan.bytes_per_number * 8 / plan.bits_per_second / plan.shards
    work = costs["seconds_of_a_push_in_the_holder"] / plan.shards
    service, compute = max(work, wire), costs["seconds_of_one_update_in_an_actor"] * plan.trajectories / 4

    def lasts() -> float:
        return compute * rng.uniform(0.8, 1.2)

    # (time at which the gradient is sent, actor, version that it was computed from)
    waiting = [(lasts() * rng.uniform(0.1, 1), actor, 0) for actor in range(actors)]
    heapq.heapify(waiting)
    answered = [0.0] * actors  # when the answer to each one's last push came
    newest = [0] * actors  # version in that answer
    free_at, version, stale = 0.0, 0, []
    while version < max(updates, 20 * actors):
        sent, actor, seen = heapq.heappop(waiting)
        free_at = max(sent, free_at) + service
        stale.append(version - seen)
        version += 1
        # It computes the next update from the last answer that it had when it sent this one, and takes this one's
        # before it sends another: at most one is on its way.
        start, base = max(sent, answered[actor]), newest[actor]
        answered[actor], newest[actor] = free_at, version
        heapq.heappush(waiting, (start + lasts(), actor, base))
    half = len(stale) // 2
    return version / free_at, float(np.mean(stale[half:]))


def main() -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / "scaling.json"
    if "--drawn" not in sys.argv:
        file.write_text(json.dumps(measure(), indent=2) + "\n")
    costs = json.loads(file.read_text())
    print(json.dumps(costs, indent=2))
    figure, (speed, staleness) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    with (RESULTS / "scaling.csv").open("w", newline="") as out:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["plan", "actors", "trajectories_per_second", "of_linear", "staleness"])
        for plan in PLANS:
            simulated = [simulate(costs, plan, actors) for actors in ACTORS]
            found = [(rate * plan.trajectories, stale) for rate, stale in simulated]
            linear = 4 / costs["seconds_of_one_update_in_an_actor"]
            for actors, (rate, stale) in zip(ACTORS, found, strict=True):
                writer.writerow([plan.name, actors, f"{rate:.4g}", f"{rate / (actors * linear):.3f}", f"{stale:.4g}"])
            speed.loglog(ACTORS, [rate for rate, _ in found], marker="o", markersize=3, label=plan.name)
            staleness.loglog(ACTORS, [stale for _, stale in found], marker="o", markersize=3, label=plan.name)
    speed.loglog(ACTORS, [actors * linear for actors in ACTORS], color="grey", linestyle=":", label="linear")
    for panel, label in ((speed, "trajectories learnt from per second"), (staleness, "staleness (updates)")):
        panel.set_xlabel("actor-learners")
        panel.set_ylabel(label)
        panel.grid(alpha=0.3, which="both")
        panel.spines[["top", "right"]].set_visible(False)
    speed.legend(fontsize=8)
    figure.savefig("docs/scaling.png", dpi=130)


if __name__ == "__main__":
    main()
