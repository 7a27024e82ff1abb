"""How many pushes a second a parameter server takes: results/homes/server.json.

    python benchmarks/server_speed.py        (about two minutes; nothing else should run)

The Atari network. Senders, as many as there are cores and at least two, push their own gradients at once, each with two
on their way. Contenders run alternately; each figure is the median over rounds, each ratio the median within a round.

| contender | what it is |
|---|---|
| answer with parameters | as it was first: a push is a Ray call, answered by θ and θ_a; each operation is a pass |
| a Ray call | a push is a Ray call, answered by counters; the update is one pass; no parameters are sent |
| one shard | as it is: over `wire`; θ goes to each sender every 50 ms, θ_a every half second |
| one shard, no parameters; all parameters | the same, never and with every answer: what the simulation takes apart |
| a sixteenth, a sixty-fourth, no parameters | one of 16 or of 64 shards by itself |
| a sixteenth, a Ray call | the same, reached as `a Ray call` |

`pushes of one core` is what a server with a core of its own could take: pushes for each second of processor time of its
whole process, the threads of Ray and of the system's sockets among it.
"""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import ray
import torch

from acer.config import defaults
from acer.homes.remote import Remote, parts
from acer.homes.server import Part, Shard
from acer.homes.wire import TcpLine
from acer.learner.optimizer import average, rmsprop
from acer.learner.parameters import Constants, descend
from acer.machine import cores, keep_memory

FILE = Path("results/homes/server.json")
NUMBERS, AVERAGED = 1_690_284, 1_687_206  # of the Atari network for Pong
PUSHES = 100  # of each sender in a round; eight times as many of small shards
ROUNDS = 5
CONSTANTS = Constants(0.99, 0.99, 1e-6, one_pass=True)  # the Atari network's
INTERVAL, NEVER = 0.05, 1e9
SECRET = bytes(32)


class Measured(Shard):
    """A shard as it is."""

    def used(self) -> float:
        """Seconds of processor time so far."""
        return time.process_time()


class Called(Measured):
    """A push is a Ray call."""

    def push(self, gradient: Any, with_parameters: bool) -> Any:
        tensor = torch.from_numpy(gradient.copy() if with_parameters else gradient)
        if not with_parameters:
            descend(self.theta, self.theta_a, self.square, tensor, 1e-9, CONSTANTS)
            return self.updates
        rmsprop(self.theta, self.square, tensor, 1e-9, CONSTANTS.decay, CONSTANTS.epsilon, 1.0)
        average(self.theta_a, self.theta[: len(self.theta_a)], CONSTANTS.alpha)
        return self.theta.numpy(), self.theta_a.numpy()


@dataclass(frozen=True)
class Contender:
    """Servers, and how they are reached."""

    shards: int = 1
    used: int = 1  # of the shards
    interval: float = INTERVAL
    precision: str = "float32"
    called: bool = False
    with_parameters: bool = False

    @property
    def pushes(self) -> int:
        """Of each sender."""
        return PUSHES if self.used == self.shards else 8 * PUSHES


CONTENDERS = {
    "answer with parameters": Contender(called=True, with_parameters=True),
    "a Ray call": Contender(called=True),
    "one shard": Contender(),
    "one shard, bfloat16": Contender(precision="bfloat16"),
    "two shards": Contender(2, 2),
    "one shard, no parameters": Contender(interval=NEVER),
    "one shard, all parameters": Contender(interval=0.0),
    "a sixteenth, no parameters": Contender(16, interval=NEVER),
    "a sixty-fourth, no parameters": Contender(64, interval=NEVER),
    "a sixteenth, a Ray call": Contender(16, called=True),
}


class Sender:
    """An actor-learner that only sends."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        keep_memory()
        self.gradient = torch.randn(NUMBERS)
        self.homes: dict[str, Remote] = {}

    def send(self, name: str, servers: list[Any], addresses: list[Any]) -> float:
        """Seconds of processor time of this process for each push."""
        contender = CONTENDERS[name]
        began = time.process_time()
        if contender.called:
            self.call(servers[0], contender)
            return (time.process_time() - began) / contender.pushes
        home = self.homes.get(name) or self.homes.setdefault(name, self.home(contender, addresses))
        for _ in range(contender.pushes):
            home.push(self.gradient[: len(home.theta)], 1e-9)
            home.pull()
        while not home.arrived():
            time.sleep(0.001)
        return (time.process_time() - began) / contender.pushes

    def call(self, server: Any, contender: Contender) -> None:
        gradient, flying = self.gradient.numpy()[: len(parts_of(contender)[0].theta)], []
        for _ in range(contender.pushes):
            flying.append(server.push.remote(gradient, contender.with_parameters))
            if len(flying) > 2:
                ray.get(flying.pop(0))
        ray.get(flying)

    def home(self, contender: Contender, addresses: list[Any]) -> Remote:
        held = parts_of(contender)
        lines = [TcpLine(address, SECRET, part.sizes) for address, part in zip(addresses, held, strict=True)]
        config = defaults("CartPole-v1", False, home="ray", gradient_precision=contender.precision)
        size, averaged = (sum(getattr(part.sizes, name) for part in held) for name in ("theta", "theta_a"))
        return Remote(lines, config, (torch.zeros(size), torch.zeros(averaged), torch.zeros(size)), CONSTANTS, None)


def parts_of(contender: Contender) -> list[Part]:
    """What the servers hold."""
    whole = Part(np.zeros(NUMBERS, np.float32), np.zeros(AVERAGED, np.float32), np.ones(NUMBERS, np.float32))
    return parts(whole, contender.shards)[: contender.used]


def measure() -> dict[str, Any]:
    ray.init(address="local", num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    kept, sender = ray.remote(Called).options(num_cpus=0), ray.remote(Sender).options(num_cpus=0)  # type: ignore[attr-defined]
    servers = {
        name: [kept.remote(part, CONSTANTS, contender.interval) for part in parts_of(contender)]
        for name, contender in CONTENDERS.items()
    }
    addresses = {name: ray.get([one.listen.remote(SECRET) for one in some]) for name, some in servers.items()}
    count = max(2, cores())
    senders = [sender.remote() for _ in range(count)]
    pushes: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    of_a_core: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    of_senders: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for turn in range(ROUNDS + 1):  # the first warms up
        for name, some in servers.items():
            made = count * CONTENDERS[name].pushes
            used = ray.get([server.used.remote() for server in some])
            began = time.perf_counter()
            of_sender = median(ray.get([one.send.remote(name, some, addresses[name]) for one in senders]))
            wall = time.perf_counter() - began
            spent = [now - then for now, then in zip(ray.get([s.used.remote() for s in some]), used, strict=True)]
            if turn:
                pushes[name].append(made / wall)
                of_a_core[name].append(made / max(spent))
                of_senders[name].append(of_sender)
                print(f"{turn} {name}: {pushes[name][-1]:.0f}/s, {of_a_core[name][-1]:.0f} of one core", flush=True)
    ray.shutdown()
    base = pushes["answer with parameters"], of_a_core["answer with parameters"]
    found: dict[str, Any] = {
        "senders": count,
        "rounds": ROUNDS,
        "load_average": os.getloadavg()[0],
        "command": f"python {' '.join(sys.argv)}",
        "processor": processor(),
    }
    for name in CONTENDERS:
        found[name] = {
            "pushes_per_second": round(median(pushes[name]), 1),
            "pushes_of_one_core": round(median(of_a_core[name]), 1),
            "sender_milliseconds_of_a_push": round(1_000 * median(of_senders[name]), 2),
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
