"""What `acer bench` compares: this package, the bare cost of the same work, and PFRL's ACER."""

import itertools
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from acer import optimizer
from acer.bench.measure import peer_speed, seconds
from acer.config import Config, environment_options, threads_of
from acer.envs import make_batch
from acer.machine import cores
from acer.training import Training

PFRL = ("torch==2.13.0", "pfrl==0.4.0", "gymnasium==1.4.0", "numpy==2.4.6", "packaging", "ale-py==0.12.1")


def train(config: Config, warm_up: int, measured: int) -> float:
    """Environment steps per second of Algorithm 1 after the warm-up, with exactly `replay_ratio` replays each time."""
    training = Training(config)
    learner = training.learner
    learner.draw_replays = lambda: round(config.replay_ratio)  # type: ignore[method-assign]
    while learner.steps < warm_up:
        learner.iterate()
    before = learner.steps
    elapsed = 0.0
    while learner.steps - before < measured:
        elapsed += seconds(learner.iterate, 1)
    training.close()
    return (learner.steps - before) / elapsed


def roofline(config: Config, iterations: int) -> float:
    """Steps per second if only the bare work had to be done."""
    return config.environments * config.trajectory_length / sum(costs(config, iterations).values())


def costs(config: Config, iterations: int) -> dict[str, float]:
    """Seconds of the bare work of one iteration of Algorithm 1, by part.

    Environment steps, acting forwards, forwards and backwards of the updates with conversion of the observations,
    RMSProp and the average network. No returns, no gradients' mathematics, no replay, no bookkeeping; same network,
    precision, batch sizes and threads.
    """
    training = Training(config)
    agent = training.agent
    env = make_batch(config.env, config.environments, threads=threads_of(config), **environment_options(config))
    count, length = config.trajectories_per_update, config.trajectory_length
    shape = (length + 1, config.environments, *agent.observation.shape)
    pixels = agent.observation.dtype == np.uint8
    whole = torch.randint(0, 256, shape, dtype=torch.uint8) if pixels else torch.randn(shape)
    observations = whole[:, :count]
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
            agent.network.policy(agent.network.encoder(whole[0]))

    def learn() -> None:
        with torch.no_grad():
            x = agent.network.encoder(observations)
            agent.average(x[:-1])
        output, features = agent.network(x)
        critic = critics(features)
        torch.autograd.backward([output, *critic], [torch.ones_like(t) for t in (output, *critic)])

    def step() -> None:
        home = training.home
        optimizer.rmsprop(home.theta, home.square, home.gradient, 1e-6, 0.99, 1e-3)
        optimizer.average(home.theta_a, home.theta[: len(home.theta_a)], 0.99)

    updates = (config.on_policy + config.replay_ratio) * config.environments / count
    for work in (act, learn, step):
        seconds(work, 2)  # the first calls choose kernels and take memory
    found = {
        "acting": length * seconds(act, iterations * length),
        "environments": length * seconds(lambda: env.env.step(next(actions)), iterations * length),
        "learning": updates * seconds(learn, int(iterations * updates)),
        "optimiser": updates * seconds(step, int(iterations * updates)),
    }
    env.close()
    training.close()
    return found


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
