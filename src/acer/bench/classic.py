"""CartPole at replay ratio 4: this package, PFRL's ACER, and the roofline."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from acer import optimizer
from acer.bench.measure import alternate, medians, peer_python, seconds
from acer.config import Config, defaults
from acer.envs import make_batch
from acer.errors import AcerError
from acer.training import Training, cores

PFRL = ("torch==2.13.0", "pfrl==0.4.0", "gymnasium==1.4.0", "numpy==2.4.6", "packaging")
WARM_UP, MEASURED = 4_000, 30_000  # steps of this package in each turn
PFRL_WARM_UP, PFRL_MEASURED = 1_500, 3_000  # past its first finished episodes, or its replay ratio would be 0


def classic(turns: int, peers: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Steps per second of training on CartPole-v1 with the classic preset."""
    config = defaults("CartPole-v1", continuous=False, replay_ratio=4.0, replay_start=1_000)
    contenders: dict[str, Callable[[], float]] = {
        "acer": lambda: train(config),
        "roofline": lambda: roofline(config),
    }
    if peers:
        python = peer_python("pfrl", PFRL, say)
        contenders["pfrl"] = lambda: pfrl(python, config)
    results = alternate(contenders, turns, say)
    middle = medians(results)
    return {
        "benchmark": "classic",
        "steps_per_second": middle["acer"],
        "roofline_steps_per_second": middle["roofline"],
        "roofline_fraction": middle["acer"] / middle["roofline"],
        "peers": {"pfrl": middle["pfrl"]} if peers else {},
        "turns": results,
        "cores": cores(),
        "settings": asdict(config),
    }


def train(config: Config) -> float:
    """Environment steps per second of Algorithm 1, after the warm-up."""
    training = Training(config)
    learner = training.learner
    while learner.steps < WARM_UP:
        learner.iterate()
    before = learner.steps
    elapsed = 0.0
    while learner.steps - before < MEASURED:
        elapsed += seconds(learner.iterate, 1)
    training.close()
    return (learner.steps - before) / elapsed


def roofline(config: Config) -> float:
    """The same work, bare: environment steps, acting forwards, forwards and backwards of the updates, RMSProp.

    No returns, no gradients' mathematics, no replay, no bookkeeping; same network, batch sizes and threads.
    """
    training = Training(config)
    agent, env = training.agent, make_batch(config.env, config.environments)
    count, length = config.trajectories_per_update, config.trajectory_length
    observations = torch.randn(length + 1, count, *agent.observation.shape)
    acting = observations[0].repeat(config.environments // count, *[1] * len(agent.observation.shape))
    actions = np.zeros(env.count, np.int64)
    env.reset(list(range(env.count)))

    def act() -> None:
        with torch.no_grad():
            agent.network.policy(acting)

    def learn() -> None:
        output, features = agent.network(observations)
        q = agent.network.action_values(features)
        with torch.no_grad():
            agent.average(observations[:-1])
        torch.autograd.backward([output, q], [torch.ones_like(output), torch.ones_like(q)])
        optimizer.rmsprop(agent.home.theta, agent.home.square, agent.home.gradient, 1e-6, 0.99, 1e-3)
        optimizer.average(agent.home.theta_a, agent.home.theta[: len(agent.home.theta_a)], 0.99)

    iterations = 20
    updates = (1 + config.replay_ratio) * config.environments / count
    cost = (
        length * seconds(act, iterations * length)
        + length * seconds(lambda: env.env.step(actions), iterations * length)
        + updates * seconds(learn, int(iterations * updates))
    )
    env.close()
    training.close()
    return config.environments * length / cost


def pfrl(python: Path, config: Config) -> float:
    """Environment steps per second of PFRL's ACER, with as many processes as there are cores."""
    settings = {
        **asdict(config),
        "warmup": PFRL_WARM_UP,
        "steps": PFRL_WARM_UP + PFRL_MEASURED,
        "processes": cores(),
        "replay_start": 500,
    }
    script = Path(__file__).with_name("pfrl_classic.py")
    run = subprocess.run(
        [str(python), "-W", "ignore", str(script), json.dumps(settings)], capture_output=True, text=True, check=False
    )
    try:
        return float(run.stdout.split()[-1])
    except (IndexError, ValueError):
        lines = run.stderr.strip().splitlines() or ["no message"]
        raise AcerError(f"PFRL's ACER failed: {lines[-1]}; --no-peers measures without it") from None
