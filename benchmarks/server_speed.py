"""How many pushes a second a parameter server takes: results/homes/server.json.

    python benchmarks/server_speed.py        (about three minutes; nothing else should run)

The Atari network. Senders, as many as there are cores and at least two, push their own gradients at once, each with two
on their way. Contenders run alternately; each figure is the median over rounds, each ratio the median within a round.
`answer with parameters` is the server as it was: every push is answered by θ and θ_a, and each of an update's
operations is a pass of its own. `a sixteenth` is one of 16 shards by itself. `pushes of one core` is what a server
with a core of its own could take: pushes for each second of processor time of its whole process.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray
import torch

from acer.homes.server import Part, Shard, cuts, packed
from acer.learner.optimizer import average, rmsprop
from acer.learner.parameters import Constants
from acer.machine import cores

FILE = Path("results/homes/server.json")
NUMBERS, AVERAGED = 1_690_284, 1_687_206  # of the Atari network for Pong
PUSHES = 40  # of each sender in a round
ROUNDS = 5
CONSTANTS = Constants(0.99, 0.99, 1e-6, one_pass=True)  # the Atari network's
INTERVAL = 0.05


class Whole:
    """The server as it was: copies the gradient, answers with all parameters."""

    def __init__(self, part: Part) -> None:
        torch.set_num_threads(1)
        self.theta, self.theta_a, self.square = (
            torch.from_numpy(array.copy()) for array in (part.theta, part.theta_a, part.square)
        )

    def push(self, gradient: Any) -> Any:
        copy = torch.from_numpy(gradient.copy())
        rmsprop(self.theta, self.square, copy, 1e-9, CONSTANTS.decay, CONSTANTS.epsilon, 1.0)
        average(self.theta_a, self.theta[: len(self.theta_a)], CONSTANTS.alpha)
        return self.theta.numpy(), self.theta_a.numpy()

    def used(self) -> float:
        """Seconds of processor time so far."""
        return time.process_time()


class Timed(Shard):
    """A shard as it is."""

    def used(self) -> float:
        """Seconds of processor time so far."""
        return time.process_time()


class Sender:
    """An actor-learner that only sends."""

    def __init__(self, precision: str) -> None:
        warnings.filterwarnings("ignore", category=UserWarning)
        torch.set_num_threads(1)
        self.gradient = torch.randn(NUMBERS)
        self.precision, self.error = precision, torch.zeros(NUMBERS)

    def send(self, servers: list[Any], with_answer: bool, numbers: int) -> None:
        """numbers: of the gradient, those that the servers hold together."""
        flying: list[list[Any]] = []
        has = [(-1, -1)] * len(servers)
        for _ in range(PUSHES):
            if with_answer:
                flying.append([servers[0].push.remote(self.gradient.numpy())])
            else:
                wire = packed(self.gradient, self.precision, self.error)
                flying.append([
                    server.push.remote(wire[cut], 1e-9, 1.0, 0, (0, 0), known)
                    for server, cut, known in zip(servers, cuts(numbers, len(servers)), has, strict=True)
                ])  # fmt: skip
            if len(flying) > 2:
                has = self.take(flying.pop(0), has, with_answer)
        while flying:
            has = self.take(flying.pop(0), has, with_answer)

    def take(self, flight: list[Any], has: list[Any], with_answer: bool) -> list[Any]:
        answers = ray.get(flight)
        if with_answer:
            return has
        for answer in answers:
            for version in (answer.theta, answer.average):
                if version is not None:
                    version.fetch()
        return [
            (had[0] if answer.theta is None else answer.theta.number,
             had[1] if answer.average is None else answer.average.number)
            for had, answer in zip(has, answers, strict=True)
        ]  # fmt: skip


def whole() -> Part:
    return Part(np.zeros(NUMBERS, np.float32), np.zeros(AVERAGED, np.float32), np.ones(NUMBERS, np.float32))


def servers_of(shards: int, only: int | None = None) -> list[Any]:
    """Shards; `only`: that many of them."""
    full = whole()
    kept: Any = ray.remote(Timed).options(num_cpus=0)
    return [
        kept.remote(Part(full.theta[cut], full.theta_a[cut], full.square[cut]), CONSTANTS, INTERVAL)
        for cut in cuts(NUMBERS, shards)[:only]
    ]


def measure() -> dict[str, Any]:
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    old: Any = ray.remote(Whole).options(num_cpus=0)
    contenders: dict[str, tuple[list[Any], str, bool]] = {
        "answer with parameters": ([old.remote(whole())], "float32", True),
        "one shard": (servers_of(1), "float32", False),
        "one shard, bfloat16": (servers_of(1), "bfloat16", False),
        "two shards": (servers_of(2), "float32", False),
        "a sixteenth": (servers_of(16, only=1), "float32", False),
    }
    sender: Any = ray.remote(Sender).options(num_cpus=0)
    count = max(2, cores())
    senders = {precision: [sender.remote(precision) for _ in range(count)] for precision in ("float32", "bfloat16")}
    pushes: dict[str, list[float]] = {name: [] for name in contenders}
    of_a_core: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(ROUNDS + 1):  # the first warms up
        for name, (servers, precision, with_answer) in contenders.items():
            numbers = NUMBERS // 16 if name == "a sixteenth" else NUMBERS
            used = ray.get([server.used.remote() for server in servers])
            began = time.perf_counter()
            ray.get([one.send.remote(servers, with_answer, numbers) for one in senders[precision]])
            wall = time.perf_counter() - began
            spent = [now - then for now, then in zip(ray.get([s.used.remote() for s in servers]), used, strict=True)]
            if turn:
                pushes[name].append(count * PUSHES / wall)
                of_a_core[name].append(count * PUSHES / max(spent))
                print(f"{turn} {name}: {pushes[name][-1]:.0f}/s, {of_a_core[name][-1]:.0f} of one core", flush=True)
    ray.shutdown()
    base = pushes["answer with parameters"], of_a_core["answer with parameters"]
    found: dict[str, Any] = {
        "senders": count,
        "load_average": os.getloadavg()[0],
        "command": f"python {' '.join(sys.argv)}",
        "processor": processor(),
    }
    for name in contenders:
        found[name] = {
            "pushes_per_second": round(median(pushes[name]), 1),
            "pushes_of_one_core": round(median(of_a_core[name]), 1),
            "ratio": round(median(new / was for new, was in zip(pushes[name], base[0], strict=True)), 2),
            "ratio_of_one_core": round(median(new / was for new, was in zip(of_a_core[name], base[1], strict=True)), 2),
        }
    one, two = of_a_core["one shard"], of_a_core["two shards"]
    found["two shards to one, of one core each"] = round(median(t / o for t, o in zip(two, one, strict=True)), 2)
    walls = zip(pushes["two shards"], pushes["one shard"], strict=True)
    found["two shards to one, as measured"] = round(median(t / o for t, o in walls), 2)
    return found


def processor() -> str:
    lines = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout.splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("Model name")), "unknown")


def main() -> None:
    found = measure()
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.write_text(json.dumps(found, indent=2) + "\n")
    print(FILE.read_text())


if __name__ == "__main__":
    main()
