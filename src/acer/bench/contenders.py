"""What `acer bench` compares: this package, the bare cost of the same work, and PFRL's ACER."""

import contextlib
import dataclasses
import itertools
import json
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from acer.bench.measure import at_once, meet, peer_speed, seconds
from acer.config import Config, environment_options, team_size, threads_of
from acer.envs import EnvBatch, make_batch
from acer.homes.shared import Memory, Shared
from acer.homes.supervisor import WorkerSpec, packed
from acer.learner import actor_learner, optimizer
from acer.learner.actor_learner import ActorLearner
from acer.machine import cores
from acer.run.training import Training

PFRL = ("torch==2.13.0", "pfrl==0.4.0", "gymnasium==1.4.0", "numpy==2.4.6", "packaging", "ale-py==0.12.1")


@dataclass(frozen=True)
class Pair:
    """Seconds of one iteration of Algorithm 1 and of its bare work, each by part; means over the iterations."""

    steps: int
    own: dict[str, float]
    bare: dict[str, float]
    distinct: float | None  # mean share of the convolutions' work that distinct patches needed, if it was looked for

    @property
    def speed(self) -> float:
        """Environment steps per second."""
        return self.steps / sum(self.own.values())

    @property
    def roofline(self) -> float:
        """Environment steps per second if only the bare work had to be done."""
        return self.steps / sum(self.bare.values())


def pair(config: Config, warm_up: int, iterations: int, most_seconds: float = math.inf) -> Pair:
    """Algorithm 1 beside the bare cost of the same work, an iteration of one after an iteration of the other; fewer
    where they take longer than `most_seconds`."""
    training = Training(config)
    warm(training.learner, warm_up)
    with contextlib.closing(training):
        return _in_turns(training.learner, iterations, most_seconds)


def pairs(config: Config, warm_up: int, iterations: int, most_seconds: float = math.inf) -> list[Pair]:
    """The same in every process of a run whose actor-learners share their parameters, all at once; each warms up by
    its share of the steps."""
    actors = team_size(config)
    warm_up //= actors
    memory = Memory.of(Training(config).state.home, actors)
    return at_once(_one_of_many, [(config, memory, i, warm_up, iterations, most_seconds) for i in range(actors)])


def _one_of_many(
    config: Config, memory: Memory, actor: int, warm_up: int, iterations: int, most_seconds: float
) -> Pair:
    job = WorkerSpec(config, packed(config.env), config.seed, ())
    learner = job.learner((actor,), partial(Shared, memory, actor), None)
    warm(learner, warm_up)
    with contextlib.closing(learner.rollout.env):
        return _in_turns(learner, iterations, most_seconds, meet)


def _in_turns(
    learner: ActorLearner, iterations: int, most_seconds: float, together: Callable[[], bool] = lambda: True
) -> Pair:
    """together: waits for other processes, so that all are at their own iterations or all at the bare work."""
    own, bare = Stopwatch(), Stopwatch()
    work = bare_work(learner.config)
    steps, shares = 0, []
    with contextlib.ExitStack() as patches:
        patches.callback(work.env.close)
        for part, owner, name in (
            ("acting", learner.agent, "choose"),
            ("environments", learner.rollout.env.env, "step"),
            ("learning", actor_learner, "update"),
            ("optimiser", learner.agent.home, "push"),
            ("replay memory", learner.replay, "add"),
            ("replay memory", learner.replay, "sample"),
            ("normalisation", learner.agent, "observe"),
        ):
            patches.enter_context(patch.object(owner, name, own.timed(part, getattr(owner, name))))
        total, done, began = 0.0, 0, time.perf_counter()
        while done < iterations and time.perf_counter() - began < most_seconds and together():
            at = time.perf_counter()
            report = learner.iterate()
            total += time.perf_counter() - at
            assert report.replays == round(learner.config.replay_ratio)
            steps += report.steps
            shares += [report.diagnostics["distinct"]] if "distinct" in report.diagnostics else []
            together()
            for part, (function, times) in work.parts.items():
                # As in an iteration, the torso casts its weights once for all acting.
                with torch.autocast("cpu", enabled=False) if part == "acting" else contextlib.nullcontext():
                    for _ in range(times):
                        bare.timed(part, function)()
            done += 1
    own.seconds["everything else"] = total - sum(own.seconds.values())
    return Pair(steps // done, own.mean(done), bare.mean(done), statistics.fmean(shares) if shares else None)


def train(config: Config, warm_up: int, measured: int) -> float:
    """Environment steps per second of Algorithm 1 alone, after the warm-up."""
    training = Training(config)
    learner = training.learner
    warm(learner, warm_up)
    before = learner.steps
    elapsed = 0.0
    while learner.steps - before < measured:
        elapsed += seconds(learner.iterate, 1)
    training.close()
    return (learner.steps - before) / elapsed


def warm(learner: ActorLearner, steps: int) -> None:
    """Makes some steps; from then on, each iteration has exactly `replay_ratio` replays."""
    learner.draw_replays = lambda: round(learner.config.replay_ratio)  # type: ignore[method-assign]
    while steps > 0:
        steps -= learner.iterate().steps


class Stopwatch:
    """Seconds spent in functions, by part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds[part] = self.seconds.get(part, 0.0) + time.perf_counter() - began

        return call

    def mean(self, iterations: int) -> dict[str, float]:
        return {part: of / iterations for part, of in self.seconds.items()}


@dataclass(frozen=True)
class BareWork:
    """What one iteration of Algorithm 1 cannot do without: functions by part, and how often each is called."""

    env: EnvBatch
    parts: dict[str, tuple[Callable[[], object], int]]


def bare_work(config: Config) -> BareWork:
    """Environment steps, acting forwards, forwards and backwards of the updates with conversion of the observations,
    and RMSProp. No returns, no gradients' mathematics, no average network's update, no replay, no normalisation, no
    bookkeeping; same network, precision and batch sizes, every part with all threads. Every patch of an image is
    computed, whatever the setting: a share of this speed above 1 says that work was saved."""
    training = Training(dataclasses.replace(config, reuse="never"))
    agent = training.agent
    env = make_batch(config.env, config.environments, threads=threads_of(config), **environment_options(config))
    count, length = config.trajectories_per_update, config.trajectory_length
    shape = (length + 1, config.environments, *agent.observation.shape)
    pixels = agent.observation.dtype == np.uint8
    whole = torch.randint(0, 256, shape, dtype=torch.uint8) if pixels else torch.randn(shape)
    observations, acted_on = whole[:, :count], itertools.cycle(whole)
    continuous = agent.action.continuous
    rng, size = np.random.default_rng(0), agent.action.size
    steps = (length, env.count)
    drawn = rng.uniform(-1, 1, (*steps, size)) if continuous else rng.integers(size, size=steps)
    actions = itertools.cycle([agent.action.decode(one) for one in drawn])
    samples = torch.randn(2 + config.sdn_samples, length, count, agent.action.size)  # a, a', u_1 … u_n
    env.reset(list(range(env.count)))

    def critics(features: Tensor) -> list[Tensor]:
        network = agent.network
        if not continuous:
            return [network.action_values(features)]
        return [network.state_value(features), network.advantages(features[:-1], samples)]

    def act() -> None:
        with torch.no_grad():
            agent.network.policy(agent.network.encoder(next(acted_on)))

    def learn() -> None:
        with torch.no_grad():
            x = agent.network.encoder(observations)
            agent.average(x[:-1])
        output, features = agent.network(x)
        critic = critics(features)
        torch.autograd.backward([output, *critic], [torch.ones_like(t) for t in (output, *critic)])

    def step() -> None:
        home = training.state.home
        optimizer.rmsprop(home.theta, home.square, home.gradient, 1e-6, 0.99, 1e-3)

    for work in (act, learn, step):
        seconds(work, 2)  # the first calls choose kernels and take memory
    updates = int((config.on_policy + config.replay_ratio) * config.environments / count)
    return BareWork(
        env,
        {
            "acting": (act, length),
            "environments": (lambda: env.env.step(next(actions)), length),
            "learning": (learn, updates),
            "optimiser": (step, updates),
        },
    )


def pfrl(python: Path, config: Config, warm_up: int, measured: int, replay_start: int) -> float:
    """Environment steps per second of PFRL's ACER, with as many processes as there are cores."""
    settings = {
        **asdict(config),
        "warmup": warm_up,
        "steps": warm_up + measured,
        "processes": cores(),
        "replay_start": replay_start,
    }
    return peer_speed(python, "peer_pfrl.py", [json.dumps(settings)], "PFRL's ACER")
