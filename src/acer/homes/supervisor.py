"""Workers: the actor-learners of a run, and what happens when one of them dies.

A run asks its workers for reports, for the state of each actor-learner, and to stop. It does not know which workers it
has: `local.InProcess`, `shared.WorkerProcesses` or `ray.RayWorkers`.
"""

import math
import pickle
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import cloudpickle
import numpy as np

from acer import config as configuration
from acer.config import Config
from acer.console import say, warn
from acer.envs.others import EnvMaker
from acer.errors import (
    AcerError,
    CheckpointError,
    EnvironmentFault,
    LearningFault,
    SettingsError,
    described,
    in_one_line,
)
from acer.learner.actor_learner import ActorLearner, ActorState, Agent, HomeMaker, Report, environments, use_threads
from acer.machine import free_memory

PATIENCE = 60.0  # seconds that an actor-learner has to come to its trajectory's end when asked to
CLOSING = 5.0  # seconds that it then has to close its environments
LONGEST_PAUSE = 30.0  # seconds before a new start
PROCESS_BYTES = 120 << 20  # of one actor-learner's process beside what all share, measured with CartPole-v1


class Workers(Protocol):
    """What a run asks of its actor-learners."""

    members: Sequence["WorkerStatus"]  # for the progress display; none if there is nothing to tell apart

    @property
    def note(self) -> str:
        """What else the display is to say of them."""

    def start(self, states: Sequence[ActorState | None]) -> None:
        """Sets them to work, each with what it held when the run was saved."""

    def wait(self) -> list[Report]:
        """What they have done since the last call; waits a little for something. Raises what ends the run."""

    def fetch(self) -> None:
        """Brings the parameters from their home into this process."""

    def states(self) -> list[ActorState | None]:
        """What each holds beside the parameters; None for one that is dead."""

    def stop(self) -> list[Report]:
        """Ends them after the trajectories that they are at, and gives their last reports."""

    def kill(self) -> None:
        """Ends at once what is left of them."""


@dataclass(frozen=True)
class WorkerSpec:
    """Everything an actor-learner's process needs to know but where the parameters live."""

    config: Config
    env: bytes  # pickled: a name, or the user's own function
    entropy: Any  # of the run's random streams for learning
    spawn_key: tuple[int, ...]

    def learner(self, life: tuple[int, ...], make_home: HomeMaker, part: ActorState | None) -> ActorLearner:
        """The actor-learner, made in its own process. `life` tells it from every other one that the run has had, for
        each has random streams of its own; all zeros are those of a run with one actor-learner."""
        config = self.config
        key = (*self.spawn_key, *life) if any(life) else self.spawn_key
        batch = environments(config, pickle.loads(self.env))  # our own, from the process that began the run
        use_threads(config, batch.observation)
        agent = Agent(config, batch.observation, batch.action, 0, make_home)
        learner = ActorLearner(agent, batch, np.random.SeedSequence(self.entropy, spawn_key=key))
        if part is not None:
            try:
                warn_of_new_episodes(config, learner.restore(part))
            except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
                raise CheckpointError(f"the saved actor-learner cannot go on: {described(error)}") from error
        return learner


def check_memory(actors: int, each: int) -> None:
    """Refuses more processes than this machine's memory holds."""
    free = free_memory()
    if actors * each > free:
        raise SettingsError(
            f"{actors:,} actor-learners need about {actors * each / 1e9:,.1f} GB of memory and {free / 1e9:,.1f} are "
            "free: use fewer --actors with more --envs-per-actor"
        )


def warn_of_new_episodes(config: Config, episodes: int) -> None:
    """Says that episodes could not be taken up."""
    if episodes:
        warn(
            f"{config.env}: {episodes} of {config.environments} unfinished episodes cannot be played again (not all of "
            "the environment's randomness is in its seed, or it is another one); new ones begin"
        )


def packed(env: str | EnvMaker) -> bytes:
    """The environment's maker for another process."""
    try:
        return cloudpickle.dumps(env)  # type: ignore[no-any-return]
    except Exception as error:
        name = getattr(env, "__name__", type(env).__name__)
        raise SettingsError(
            f"environment {name} cannot be sent to another process ({in_one_line(error)}): "
            "let it open files, locks and connections when it is made, not before"
        ) from None


@dataclass(frozen=True)
class WorkerFailure:
    """How an actor-learner ended that was not asked to."""

    reason: str
    trace: str = ""
    fatal: AcerError | None = None  # what no new start would mend

    @classmethod
    def by(cls, error: BaseException) -> "WorkerFailure":
        """By an exception. Only one of the environment can be mended by another try."""
        fatal = isinstance(error, LearningFault | CheckpointError | SettingsError)
        trace = "".join(traceback.format_exception(error))
        return cls(described(error), trace, type(error)(*error.args) if fatal else None)  # type: ignore[arg-type]


@dataclass
class WorkerStatus:
    """What is known of an actor-learner from outside."""

    steps: int = 0
    began: float = field(default_factory=time.monotonic)
    last_return: float = math.nan
    restarts: int = 0
    deaths: int = 0  # in a row
    due: float | None = None  # when it is started again, if it is dead

    @property
    def speed(self) -> float:
        """Steps per second since the run began."""
        return self.steps / max(1e-9, time.monotonic() - self.began)


class Supervisor:
    """Actor-learners that can die: what their deaths mean is the same wherever they are.

    One that dies is started again, each time in a row after a longer pause; `most_deaths` of one without a trajectory
    between end the run.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.members: Sequence[WorkerStatus] = [WorkerStatus() for _ in range(configuration.team_size(config))]
        self._reports: list[Report] = []  # heard and not yet told

    @property
    def note(self) -> str:
        return ""

    def start(self, states: Sequence[ActorState | None]) -> None:
        for actor in range(len(self.members)):
            self._start(actor, states[actor] if actor < len(states) else None)

    def wait(self) -> list[Report]:
        news = self._poll(0.2)
        for actor, what in news:
            if isinstance(what, Report):
                self._record(actor, what)
        for actor, what in news:
            if isinstance(what, WorkerFailure):
                self._handle_failure(actor, what)
        for actor, member in enumerate(self.members):
            if member.due is not None and time.monotonic() >= member.due:
                member.due = None
                member.restarts += 1
                self._start(actor, None)
        return self._drain()

    def _record(self, actor: int, report: Report) -> None:
        member = self.members[actor]
        member.steps += report.steps
        member.deaths = 0
        if report.episodes:
            member.last_return = report.episodes[-1][0]
        self._reports.append(report)

    def _drain(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    def _handle_failure(self, actor: int, death: WorkerFailure) -> None:
        """Tells of a death, and answers it by a new start or by the run's end."""
        member = self.members[actor]
        member.deaths += 1
        if death.trace:
            say(death.trace.rstrip(), "yellow")
        if death.fatal is not None:
            raise death.fatal
        if member.deaths >= self.config.most_deaths:
            raise EnvironmentFault(
                f"actor-learner {actor} died {member.deaths} times in a row, with no trajectory between: {death.reason}"
            )
        pause = min(LONGEST_PAUSE, 0.25 * 2**member.deaths)
        member.due = time.monotonic() + pause
        warn(f"actor-learner {actor} died ({death.reason}); a new one starts in {pause:.1f} s, its memory empty")

    def _start(self, actor: int, part: ActorState | None) -> None:
        """Sets one actor-learner to work."""
        raise NotImplementedError

    def _poll(self, seconds: float) -> list[tuple[int, Report | WorkerFailure]]:
        """What was heard of whom; waits at most that long for something."""
        raise NotImplementedError
