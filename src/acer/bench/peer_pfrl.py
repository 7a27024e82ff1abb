"""PFRL's ACER: run by `acer bench` with the interpreter of an environment that has PFRL, not imported.

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
import warnings

import gymnasium
import numpy
import pfrl
import torch
from pfrl.agents.acer import ACERDiscreteActionHead
from pfrl.utils.async_ import AbnormalExitWarning
from torch import nn


class OldStep:
    """A Gymnasium environment behind the four-valued `step` that PFRL expects."""

    def __init__(self, env, seed):
        self.env = env
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


class OneGame:
    """One emulator of ale-py's vector environment, preprocessed as ours, behind the same four-valued `step`."""

    spec = None

    def __init__(self, game, seed):
        from ale_py.vector_env import AtariVectorEnv

        self.env = AtariVectorEnv(game, 1, num_threads=1, use_fire_reset=False, reward_clipping=True)
        self.seed = seed
        self.observation_space, self.action_space = self.env.single_observation_space, self.env.single_action_space

    def reset(self):
        seed, self.seed = self.seed, None
        return self.env.reset(seed=None if seed is None else numpy.array([seed]))[0][0]

    def step(self, action):
        observations, rewards, terminated, truncated, _ = self.env.step(numpy.array([int(action)]))
        return observations[0], float(rewards[0]), bool(terminated[0] or truncated[0]), {}

    def close(self):
        self.env.close()


class CountedACER(pfrl.agents.ACER):
    """Counts, over all processes and after the warm-up, updates on new data and those on replayed data."""

    counts = multiprocessing.Value("l", 0), multiprocessing.Value("l", 0)
    counting = multiprocessing.Value("b", 0)

    def _count(self, which):
        if self.counting.value:
            with self.counts[which].get_lock():
                self.counts[which].value += 1

    def update_on_policy(self, *args, **kwargs):
        self._count(0)
        return super().update_on_policy(*args, **kwargs)

    def update_from_replay(self, *args, **kwargs):
        if self.replay_buffer is not None and len(self.replay_buffer) >= self.replay_start_size:
            self._count(1)
        return super().update_from_replay(*args, **kwargs)


def main():
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings(
        "error", category=AbnormalExitWarning
    )  # a process that died would make the others look slow
    pfrl.utils.set_random_seed(settings["seed"])

    is_game = settings["env"].islower()

    def make_env(index, test):
        seed = settings["seed"] * 1000 + index
        return OneGame(settings["env"], seed) if is_game else OldStep(gymnasium.make(settings["env"]), seed)

    one = make_env(0, test=True)
    inputs, actions = one.observation_space.shape, one.action_space.n
    one.close()
    activation = {"relu": nn.ReLU, "tanh": nn.Tanh}[settings["activation"]]
    sizes = [3136 if is_game else inputs[0], *settings["hidden"]]

    def layers():
        convolutions = [
            nn.Conv2d(4, 32, 8, 4), activation(), nn.Conv2d(32, 64, 4, 2), activation(), nn.Conv2d(64, 64, 3, 1),
            activation(), nn.Flatten(),
        ]  # fmt: skip
        linear = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), activation())]
        return convolutions * is_game + linear

    def policy(*before):
        return nn.Sequential(*before, nn.Linear(sizes[-1], actions), pfrl.policies.SoftmaxCategoricalHead())

    def values(*before):
        return nn.Sequential(*before, nn.Linear(sizes[-1], actions), pfrl.q_functions.DiscreteActionValueHead())

    if settings["shared_torso"]:
        model = nn.Sequential(*layers(), ACERDiscreteActionHead(policy(), values()))
    else:
        model = ACERDiscreteActionHead(policy(*layers()), values(*layers()))
    agent = CountedACER(
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
        phi=lambda x: x.astype("float32") / 255 if is_game else x.astype("float32"),
    )

    began, ended = multiprocessing.Value("d", 0.0), multiprocessing.Value("d", 0.0)
    at = multiprocessing.Value("l", 0)

    def mark(env, agent, step):
        now = time.perf_counter()
        if step >= settings["warmup"] and not began.value:
            began.value, at.value, agent.counting.value = now, step, 1
        ended.value = max(ended.value, now)

    with tempfile.TemporaryDirectory() as directory:
        pfrl.experiments.train_agent_async(
            outdir=directory,
            processes=settings["processes"],
            make_env=make_env,
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
    updates, replays = (counter.value for counter in agent.counts)
    if replays < 0.9 * settings["replay_ratio"] * updates:
        sys.exit(f"PFRL made {replays} replays with {updates} updates: its replay memory had nothing to replay yet")
    print((settings["steps"] - at.value) / (ended.value - began.value))


if __name__ == "__main__":
    main()
