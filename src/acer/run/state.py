"""What a run has at any moment: its agent, its counters, and where its actor-learners stand. The loop is `training`."""

import dataclasses
import math
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from acer import config as configuration
from acer.config import Config
from acer.console import warn
from acer.envs import EnvBatch, ObservationSpec, spaces_of
from acer.envs.others import EnvMaker
from acer.errors import CheckpointError, LearningFault, SettingsError
from acer.homes.kinds import HOMES, Kind, Start
from acer.homes.local import Local
from acer.homes.supervisor import Workers, warn_of_new_episodes
from acer.learner import algorithms
from acer.learner.actor_learner import (
    ActorLearner,
    ActorState,
    Agent,
    environments,
    find_device,
    learning_rate,
    use_threads,
)
from acer.learner.networks import faster_precision
from acer.machine import keep_memory
from acer.run import bits, saved
from acer.run.checkpoint import Checkpoint, Snapshot
from acer.run.contents import check_actor
from acer.run.evaluation import Evaluation, evaluate
from acer.run.logs import Meter
from acer.run.saved import Progress


class RunState:
    """A run without its loop and its files."""

    def __init__(self, config: Config, env: str | EnvMaker | None = None, loaded: Checkpoint | None = None) -> None:
        """loaded: a checkpoint that is going to be loaded; it must fit before memory is taken for the networks."""
        self.env_source: str | EnvMaker = env or config.env
        self._threads = config.threads
        observation, action = spaces_of(self.env_source, **configuration.environment_options(config))
        use_threads(config, observation)  # first of all: how many there are decides how numbers round
        self.config = config = _decided(config, observation)
        with saved.layers_fit():
            if loaded is not None:
                saved.check_fits(loaded, config, observation, action)
            else:
                saved.check_layers(config, observation, action)
        init, self.learner_seeds, self._evaluation_seeds = np.random.SeedSequence(config.seed).spawn(3)
        make_home = partial(Local, start=config.rmsprop_start)
        with saved.layers_fit():
            self.agent = Agent(config, observation, action, int(init.generate_state(1)[0]), make_home)
        keep_memory()
        self.meter = Meter()
        self.progress = Progress()
        self.actors: list[ActorState | None] = []  # where workers that have stopped, or were saved, stood
        self.before = 0  # steps of the run from which the model was taken
        self._evaluation_env: EnvBatch | None = None

    @property
    def asked(self) -> Config:
        """The settings without the number of threads that a checkpoint brought back: another machine may have fewer."""
        return dataclasses.replace(self.config, threads=self._threads)

    @property
    def kind(self) -> Kind:
        """What there is to know of the parameters' home."""
        return HOMES[self.config.home]

    @property
    def home(self) -> Local:
        """θ, θ_a and the optimiser's statistics in this process: their home, or a copy that is fetched."""
        assert isinstance(self.agent.home, Local)
        return self.agent.home

    def start(self, again: bool) -> Start:
        """What workers begin with. again: the parameters were lost elsewhere."""
        return Start(self.config, self.env_source, self.home, self.learner_seeds, lambda: self.learner, again)

    @cached_property
    def learner(self) -> ActorLearner:
        """The actor-learner of this process with its batch of environments, made when there is something to learn."""
        return ActorLearner(self.agent, environments(self.config, self.env_source), self.learner_seeds)

    @property
    def steps(self) -> int:
        """Environment steps done, by all actor-learners."""
        return self.home.steps

    @property
    def trained(self) -> int:
        """Steps that the model has learnt from, also in the run from which it was taken."""
        return self.before + self.steps

    def set_config(self, config: Config) -> None:
        """Another number of steps for the same run."""
        self.config = self.agent.config = config

    def row(self, final: bool = False) -> dict[str, Any]:
        """The next row of progress.csv."""
        progress = self.progress
        return {
            "steps": self.steps,
            "seconds": progress.seconds,
            **self.meter.row(progress.seconds - progress.row_seconds, final),
            "learning_rate": learning_rate(self.config, self.steps),
            "skipped_updates": self.home.skipped,
        }

    def evaluate(
        self,
        episodes: int,
        deterministic: bool = True,
        seeds: np.random.SeedSequence | None = None,
        interrupted: Callable[[], bool] = lambda: False,
    ) -> Evaluation:
        """Plays in environments of its own; without seeds, on new ones each time."""
        if episodes < 1:
            raise SettingsError(f"an evaluation needs at least one episode, not {episodes}")
        config = self.config
        count = min(episodes, config.environments * configuration.team_size(config))
        if self._evaluation_env is None or self._evaluation_env.count != count:
            if self._evaluation_env is not None:
                self._evaluation_env.close()
            self._evaluation_env = environments(config, self.env_source, count)
        if seeds is None:
            root = self._evaluation_seeds
            seeds = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, self.progress.evaluations))
            self.progress.evaluations += 1
        return evaluate(
            self.agent, self._evaluation_env, episodes, seeds, deterministic, config.eval_limit, interrupted
        )

    def masked(self) -> bool:
        """Whether the environment says which choices are legal."""
        made = self._environments()
        env = made[0] if made else environments(self.config, self.env_source, 1)
        if not made:
            env.close()
        return env.masked

    def busy_since(self) -> float:
        """When the step of an environment of this process began that is being waited for; infinite if there is none."""
        return min((env.busy_since for env in self._environments()), default=math.inf)

    def give_up_episodes(self) -> None:
        """The environments of this process are not to be asked any more."""
        for env in self._environments():
            env.broken = True

    def _environments(self) -> list[EnvBatch]:
        own = [self.learner.rollout.env] if "learner" in vars(self) else []
        return own if self._evaluation_env is None else [*own, self._evaluation_env]

    def close(self) -> None:
        """Ends the environments."""
        for env in self._environments():
            env.close()

    # ------------------------------------------------------------------ saving and loading

    def tensors(self) -> dict[str, Tensor]:
        """θ, θ_a and the mean of squares, by parameter; views, not copies."""
        return saved.tensors(self.agent, self.home)

    def describe(self) -> dict[str, Any]:
        """Everything that is neither tensor nor replay, for JSON."""
        return saved.describe(self.asked, self.agent, self.home, self.progress, self.meter)

    def check_finite(self) -> None:
        """Refuses to save parameters that are not finite."""
        if not torch.isfinite(self.home.theta).all():
            raise LearningFault(
                f"the parameters are not finite at step {self.steps:,}: not saved; the last checkpoint is good"
            )

    def snapshot(self, workers: Workers | None) -> Snapshot:
        """The whole run at this moment, copied."""
        actors = self.actors
        if workers is not None:
            actors = workers.states()
        elif "learner" in vars(self):
            actors = [self.learner.state()]
        tensors = {name: tensor.clone() for name, tensor in self.tensors().items()}
        return Snapshot(tensors, self.describe(), actors)

    def load(self, loaded: Checkpoint) -> None:
        """Takes over the whole run: learner, counters, replay memory, unfinished episodes."""
        self.load_model(loaded)
        others, other_bits = 0, ""
        try:
            self.set_config(bits.with_threads_of(loaded.state, self.config, self.agent.observation))
            use_threads(self.config, self.agent.observation)
            other_bits = bits.difference(loaded.state)
            self.progress = saved.restore(loaded.state, self.home, self.meter)
            files = loaded.actors(configuration.team_size(self.config))
            self.actors = [None if actor is None else ActorState(*actor) for actor in files]
            for one in self.actors:
                if one is not None:
                    check_actor(one, self.agent, self.config)
            if self.kind.in_process:
                (actor,) = self.actors
                if actor is None:
                    raise CheckpointError(f"{loaded.path} is a model without its run")
                others = self.learner.restore(actor)
                self.actors = []
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError, MemoryError) as error:
            raise CheckpointError(f"{loaded.path} is damaged: {type(error).__name__}: {error}") from None
        if other_bits:
            warn(f"{loaded.path} was saved with {other_bits}; the run goes on, and its numbers may round otherwise")
        warn_of_new_episodes(self.config, others)

    def load_model(self, loaded: Checkpoint) -> None:
        """Takes over the networks and the optimiser's statistics only."""
        saved.load_tensors(loaded, self.agent, self.home)


def _decided(config: Config, observation: ObservationSpec) -> Config:
    """The configuration with its precision and its number of actor-learners decided, so that the run keeps them
    wherever it goes on."""
    if not HOMES[config.home].in_process:
        config = dataclasses.replace(config, actors=configuration.teams(config))
    if config.precision != "auto":
        return config
    if not algorithms.has_papers_torso(config, observation):
        return dataclasses.replace(config, precision="float32")
    return dataclasses.replace(config, precision=faster_precision(find_device(config.device)))
