"""The actor-learner: Algorithm 1. It acts, remembers, replays and computes gradients, wherever the parameters live."""

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acer import config as configuration
from acer.config import Config
from acer.envs import ActionSpec, EnvBatch, ObservationSpec, make_batch
from acer.envs.others import EnvMaker
from acer.errors import LearningFault, SettingsError
from acer.learner import algorithms, optimizer
from acer.learner.metrics import METRICS
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments, RunningSize
from acer.learner.parameters import Constants, Home, SlowCopy
from acer.learner.replay import Replay
from acer.learner.rollout import Masks, Rollout, Trajectory
from acer.learner.update import Batch, Outcome, diagnose, diagnostics, update

Arrays = dict[str, NDArray[Any]]
HomeMaker = Callable[[Network, Policy, Constants, Moments | None], Home]


class Agent:
    """A policy that can act: network, average network and what they need to read observations."""

    home: Home

    def __init__(
        self,
        config: Config,
        observation: ObservationSpec,
        action: ActionSpec,
        seed: int,
        make_home: HomeMaker,
    ) -> None:
        self.config, self.observation, self.action = config, observation, action
        self.distribution = algorithms.distribution(config, action)
        self.method = algorithms.method(config, self.distribution)
        self.architecture = algorithms.architecture(config, observation, self.distribution)
        self.device = find_device(config.device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.network = Network(self.architecture).to(self.device)
            self.average = Policy(self.architecture).to(self.device)
        constants = Constants(
            config.alpha, config.rmsprop_decay, config.rmsprop_epsilon,
            one_pass=self.architecture.reuse != "never", policy_rate=config.policy_rate,
        )  # fmt: skip
        moments = Moments(observation.shape, pooled=observation.is_pixels) if config.normalize_observations else None
        self.home = make_home(self.network, self.average, constants, moments)
        self.use_moments()

    @property
    def moments(self) -> Moments | None:
        """The running normalisation of observations, if there is one."""
        return self.home.moments

    def memory(self, count: int) -> NDArray[np.float32]:
        """What the policy remembers of `count` environments when episodes begin: nothing [count, n]; n may be 0."""
        return np.zeros((count, self.architecture.memory), np.float32)

    def act(
        self,
        x: NDArray[Any],
        noise: Tensor | None,
        masks: Masks | None = None,
        memory: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """What the environments get for observations [B, …], and the statistics: sampled with `noise`, or the mode
        without it. masks: which choices are legal [B, n]; no other is taken. memory: what a recurrent policy remembers
        [B, n], which moves on; with the critic's, if there is more than the policy's. Without it, episodes begin."""
        actions, phi = self.choose(x, noise, masks, memory)
        return self.distribution.applied(actions), phi

    @torch.no_grad()
    def choose(
        self,
        x: NDArray[Any],
        noise: Tensor | None,
        masks: Masks | None = None,
        memory: NDArray[np.float32] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """The same with actions as a trajectory stores them."""
        policy = self.average if self.config.act_with == "average" else self.network.policy
        encoded = self.network.encoder(torch.from_numpy(x).to(self.device))
        if self.architecture.memory:
            memory = self.memory(len(x)) if memory is None else memory
            output, after = self.network.act(encoded, torch.from_numpy(memory).to(self.device), policy)
            memory[:] = after.cpu().numpy()
        else:
            output, _ = policy(encoded)
        legal = None if masks is None else torch.from_numpy(masks).to(self.device)
        phi = self.distribution.statistics(output, legal)
        actions = self.distribution.mode(phi) if noise is None else self.distribution.sample(phi, noise.to(self.device))
        return actions.cpu().numpy(), phi.cpu().numpy()

    def observe(self, trajectory: Trajectory) -> None:
        """Takes new observations into the running normalisation; of pixels, which are many, every fifth step's."""
        if self.moments is not None:
            every = 5 if self.architecture.pixels else 1
            self.home.observe(trajectory.observations[:-1:every][trajectory.live[::every]])
            self.use_moments()

    def use_moments(self) -> None:
        """Hands the running normalisation to the network, once it has seen something."""
        if self.moments is not None and self.moments.count:
            mean, deviation = (
                torch.from_numpy(values).float() for values in (self.moments.mean, self.moments.deviation)
            )
            self.network.encoder.set_statistics(mean, deviation)


def environments(config: Config, env: str | EnvMaker, count: int | None = None) -> EnvBatch:
    """A batch of the run's environments: as many as step together, or `count`."""
    options = configuration.environment_options(config)
    count = count or config.environments
    batch = make_batch(env, count, config.workers, configuration.threads_of(config), **options)
    batch.limit = config.step_limit
    return batch


def use_threads(config: Config, observation: ObservationSpec) -> None:
    """Sets PyTorch's threads for the process. Small networks are slower with more: handing work over costs more."""
    large = algorithms.is_large(config, observation)
    torch.set_num_threads(configuration.threads_of(config) if large else config.threads or 1)


@contextlib.contextmanager
def half_the_threads() -> Iterator[None]:
    """Acting on a few observations gains little from many threads, and idle ones are in the way of the simulators'."""
    threads = torch.get_num_threads()
    torch.set_num_threads(max(1, threads // 2))
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def find_device(name: str) -> torch.device:
    """The device, if there is such a one here."""
    try:
        torch.zeros(1, device=name).tolist()
        return torch.device(name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise SettingsError(f"--device {name} cannot be used here ({reason}); use --device cpu") from None


@dataclass(frozen=True)
class Report:
    """What one iteration of Algorithm 1 did."""

    steps: int  # live environment steps
    total: int  # T after it, the steps of all actor-learners
    updates: int
    skipped: int  # updates of all actor-learners left out so far because their gradient was not finite
    replays: int  # Poisson draw, or its mean over the environments
    episodes: list[tuple[float, int]]  # return and length of each that ended
    diagnostics: dict[str, float]  # means over the updates that were measured


class Summary:
    """Diagnostics of several updates as one: each metric over those that have it, as its declaration says."""

    def __init__(self, state: dict[str, list[float]] | None = None) -> None:
        self._totals = {str(key): (float(total), int(count)) for key, (total, count) in (state or {}).items()}

    def add(self, numbers: dict[str, float]) -> None:
        for key, value in numbers.items():
            total, count = self._totals.get(key, (0.0, 0))
            self._totals[key] = max(total, value) if METRICS[key].over == "largest" else total + value, count + 1

    def values(self) -> dict[str, float]:
        return {
            key: total if METRICS[key].over == "largest" else total / count
            for key, (total, count) in self._totals.items()
        }

    def state(self) -> dict[str, list[float]]:
        return {key: [total, count] for key, (total, count) in self._totals.items()}


@dataclass(frozen=True)
class ActorState:
    """What an actor-learner has beside the parameters."""

    run: Arrays  # where its environments stand
    replay: Arrays
    blocks: list[bytes]  # the replay memory's compressed observations; read from a file, all are one
    streams: dict[str, Any]  # states of its random generators


class ActorLearner:
    """One batch of environments, its replay memory, and the agent that learns from both."""

    def __init__(self, agent: Agent, env: EnvBatch, seeds: np.random.SeedSequence) -> None:
        config = agent.config
        self.agent = agent
        self.updates = 0
        env_seeds, acting, replaying, learning = seeds.spawn(4)
        self.rngs = {"act": np.random.default_rng(acting), "replay": np.random.default_rng(replaying),
                     "learn": np.random.default_rng(learning)}  # fmt: skip
        self._env_seeds = env_seeds
        first = [int(seed) for seed in env_seeds.generate_state(env.count) >> 1]
        f, remembers = agent.distribution, agent.network.remembers
        self.rollout = Rollout(env, config.trajectory_length, config.gamma, first, f.applied, remembers)
        self.replay = Replay(config.replay_capacity, config.trajectory_length, env.count)
        self.replay_start = config.replay_start / configuration.team_size(config)
        self.unit = RunningSize()  # of δ: the size of the critic's errors, or 1 as long as none are added
        self.slow = SlowCopy(agent.network, config.target_rate) if config.target_rate else None
        self._skipped_in_a_row = 0  # updates whose gradient was not finite
        self.on_update: Callable[[dict[str, float]], None] | None = None

    def layout(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        """Shape and dtype of one environment's part of each of a trajectory's fields."""
        agent, length = self.agent, self.config.trajectory_length
        single, flag = np.dtype(np.float32), np.dtype(np.bool_)
        layout: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
            "observations": ((length + 1, *agent.observation.shape), agent.observation.dtype),
            "actions": ((length, *agent.action.shape), agent.action.dtype),
            "rewards": ((length,), single),
            "discounts": ((length,), single),
            "live": ((length,), flag),
            "mu": ((length, agent.distribution.outputs), single),
        }
        if self.rollout.env.masked:
            layout["masks"] = ((length + 1, agent.distribution.outputs), flag)
        if agent.network.remembers:
            layout["memory"] = ((1, agent.network.remembers), single)
        return layout

    @property
    def config(self) -> Config:
        """The run's settings; their number of steps may grow."""
        return self.agent.config

    @property
    def steps(self) -> int:
        """T, the steps of all actor-learners."""
        return self.agent.home.steps

    def state(self) -> ActorState:
        """A copy of what this actor-learner has beside the parameters."""
        replay, blocks = self.replay.state()
        run = {name: array.copy() for name, array in self.rollout.state().items()} | {"unit": self.unit.state()}
        if self.slow:
            run["slow"] = self.slow.state()
        return ActorState(run, replay, blocks, {name: rng.bit_generator.state for name, rng in self.rngs.items()})

    def restore(self, part: ActorState) -> int:
        """Goes on where `state` was taken; how many unfinished episodes could not be taken up.

        Those begin anew, and if none could, on seeds that the run has not had.
        """
        for name, rng in self.rngs.items():
            rng.bit_generator.state = part.streams[name]
        self.replay.restore(part.replay, b"".join(part.blocks), self.layout())
        self.unit.restore(part.run["unit"])
        if self.slow:
            self.slow.restore(part.run["slow"])
        others = self.rollout.restore(part.run)
        if len(others) == self.rollout.env.count:
            root = self._env_seeds
            seeds = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, self.steps))
            self.rollout.seeds = [int(seed) for seed in seeds.generate_state(len(others)) >> 1]
            self.rollout.restart()
        return len(others)

    def iterate(self) -> Report:
        """Algorithm 1: one on-policy call, then Poisson(r) replays."""
        config, home = self.config, self.agent.home
        home.pull()
        # The outermost autocast, though switched off, keeps what the torso casts of θ' until the trajectory is done.
        with torch.autocast(self.agent.device.type, enabled=False), half_the_threads():
            trajectory, episodes = self.rollout.collect(self._act)
        if config.replay_ratio > 0:
            self.replay.add(trajectory)
        steps = int(trajectory.live.sum())
        home.count(steps)

        updates = self.updates
        seen = Summary()
        if config.on_policy:
            self._learn(trajectory, seen, on_policy=True)
        self.agent.observe(trajectory)  # after it: on-policy, the networks see what the actor saw
        replays = 0.0
        if config.replay_ratio > 0 and len(self.replay) * config.trajectory_length >= self.replay_start:
            for replayed in self._replayed():
                self._learn(replayed, seen)
                replays += replayed.live.shape[1] / config.environments
        done = self.updates - updates
        return Report(steps, home.steps, done, home.skipped, round(replays), episodes, seen.values())

    def _replayed(self) -> Iterator[Trajectory]:
        """What this iteration replays: one draw of trajectories from all environments, or each environment by itself,
        those that have drawn a replay more side by side."""
        config, rng = self.config, self.rngs["replay"]
        if config.replay_per_environment:
            draws = rng.poisson(config.replay_ratio, config.environments)
            for past in range(draws.max()):
                yield self.replay.sample_each(rng, np.flatnonzero(draws > past))
        else:
            for _ in range(self.draw_replays()):
                yield self.replay.sample(rng, max(config.environments, config.trajectories_per_update))

    def draw_replays(self) -> int:
        """How often this iteration replays: less often where a replay has more trajectories than the iteration."""
        share = min(1.0, self.config.environments / self.config.trajectories_per_update)
        return int(self.rngs["replay"].poisson(self.config.replay_ratio * share))

    def _act(self, x: NDArray[Any], masks: Masks | None) -> tuple[NDArray[Any], NDArray[np.float32]]:
        noise = self.agent.distribution.noise(self.rngs["act"], (len(x),))
        return self.agent.choose(x, noise, masks, self.rollout.memory)

    def _learn(self, trajectory: Trajectory, seen: Summary, on_policy: bool = False) -> None:
        """One call of Algorithm 2 or 3 on B trajectories, a few at a time.

        Adds diagnostics of the call's first update, or of every one if somebody asked to see them. On-policy, the first
        is made with the θ' that acted: ρ is 1 but for rounding, and `rho_error` is the largest |ρ − 1|.
        """
        config, agent, home = self.config, self.agent, self.agent.home
        updates = self._computed(self._batch(trajectory), on_policy)
        if not agent.method.off_policy:  # all are made with the θ' that acted, before the first of them moves θ
            updates = iter([(outcome, gradient.clone()) for outcome, gradient in updates])
        for number, (outcome, gradient) in enumerate(updates):
            norm, factor = optimizer.clip_by_norm(gradient, config.max_gradient_norm)
            self.updates += 1
            if math.isfinite(norm):
                home.push(gradient, learning_rate(config, self.steps), factor)
                if self.slow:
                    self.slow.follow()
                if "errors" in (config.delta_unit if config.trust_region == "projection" else "", config.entropy_unit):
                    error = float(outcome.mean_square(outcome.estimate.errors))
                    self.unit.add(agent.distribution.dimensions * error)
                self._skipped_in_a_row = 0
            else:
                home.skip()
                self._skipped_in_a_row += 1
                if self._skipped_in_a_row >= config.most_skipped:
                    raise LearningFault(
                        f"{config.most_skipped} updates in a row had gradients that are not finite, at step "
                        f"{self.steps:,}: {diagnose(agent.network, gradient, outcome)}"
                    )
            if self._measures(number):
                measured = diagnostics(agent.method, outcome)
                numbers = dict(zip(measured, torch.stack(list(measured.values())).tolist(), strict=True))
                numbers |= {"grad_norm": norm, "staleness": float(home.staleness)}
                if agent.network.encoder.distinct is not None:
                    numbers["distinct"] = agent.network.encoder.distinct
                if on_policy and number == 0 and config.act_with == "live":
                    numbers["rho_error"] = float(((outcome.log_rho.exp() - 1) * outcome.batch.live).abs().max())
                seen.add(numbers)
                if self.on_update:
                    self.on_update(numbers)

    def _computed(self, whole: Batch, on_policy: bool) -> Iterator[tuple[Outcome, Tensor]]:
        """What each update of a call saw, and its gradient, which is good until the next one; with the newest
        parameters there are, but for the first of an on-policy call."""
        config, agent, home = self.config, self.agent, self.agent.home
        count = config.trajectories_per_update
        for number, start in enumerate(range(0, whole.live.shape[1], count)):
            batch = whole.select(slice(start, start + count))
            together = batch.live.shape[1]
            noise = agent.method.noise(self.rngs["learn"], config.trajectory_length, together).to(agent.device)
            if agent.method.off_policy and (start or not on_policy):
                home.pull()
            home.gradient.zero_()
            average = agent.average if config.trust_region != "none" or self._measures(number) else None
            slow = self.slow.network if self.slow else None
            burn_in = 0 if on_policy else config.burn_in  # on-policy, memories are those of the θ' that acted
            unit = self.unit.value
            yield update(agent.network, average, batch, agent.method, noise, unit, slow, burn_in), home.gradient

    def _measures(self, number: int) -> bool:
        """Whether diagnostics of a call's update are made: of its first, or of every one if somebody asked for them."""
        return number == 0 or self.on_update is not None

    def _batch(self, trajectory: Trajectory) -> Batch:
        """Tensors on the learner's device, with rewards as the learner sees them."""
        arrays = {name: value for name, value in vars(trajectory).items() if value is not None}
        tensors = {name: torch.from_numpy(value).to(self.agent.device) for name, value in arrays.items()}
        if self.config.clip_rewards:
            tensors["rewards"] = tensors["rewards"].clamp(-1, 1)
        tensors["rewards"] = tensors["rewards"] * self.config.reward_scale
        return Batch(**tensors)


def learning_rate(config: Config, steps: int) -> float:
    """The learning rate after `steps` steps of all actor-learners."""
    left = max(0.0, 1 - steps / config.steps) if config.learning_rate_decay == "linear" else 1.0
    return config.learning_rate * left
