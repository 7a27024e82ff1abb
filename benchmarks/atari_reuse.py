"""What an update costs with and without reuse of patches, and what share is distinct: results/bench/atari_reuse.csv

    python benchmarks/atari_reuse.py pong breakout seaquest beam_rider RUN…

A game's name stands for an agent that has not learnt, a directory for a run and its own replay memory (copy the
directory of a run that still goes on). Makes the same updates both ways, alternating, by the processor's time in one
thread, which other work on the machine disturbs little; in each precision that this machine is made for. A row that is
there is measured anew.
"""

import csv
import dataclasses
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch

from acer import ACER
from acer.bench.atari import settings
from acer.envs.scores import GAMES
from acer.learner import optimizer
from acer.learner.actor_learner import ActorLearner
from acer.learner.networks import faster_precision
from acer.learner.update import Batch, update
from acer.machine import keep_memory
from acer.run.training import Training
from table import write

FILE = Path("results/bench/atari_reuse.csv")
COLUMNS = ["run", "game", "precision", "steps", "return", "updates", "distinct", "distinct_10", "distinct_90",
           "dense_ms", "auto_ms", "ratio"]  # fmt: skip
UPDATES = 60


def milliseconds(learner: ActorLearner, batch: Batch) -> float:
    """One update and its push, by the processor's time."""
    agent, config = learner.agent, learner.config
    began = time.process_time()
    agent.home.gradient.zero_()
    update(agent.network, agent.average, batch, agent.method, torch.empty(0))
    _, factor = optimizer.clip_by_norm(agent.home.gradient, config.max_gradient_norm)
    agent.home.push(agent.home.gradient, 1e-9, factor)
    return 1000 * (time.process_time() - began)


def untrained(game: str, precision: str) -> ActorLearner:
    """One whose memory has 400 steps of each of 16 games that it played at random."""
    learner = Training(settings(precision, game, threads=1)).learner
    for _ in range(20):
        trajectory, _ = learner.rollout.collect(learner._act)
        learner.replay.add(trajectory)
        learner.agent.observe(trajectory)
    return learner


def trained(run: str) -> ActorLearner:
    model = ACER.load(run, resume=True)
    model.close()
    return model._training.learner


def row(which: str, precision: str) -> list[object]:
    torch.set_num_threads(1)
    keep_memory()
    learner = untrained(which, precision) if which in GAMES else trained(which)
    learners = {}
    for way in ("never", "auto"):
        own = Training(dataclasses.replace(learner.config, reuse=way, precision=precision, threads=1)).learner
        for name in ("theta", "theta_a", "square"):
            getattr(own.agent.home, name).copy_(getattr(learner.agent.home, name))
        own.agent.home.moments = learner.agent.home.moments
        own.agent.use_moments()
        learners[way] = own
    replay, rng = learner.replay, np.random.default_rng(0)
    times: dict[str, list[float]] = {way: [] for way in learners}
    shares = []
    for number in range(UPDATES + 3):  # the first ones compile and take memory
        drawn = replay.sample(rng, learner.config.trajectories_per_update)
        for way, own in learners.items():
            took = milliseconds(own, own._batch(drawn))
            if number >= 3:
                times[way].append(took)
        shares.append(learners["auto"].agent.network.encoder.distinct)
    config = learner.config
    score = ""
    if which not in GAMES:
        with (Path(which) / "progress.csv").open(newline="") as file:
            score = list(csv.DictReader(file))[-1]["return_mean"]
    ratio = statistics.median(a / b for a, b in zip(times["never"], times["auto"], strict=True))
    tenths = statistics.quantiles(shares[3:], n=10)
    numbers = [statistics.fmean(shares[3:]), tenths[0], tenths[-1], *(statistics.median(times[w]) for w in learners)]
    return [which, config.env, precision, learner.steps, score, UPDATES,
            *(round(number, 3) for number in numbers), round(ratio, 3)]  # fmt: skip


def main() -> None:
    found = {}
    if FILE.exists():
        with FILE.open(newline="") as file:
            found = {(old[0], old[2]): old for old in list(csv.reader(file))[1:]}
    for which in sys.argv[1:]:
        for precision in dict.fromkeys((faster_precision(torch.device("cpu")), "float32")):
            found[which, precision] = row(which, precision)
            print(*found[which, precision], sep="\t", flush=True)
            write(FILE, COLUMNS, found.values())


if __name__ == "__main__":
    main()
