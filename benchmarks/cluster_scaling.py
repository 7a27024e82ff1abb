"""Measures what one update costs on its way to the parameter servers, and simulates up to 4,096 actor-learners.

    python benchmarks/server_speed.py               first: what a push costs in a server
    python benchmarks/cluster_scaling.py            measures the actor-learner's side, simulates, draws (a minute)
    python benchmarks/cluster_scaling.py --drawn    simulates and draws from the last measurements

Measured, in seconds of processor time of one thread, for the Atari network: an actor-learner's update with its share of
acting and replay, and what the leader of a group does with one gradient. From results/homes/server.json: a push in a
whole server, and in one of 16 and of 64 shards, which give a part that does not shrink with the shard; what answering
with parameters costs, and what a push costs its sender.

The simulation: nodes of 16 cores, each with a network card that sends and receives at once; shards on nodes of their
own, one core for each. Every gradient passes its node's card, the shards' cards and the shards' processors, one after
the other in each; parameters go back the same way, θ to each client at most every 50 ms, θ_a a tenth as often. With
overlap an actor-learner computes while its last push is on its way. Updates take 0.8 to 1.2 of the measured time.
Written: results/homes/scaling.json, results/homes/scaling.csv and docs/scaling.png.
"""

import csv
import heapq
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

RESULTS = Path("results/homes")
ACTORS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_000]
NODES = [16, 64, 256]
CORES = 16  # of a node
REST = 0.1  # of θ_a for each of θ
STEPS = 4 * 20 / 5  # environment steps for each gradient: four trajectories of 20 steps, each learnt from five times


@dataclass(frozen=True)
class Plan:
    """A way to hold the parameters."""

    name: str
    shards: int = 1
    gigabits: float = 10.0
    processes: int = 1  # of one client
    number: int = 4  # bytes of a gradient's
    interval: float = 0.05  # seconds between two versions of θ for a client
    old: bool = False  # each push is answered by all parameters


PLANS = [
    Plan("as it was: parameters in every answer, 10 Gb/s", old=True),
    Plan("1 shard, 10 Gb/s"),
    Plan("1 shard, 1 Gb/s", gigabits=1.0),
    Plan("8 shards, 10 Gb/s", shards=8),
    Plan("1 shard, groups of 16, 10 Gb/s", processes=CORES),
    Plan("8 shards, groups of 16, 1 Gb/s", shards=8, gigabits=1.0, processes=CORES),
    Plan("8 shards, groups of 16, 1 Gb/s, bfloat16", shards=8, gigabits=1.0, processes=CORES, number=2),
    Plan(
        "16 shards, groups of 16, 1 Gb/s, bfloat16, 200 ms",
        shards=16,
        gigabits=1.0,
        processes=CORES,
        number=2,
        interval=0.2,
    ),
    Plan("8 shards, groups of 16, 10 Gb/s", shards=8, processes=CORES),
    Plan("8 shards, groups of 16, 25 Gb/s", shards=8, gigabits=25.0, processes=CORES),
    Plan("16 shards, groups of 16, 10 Gb/s", shards=16, processes=CORES),
    Plan("32 shards, groups of 16, 10 Gb/s", shards=32, processes=CORES),
    Plan("32 shards, groups of 16, 25 Gb/s", shards=32, gigabits=25.0, processes=CORES),
]


def measure() -> dict[str, float]:
    """Of one thread, in seconds of processor time: other work on the machine changes them less than the clock."""
    from acer.config import defaults
    from acer.run.training import Training

    torch.set_num_threads(1)
    config = defaults("pong", False, "atari", precision="float32", threads=1, replay_start=640, replay_capacity=2_000)
    training = Training(config)
    learner = training.learner
    learner.draw_replays = lambda: 4  # type: ignore[method-assign]
    for _ in range(3):
        learner.iterate()
    before, began = learner.updates, time.process_time()
    for _ in range(4):
        learner.iterate()
    update = (time.process_time() - began) / (learner.updates - before)
    home = training.state.home
    total, slot = torch.zeros_like(home.theta), torch.randn(len(home.theta))
    gathering = []
    for _ in range(25):
        began = time.process_time()
        total.add_(slot)
        gathering.append(time.process_time() - began)
    numbers = {"parameters": float(len(home.theta)), "average_parameters": float(len(home.theta_a))}
    training.close()
    server = json.loads((RESULTS / "server.json").read_text())
    names = ("one shard, no parameters", "one shard, all parameters", "a sixteenth, no parameters",
             "a sixty-fourth, no parameters")  # fmt: skip
    one, all_parameters, sixteenth, sixty_fourth = (1 / server[name]["pushes_of_one_core"] for name in names)
    every = max(0.0, (4 * sixty_fourth - sixteenth) / 3)  # small ones, which the cache holds alike
    return numbers | {
        "seconds_of_one_update_in_an_actor": update,
        "seconds_of_gathering_a_gradient": median(gathering),
        "seconds_of_a_push_as_it_was": 1 / server["answer with parameters"]["pushes_of_one_core"],
        "seconds_of_a_push_that_shards_share": one - every,
        "seconds_of_a_push_in_every_shard": every,
        "seconds_of_a_push_in_its_sender": server["one shard"]["sender_milliseconds_of_a_push"] / 1_000,
        "seconds_of_sending_theta_that_shards_share": (all_parameters - one) / 2,  # and as much for θ_a
    }


class Line:
    """Something that serves one after the other."""

    def __init__(self) -> None:
        self.free = self.busy = 0.0

    def serve(self, at: float, seconds: float) -> float:
        """When what arrives at a time is done."""
        self.free = max(at, self.free) + seconds
        self.busy += seconds
        return self.free


@dataclass
class Node:
    """A machine's network card."""

    out: Line
    into: Line


def simulate(costs: dict[str, float], plan: Plan, actors: int) -> dict[str, Any]:
    """Steps per second of all, staleness, and what was busy most. The shards are alike: one is simulated."""
    rng = np.random.default_rng(0)
    clients = max(1, actors // plan.processes)
    processes = min(actors, plan.processes)
    nodes = [Node(Line(), Line()) for _ in range(-(-actors // CORES))]
    server, card_in, card_out = Line(), Line(), Line()
    second = 8 / (plan.gigabits * 1e9)  # of a byte
    gradient = costs["parameters"] * plan.number
    version_bytes = 4 * (costs["parameters"] + costs["average_parameters"] * (1.0 if plan.old else REST))
    sending = (1 + REST) * costs["seconds_of_sending_theta_that_shards_share"] / plan.shards
    work = costs["seconds_of_a_push_that_shards_share"] / plan.shards + costs["seconds_of_a_push_in_every_shard"]
    if plan.old:
        work, sending = costs["seconds_of_a_push_as_it_was"], 0.0
    leading = costs["seconds_of_a_push_in_its_sender"]
    if processes > 1:  # the leader's work is done by the same cores, and no push comes sooner than it
        leading += processes * costs["seconds_of_gathering_a_gradient"]
    compute = max(costs["seconds_of_one_update_in_an_actor"] + leading / processes, leading)

    spread = 0.2 / np.sqrt(processes)  # of the mean of a group's times

    def lasts() -> float:
        return float(compute * rng.uniform(1 - spread, 1 + spread))

    waiting = [(lasts() * rng.uniform(0.1, 1), client, 0) for client in range(clients)]
    heapq.heapify(waiting)
    answered, newest, due = [0.0] * clients, [0] * clients, [0.0] * clients
    updates, stale = 0, []
    last = 0.0
    while updates < max(3_000, 25 * clients):
        sent, client, seen = heapq.heappop(waiting)
        node = nodes[client * plan.processes // CORES]
        left = node.out.serve(sent, gradient * second)
        there = card_in.serve(left, gradient / plan.shards * second)
        done = server.serve(there, work)
        stale.append(updates - seen)
        updates += 1
        start, base = max(sent, answered[client]), newest[client]
        if plan.old or done >= due[client]:  # all shards send their parts at once
            due[client], newest[client] = done + plan.interval, updates
            done = server.serve(done, sending)
            fetched = card_out.serve(done, version_bytes / plan.shards * second)
            fetched = node.into.serve(fetched, version_bytes * second)
        else:
            fetched = done
        answered[client] = fetched
        heapq.heappush(waiting, (start + lasts(), client, base))
        last = max(last, done)
    busy = {
        "a shard's processor": server.busy,
        "a shard's card": max(card_in.busy, card_out.busy),
        "a node's card": max(max(node.out.busy, node.into.busy) for node in nodes),
    }
    most = max(busy, key=lambda name: busy[name])
    rate = updates / last
    linear = actors / costs["seconds_of_one_update_in_an_actor"]
    return {
        "plan": plan.name,
        "actors": actors,
        "steps_per_second": rate * processes * STEPS,
        "of_linear": rate * processes / linear,
        "pushes_per_second": rate,
        "staleness": float(np.mean(stale[len(stale) // 2 :])),
        "busiest": most,
        "its_share": busy[most] / last,
    }


def main() -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    file = RESULTS / "scaling.json"
    if "--drawn" not in sys.argv:
        file.write_text(json.dumps(measure(), indent=2) + "\n")
    costs = json.loads(file.read_text())
    print(json.dumps(costs, indent=2))
    figure, (speed, staleness) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    rows = []
    for plan in PLANS:
        sizes = [actors for actors in (*ACTORS, *(CORES * nodes for nodes in NODES[1:])) if actors >= plan.processes]
        found = [simulate(costs, plan, actors) for actors in sorted(set(sizes))]
        rows += found
        actors = [row["actors"] for row in found]
        speed.loglog(actors, [row["steps_per_second"] for row in found], marker="o", markersize=3, label=plan.name)
        staleness.loglog(actors, [row["staleness"] for row in found], marker="o", markersize=3)
    with (RESULTS / "scaling.csv").open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({name: f"{v:.4g}" if isinstance(v, float) else v for name, v in row.items()})
    for row in rows:
        if row["actors"] in [CORES * nodes for nodes in NODES]:
            print(" | ".join(f"{v:,.3g}" if isinstance(v, float) else str(v) for v in row.values()))
    every = sorted({row["actors"] for row in rows})
    linear = [actors / costs["seconds_of_one_update_in_an_actor"] * STEPS for actors in every]
    speed.loglog(every, linear, color="grey", linestyle=":", label="linear")
    for panel, label in ((speed, "environment steps per second"), (staleness, "staleness (updates)")):
        panel.set_xlabel("actor-learners")
        panel.set_ylabel(label)
        panel.grid(alpha=0.3, which="both")
        panel.spines[["top", "right"]].set_visible(False)
    speed.legend(fontsize=7)
    figure.savefig("docs/scaling.png", dpi=130)


if __name__ == "__main__":
    main()
