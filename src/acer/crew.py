"""Crews: the actor-learners of a run, and what happens when one of them dies.

`Alone` is the one actor-learner of this process. `Processes` are many on this machine, whose parameters live in shared
memory; `cluster.Cluster` are many on Ray. A run asks its crew for reports, for what its actor-learners hold, and to
stop; it does not know which crew it has.
"""

import math
import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import cloudpickle
import numpy as np
import torch
import torch.multiprocessing  # its pickling sends shared memory as a file descriptor

from acer import config as configuration
from acer.actor_learner import ActorLearner, Agent, HomeMaker, Report, environments, use_threads
from acer.checkpoint import Part
from acer.config import Config
from acer.display import warn
from acer.envs.registry import EnvMaker
from acer.errors import (
    AcerError,
    CheckpointError,
    EnvironmentFault,
    LearningFault,
    SettingsError,
    described,
    in_one_line,
)
from acer.machine import free_memory, keep_memory
from acer.parameters import Local, Memory, Shared

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

PATIENCE = 60.0  # seconds that an actor-learner has to come to its trajectory's end when asked to
CLOSING = 5.0  # seconds that it then has to close its environments
LONGEST_PAUSE = 30.0  # seconds before a new start
PROCESS_BYTES = 120 << 20  # of one actor-learner's process beside what all share, measured with CartPole-v1


class Crew(Protocol):
    """What a run asks of its actor-learners."""

    members: Sequence["Member"]  # for the progress display; none if there is nothing to tell apart

    def start(self, parts: Sequence[Part | None]) -> None:
        """Sets them to work, each with what it held when the run was saved."""

    def wait(self) -> list[Report]:
        """What they have done since the last call; waits a little for something. Raises what ends the run."""

    def fetch(self) -> None:
        """Brings the parameters from their home into this process."""

    def parts(self) -> list[Part | None]:
        """What each holds beside the parameters; None for one that is dead."""

    def stop(self) -> list[Report]:
        """Ends them after the trajectories that they are at, and gives their last reports."""

    def kill(self) -> None:
        """Ends at once what is left of them."""


class Alone:
    """The actor-learner of this process."""

    members: Sequence["Member"] = ()

    def __init__(self, learner: ActorLearner) -> None:
        self.learner = learner

    def start(self, parts: Sequence[Part | None]) -> None:
        pass

    def wait(self) -> list[Report]:
        return [self.learner.iterate()]

    def fetch(self) -> None:
        pass

    def parts(self) -> list[Part | None]:
        return [self.learner.state()]

    def stop(self) -> list[Report]:
        return []

    def kill(self) -> None:
        pass


# ------------------------------------------------------------------ one of many


@dataclass(frozen=True)
class Job:
    """Everything an actor-learner's process needs to know but where the parameters live."""

    config: Config
    env: bytes  # pickled: a name, or the user's own function
    entropy: Any  # of the run's random streams for learning
    spawn_key: tuple[int, ...]

    def learner(self, life: tuple[int, ...], make_home: HomeMaker, part: Part | None) -> ActorLearner:
        """The actor-learner, made in its own process. `life` tells it from every other one that the run has had, for
        each has random streams of its own; all zeros are those of a run with one actor-learner."""
        config = self.config
        key = (*self.spawn_key, *life) if any(life) else self.spawn_key
        batch = environments(config, pickle.loads(self.env))  # our own, from the process that began the run
        use_threads(config, batch.observation)
        agent = Agent(config, batch.observation, batch.action, 0, make_home)
        learner = ActorLearner(agent, batch, np.random.SeedSequence(self.entropy, spawn_key=key))
        if part is not None:
            warn_of_new_episodes(config, learner.restore(part))
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
class Death:
    """How an actor-learner ended that was not asked to."""

    reason: str
    trace: str = ""
    fatal: AcerError | None = None  # what no new start would mend

    @classmethod
    def by(cls, error: BaseException) -> "Death":
        """By an exception. Only one of the environment can be mended by another try."""
        fatal = isinstance(error, LearningFault | CheckpointError | SettingsError)
        trace = "".join(traceback.format_exception(error))
        return cls(described(error), trace, type(error)(*error.args) if fatal else None)  # type: ignore[arg-type]


@dataclass
class Member:
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


class Team:
    """Actor-learners that can die: what their deaths mean is the same wherever they are.

    One that dies is started again, each time in a row after a longer pause; `most_deaths` of one without a trajectory
    between end the run.
    """

    def __init__(self, config: Config) -> None:
        self.config = config
        self.members: Sequence[Member] = [Member() for _ in range(configuration.team_size(config))]
        self._reports: list[Report] = []  # heard and not yet told

    def start(self, parts: Sequence[Part | None]) -> None:
        for actor in range(len(self.members)):
            self._start(actor, parts[actor] if actor < len(parts) else None)

    def wait(self) -> list[Report]:
        news = self._news(0.2)
        for actor, what in news:
            if isinstance(what, Report):
                self._hear(actor, what)
        for actor, what in news:
            if isinstance(what, Death):
                self._mourn(actor, what)
        for actor, member in enumerate(self.members):
            if member.due is not None and time.monotonic() >= member.due:
                member.due = None
                member.restarts += 1
                self._start(actor, None)
        return self._heard()

    def _hear(self, actor: int, report: Report) -> None:
        member = self.members[actor]
        member.steps += report.steps
        member.deaths = 0
        if report.episodes:
            member.last_return = report.episodes[-1][0]
        self._reports.append(report)

    def _heard(self) -> list[Report]:
        reports, self._reports = self._reports, []
        return reports

    def _mourn(self, actor: int, death: Death) -> None:
        """Tells of a death, and answers it by a new start or by the run's end."""
        member = self.members[actor]
        member.deaths += 1
        if death.trace:
            warn(death.trace.rstrip())
        if death.fatal is not None:
            raise death.fatal
        if member.deaths >= self.config.most_deaths:
            raise EnvironmentFault(
                f"actor-learner {actor} died {member.deaths} times in a row, with no trajectory between: {death.reason}"
            )
        pause = min(LONGEST_PAUSE, 0.25 * 2**member.deaths)
        member.due = time.monotonic() + pause
        warn(f"actor-learner {actor} died ({death.reason}); a new one starts in {pause:.1f} s, its memory empty")

    def _start(self, actor: int, part: Part | None) -> None:
        """Sets one actor-learner to work."""
        raise NotImplementedError

    def _news(self, seconds: float) -> list[tuple[int, Report | Death]]:
        """What was heard of whom; waits at most that long for something."""
        raise NotImplementedError


# ------------------------------------------------------------------ processes of this machine


class Processes(Team):
    """Actor-learners in processes of this machine.

    Each works on its own until the run's steps are done, and answers between two trajectories: "part" with what it
    holds, "stop" with the same before it ends. One whose run is gone ends too: its pipe is broken.
    """

    def __init__(self, config: Config, env: str | EnvMaker, home: Local, seeds: np.random.SeedSequence) -> None:
        super().__init__(config)
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise SettingsError(
                "put what your script does under `if __name__ == '__main__':`, for its processes read it"
            )
        check_memory(len(self.members), PROCESS_BYTES)
        self.home = home
        self.job = Job(config, packed(env), seeds.entropy, tuple(seeds.spawn_key))
        self.memory = Memory.of(home, len(self.members))
        self._context = torch.multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["acer.crew"])  # torch is imported once, not in every process
        self._processes: dict[int, tuple[ForkServerProcess, Connection]] = {}
        self._inbox: queue.SimpleQueue[tuple[int, Report | Part | Death]] = queue.SimpleQueue()
        self._stopping = False
        self._waiting: list[tuple[int, Report | Death]] = []  # heard while listening for something else
        self._parts: list[Part | None] = [None] * len(self.members)

    def fetch(self) -> None:
        self.memory.fetch(self.home)

    def parts(self) -> list[Part | None]:
        if self._processes:
            self._ask("part")
        return self._parts

    def stop(self) -> list[Report]:
        self._stopping = True
        self._ask("stop")
        for actor, (process, _) in self._processes.items():
            if self._parts[actor] is not None:
                process.join(CLOSING)
        self.kill()
        for actor, news in self._waiting:
            if isinstance(news, Report):
                self._hear(actor, news)
        self._waiting = []
        return self._heard()

    def kill(self) -> None:
        for process, _ in self._processes.values():
            process.kill()
            process.join()
        self._processes.clear()

    def _start(self, actor: int, part: Part | None) -> None:
        here, there = self._context.Pipe()
        life = (actor, self.memory.steps, self.members[actor].restarts)
        arguments = (self.job, life, self.memory, part, there)
        process = self._context.Process(target=_work, args=arguments, name=f"actor-learner-{actor}")
        process.start()
        there.close()
        self._processes[actor] = process, here
        threading.Thread(target=self._listen, args=(actor, process, here), daemon=True).start()

    def _listen(self, actor: int, process: "ForkServerProcess", pipe: "Connection") -> None:
        """Hears one process out: reports that wait for nobody would make it wait."""
        said_why = False
        try:
            while True:
                news = pipe.recv()
                said_why = isinstance(news, Death)
                self._inbox.put((actor, news))
        except (EOFError, OSError):
            pipe.close()
            process.join()
            code = process.exitcode
            if not said_why and (code or not self._stopping):
                how = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with code {code}"
                self._inbox.put((actor, Death(how)))

    def _news(self, seconds: float) -> list[tuple[int, Report | Death]]:
        news, self._waiting = self._waiting, []
        try:
            if not news:
                news = [self._sort(*self._inbox.get(timeout=seconds))]
            while True:
                news.append(self._sort(*self._inbox.get_nowait()))
        except queue.Empty:
            pass
        self.memory.fetch_counts(self.home)
        return [(actor, what) for actor, what in news if not isinstance(what, Part)]

    def _sort(self, actor: int, news: Any) -> tuple[int, Any]:
        if isinstance(news, Death):
            self._processes.pop(actor, None)
        return actor, news

    def _ask(self, word: str) -> None:
        """Says a word to all and hears out what they hold; reports and deaths meanwhile are kept for later."""
        self._parts = [None] * len(self.members)
        asked = set(self._processes)
        for actor in asked:
            with suppress(OSError):  # one that is dead: its death will be heard
                self._processes[actor][1].send(word)
        until = time.monotonic() + PATIENCE
        while asked & self._processes.keys():
            try:
                actor, news = self._sort(*self._inbox.get(timeout=max(0.0, until - time.monotonic())))
            except queue.Empty:
                slow = ", ".join(map(str, sorted(asked)))
                warn(f"actor-learners {slow} did not come to a trajectory's end in {PATIENCE:.0f} s: not saved")
                return
            if isinstance(news, Part):
                self._parts[actor] = news
                asked.discard(actor)
            else:
                self._waiting.append((actor, news))


def _work(job: Job, life: tuple[int, ...], memory: Memory, part: Part | None, pipe: "Connection") -> None:
    """An actor-learner's process."""
    for number in (signal.SIGINT, signal.SIGTERM):  # both are for the run, which ends its processes in order
        signal.signal(number, signal.SIG_IGN)
    keep_memory()
    learner = None
    try:
        learner = job.learner(life, partial(Shared, memory, life[0]), part)
        del part
        word = ""
        while word != "stop":
            if learner.steps < job.config.steps and not pipe.poll():
                pipe.send(learner.iterate())
            else:
                word = pipe.recv()
                pipe.send(learner.state())
    except BaseException as error:
        with suppress(OSError):  # if the run is gone, nobody listens
            pipe.send(Death.by(error))
    finally:
        if learner is not None:
            with suppress(Exception):
                learner.rollout.env.close()
        os._exit(0)  # whatever the environment has left running
