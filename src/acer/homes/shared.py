"""The home of many processes on one machine: shared memory, written without locks."""

import multiprocessing
import os
import queue
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
import torch.multiprocessing  # its pickling sends shared memory as a file descriptor
from numpy.typing import NDArray
from torch import Tensor

from acer.config import Config
from acer.console import warn
from acer.envs.others import EnvMaker
from acer.errors import SettingsError
from acer.homes.local import Local
from acer.homes.supervisor import (
    CLOSING,
    PATIENCE,
    PROCESS_BYTES,
    Supervisor,
    WorkerFailure,
    WorkerSpec,
    check_memory,
    packed,
)
from acer.learner.actor_learner import ActorState, Report
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, descend, place
from acer.machine import keep_memory

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess


@dataclass(frozen=True)
class Memory:
    """Shared memory of a run's processes: θ, θ_a and the mean of squares, which all write without locks, and a row for
    each actor-learner that it alone writes. A process can be killed at any moment: there is no lock that it could
    keep."""

    theta: Tensor
    theta_a: Tensor
    square: Tensor
    counts: Tensor  # [actors, 3]: steps, updates, and updates left out, of each
    moments: Tensor | None  # [actors, 1 + 2 n]: count, mean and variance of what each observed

    @classmethod
    def of(cls, home: Local, actors: int) -> Self:
        """Shared copies of what a home holds; its steps and its moments so far are the first actor's."""
        counts = torch.zeros(actors, 3, dtype=torch.int64)
        counts[0, 0], counts[0, 2] = home.steps, home.skipped
        moments = None
        if home.moments is not None:
            first = torch.from_numpy(home.moments.pack())
            moments = torch.zeros(actors, len(first), dtype=torch.float64)
            moments[0] = first
            moments.share_memory_()  # type: ignore[no-untyped-call]
        memory = cls(home.theta.clone(), home.theta_a.clone(), home.square.clone(), counts, moments)
        for tensor in (memory.theta, memory.theta_a, memory.square, counts):
            tensor.share_memory_()  # type: ignore[no-untyped-call]
        return memory

    @property
    def steps(self) -> int:
        """T."""
        return int(self.counts[:, 0].sum())

    @property
    def skipped(self) -> int:
        """Updates that were left out."""
        return int(self.counts[:, 2].sum())

    def fetch_counts(self, home: Local) -> None:
        """Copies what all actor-learners have counted."""
        home.steps, home.skipped = self.steps, self.skipped

    def fetch(self, home: Local) -> None:
        """Copies everything into a home of the calling process."""
        for mine, shared in ((home.theta, self.theta), (home.theta_a, self.theta_a), (home.square, self.square)):
            mine.copy_(shared)
        self.fetch_counts(home)
        if home.moments is not None:
            home.moments = self.moments_of_all(home.moments)

    def moments_of_all(self, like: Moments) -> Moments:
        """What all actor-learners observed together."""
        assert self.moments is not None
        rows = [row for row in self.moments.numpy() if row[0]]
        whole = like.unpack(rows[0] if rows else self.moments[0].numpy())
        for row in rows[1:]:
            other = like.unpack(row)
            whole.merge(other.count, other.mean, other.variance)
        return whole


class Shared:
    """One of many processes: its networks read a copy of θ and θ_a, its updates go to the shared ones."""

    def __init__(
        self,
        memory: Memory,
        actor: int,
        network: Network,
        average: Policy,
        constants: Constants,
        moments: Moments | None,
    ) -> None:
        self.constants, self.memory, self.actor = constants, memory, actor
        self.theta, self.theta_a, self.gradient = place(network, average)
        self.moments = None if moments is None else memory.moments_of_all(moments)
        self.staleness = 0
        self._updates = 0  # of all, at the last pull
        self.pull()

    @property
    def steps(self) -> int:
        return self.memory.steps

    @property
    def skipped(self) -> int:
        return self.memory.skipped

    def count(self, steps: int) -> None:
        self.memory.counts[self.actor, 0] += steps

    def skip(self) -> None:
        self.memory.counts[self.actor, 2] += 1

    def observe(self, values: NDArray[Any]) -> None:
        if self.moments is not None and self.memory.moments is not None:
            row = self.memory.moments[self.actor]
            own = self.moments.unpack(row.numpy())
            own.add(values)
            row.copy_(torch.from_numpy(own.pack()))
            self.moments = self.memory.moments_of_all(self.moments)

    def pull(self) -> None:
        self.theta.copy_(self.memory.theta)
        self.theta_a.copy_(self.memory.theta_a)
        self._updates = int(self.memory.counts[:, 1].sum())

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0) -> None:
        memory = self.memory
        descend(memory.theta, memory.theta_a, memory.square, gradient, rate, self.constants, factor)
        self.staleness = int(memory.counts[:, 1].sum()) - self._updates
        memory.counts[self.actor, 1] += 1


class WorkerProcesses(Supervisor):
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
        self.job = WorkerSpec(config, packed(env), seeds.entropy, tuple(seeds.spawn_key))
        self.memory = Memory.of(home, len(self.members))
        self._context = torch.multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["acer.homes.shared"])  # torch is imported once, not in every process
        self._processes: dict[int, tuple[ForkServerProcess, Connection]] = {}
        self._inbox: queue.SimpleQueue[tuple[int, Report | ActorState | WorkerFailure]] = queue.SimpleQueue()
        self._stopping = False
        self._waiting: list[tuple[int, Report | WorkerFailure]] = []  # heard while listening for something else
        self._states: list[ActorState | None] = [None] * len(self.members)

    def fetch(self) -> None:
        self.memory.fetch(self.home)

    def states(self) -> list[ActorState | None]:
        if self._processes:
            self._ask("part")
        return self._states

    def stop(self) -> list[Report]:
        self._stopping = True
        self._ask("stop")
        for actor, (process, _) in self._processes.items():
            if self._states[actor] is not None:
                process.join(CLOSING)
        self.kill()
        for actor, news in self._waiting:
            if isinstance(news, Report):
                self._record(actor, news)
        self._waiting = []
        return self._drain()

    def kill(self) -> None:
        for process, _ in self._processes.values():
            process.kill()
            process.join()
        self._processes.clear()

    def _start(self, actor: int, part: ActorState | None) -> None:
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
                said_why = isinstance(news, WorkerFailure)
                self._inbox.put((actor, news))
        except (EOFError, OSError):
            pipe.close()
            process.join()
            code = process.exitcode
            if not said_why and (code or not self._stopping):
                how = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with code {code}"
                self._inbox.put((actor, WorkerFailure(how)))

    def _poll(self, seconds: float) -> list[tuple[int, Report | WorkerFailure]]:
        news, self._waiting = self._waiting, []
        try:
            if not news:
                news = [self._sort(*self._inbox.get(timeout=seconds))]
            while True:
                news.append(self._sort(*self._inbox.get_nowait()))
        except queue.Empty:
            pass
        self.memory.fetch_counts(self.home)
        return [(actor, what) for actor, what in news if not isinstance(what, ActorState)]

    def _sort(self, actor: int, news: Any) -> tuple[int, Any]:
        if isinstance(news, WorkerFailure):
            self._processes.pop(actor, None)
        return actor, news

    def _ask(self, word: str) -> None:
        """Says a word to all and hears out what they hold; reports and deaths meanwhile are kept for later."""
        self._states = [None] * len(self.members)
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
            if isinstance(news, ActorState):
                self._states[actor] = news
                asked.discard(actor)
            else:
                self._waiting.append((actor, news))


def _work(job: WorkerSpec, life: tuple[int, ...], memory: Memory, part: ActorState | None, pipe: "Connection") -> None:
    """An actor-learner's process."""
    for number in (
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # they are for the run, which ends its processes in order
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
            pipe.send(WorkerFailure.by(error))
    finally:
        if learner is not None:
            with suppress(Exception):
                learner.rollout.env.close()
        os._exit(0)  # whatever the environment has left running
