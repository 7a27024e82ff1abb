"""PFRL's ACER on CartPole: run by `acer bench classic` with the interpreter of an environment that has PFRL, not
imported.

Takes a JSON object of settings as its argument and prints one number, environment steps per second after the warm-up.
PFRL steps one environment per process; it gets one process per core.
"""

import itertools
import json
import logging
import multiprocessing
import sys
import tempfile
import time

import gymnasium
import pfrl
import torch
from pfrl.agents.acer import ACERDiscreteActionHead
from torch import nn


class OldStep:
    """Gymnasium's CartPole behind the four-valued `step` that PFRL expects."""

    def __init__(self, seed):
        self.env = gymnasium.make("CartPole-v1")
        self.seed = seed
        self.observation_space, self.action_space, self.spec = (
            self.env.observation_space, self.env.action_space, self.env.spec)  # fmt: skip

    def reset(self):
        seed, self.seed = self.seed, None
        return self.env.reset(seed=seed)[0]

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(int(action))
        return observation, reward, terminated or truncated, info

    def close(self):
        self.env.close()


def main():
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    pfrl.utils.set_random_seed(settings["seed"])

    sizes = [4, *settings["hidden"]]
    activation = {"relu": nn.ReLU, "tanh": nn.Tanh}[settings["activation"]]

    def layers():
        return [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), activation())]

    def policy(*before):
        return nn.Sequential(*before, nn.Linear(sizes[-1], 2), pfrl.policies.SoftmaxCategoricalHead())

    def values(*before):
        return nn.Sequential(*before, nn.Linear(sizes[-1], 2), pfrl.q_functions.DiscreteActionValueHead())

    if settings["shared_torso"]:
        model = nn.Sequential(*layers(), ACERDiscreteActionHead(policy(), values()))
    else:
        model = ACERDiscreteActionHead(policy(*layers()), values(*layers()))
    agent = pfrl.agents.ACER(
        model,
        pfrl.optimizers.SharedRMSpropEpsInsideSqrt(
            model.parameters(), lr=settings["learning_rate"], eps=settings["rmsprop_epsilon"], alpha=0.99
        ),
        t_max=settings["trajectory_length"],
        gamma=settings["gamma"],
        replay_buffer=pfrl.replay_buffers.EpisodicReplayBuffer(settings["replay_capacity"]),
        n_times_replay=int(settings["replay_ratio"]),
        replay_start_size=settings["replay_start"],
        beta=settings["entropy_weight"],
        trust_region_delta=settings["delta"],
        trust_region_alpha=settings["alpha"],
        truncation_threshold=settings["truncation"],
        max_grad_norm=settings["max_gradient_norm"],
        phi=lambda x: x.astype("float32"),
    )

    began = multiprocessing.Value("d", 0.0)
    at = multiprocessing.Value("l", 0)

    def mark(env, agent, step):
        if step >= settings["warmup"] and not began.value:
            began.value, at.value = time.perf_counter(), step

    with tempfile.TemporaryDirectory() as directory:
        pfrl.experiments.train_agent_async(
            outdir=directory,
            processes=settings["processes"],
            make_env=lambda index, test: OldStep(settings["seed"] * 1000 + index),
            steps=settings["steps"],
            eval_n_steps=None,
            eval_n_episodes=1,
            eval_interval=settings["steps"] * 10,
            agent=agent,
            random_seeds=list(
                range(settings["processes"])
            ),  # its own default is NumPy integers, which `random` refuses
            global_step_hooks=[mark],
            profile=False,
        )
    print((settings["steps"] - at.value) / (time.perf_counter() - began.value))


if __name__ == "__main__":
    main()
