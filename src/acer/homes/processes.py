"""Actor-learners in processes of one machine: how they are started, heard, asked for what they hold, and ended.

Each works on its own until the run's steps are done, and answers between two trajectories: "part" with what it holds,
"stop" with the same before it ends. One whose run is gone ends too: its pipe is broken.
"""

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

import torch.multiprocessing  # its pickling sends shared memory as a file descriptor

from acer.console import warn
from acer.errors import SettingsError
from acer.homes.supervisor import CLOSING, PATIENCE, PROCESS_BYTES, WorkerFailure, WorkerSpec, check_memory
from acer.learner.actor_learner import ActorState, HomeMaker, Report
from acer.machine import give_back_memory, keep_memory

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess

News = tuple[int, Report | WorkerFailure]
TICK = 0.002  # seconds between two looks at what processes have handed over


class SharedMemory(Protocol):
    """What processes share."""

    def home(self, number: int) -> HomeMaker:
        """Makes the home of one of them, in its own process."""


class Processes:
    """Actor-learners of this machine, by number."""

    def __init__(self, job: WorkerSpec, memory: SharedMemory, count: int) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise SettingsError(
                "put what your script does under `if __name__ == '__main__':`, for its processes read it"
            )
        check_memory(count, PROCESS_BYTES)
        self.job, self.memory, self.count = job, memory, count
        self._context = torch.multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["acer.homes.shared"])  # torch is imported once, not in every process
        self._running: dict[int, tuple[ForkServerProcess, Connection]] = {}
        self._inbox: queue.SimpleQueue[tuple[int, Report | ActorState | WorkerFailure]] = queue.SimpleQueue()
        self._stopping = False
        self._waiting: list[News] = []  # heard while listening for something else

    @property
    def running(self) -> int:
        """How many there are."""
        return len(self._running)

    def start(self, number: int, life: tuple[int, ...], part: ActorState | None) -> None:
        here, there = self._context.Pipe()
        arguments = (self.job, number, life, self.memory, part, there)
        process = self._context.Process(target=_work, args=arguments, name=f"actor-learner-{life[0]}")
        process.start()
        there.close()
        self._running[number] = process, here
        threading.Thread(target=self._listen, args=(number, process, here), daemon=True).start()

    def hear(self, seconds: float) -> list[News]:
        """Reports and deaths; waits at most that long for the first."""
        news, self._waiting = self._waiting, []
        try:
            if not news:
                news = [self._sort(*self._inbox.get(timeout=seconds))]
            while True:
                news.append(self._sort(*self._inbox.get_nowait()))
        except queue.Empty:
            pass
        return [(number, what) for number, what in news if not isinstance(what, ActorState)]

    def ask(self, word: str, meanwhile: Callable[[], None] | None = None) -> list[ActorState | None]:
        """Says a word to all and gives what they hold; reports and deaths meanwhile are kept for `hear`.

        meanwhile: called again and again, if processes may wait for something."""
        states: list[ActorState | None] = [None] * self.count
        self._stopping |= word == "stop"
        asked = set(self._running)
        for number in asked:
            with suppress(OSError):  # one that is dead: its death will be heard
                self._running[number][1].send(word)
        until = time.monotonic() + PATIENCE
        while asked & self._running.keys():
            left = until - time.monotonic()
            if left <= 0:
                slow = ", ".join(map(str, sorted(asked)))
                warn(f"actor-learners {slow} did not come to a trajectory's end in {PATIENCE:.0f} s: not saved")
                break
            if meanwhile is not None:
                meanwhile()
            with suppress(queue.Empty):
                number, news = self._sort(*self._inbox.get(timeout=left if meanwhile is None else TICK))
                if isinstance(news, ActorState):
                    states[number] = news
                    asked.discard(number)
                else:
                    self._waiting.append((number, news))
        if word == "stop":
            for number, (process, _) in self._running.items():
                if states[number] is not None:
                    process.join(CLOSING)
        return states

    def kill(self) -> None:
        for process, _ in self._running.values():
            process.kill()
            process.join()
        self._running.clear()

    def _listen(self, number: int, process: "ForkServerProcess", pipe: "Connection") -> None:
        """Hears one process out: a report that nobody takes would make it wait."""
        said_why = False
        try:
            while True:
                news = pipe.recv()
                said_why = isinstance(news, WorkerFailure)
                self._inbox.put((number, news))
        except (EOFError, OSError):
            pipe.close()
            process.join()
            code = process.exitcode
            if not said_why and (code or not self._stopping):
                how = f"killed by {signal.Signals(-code).name}" if code and code < 0 else f"ended with code {code}"
                self._inbox.put((number, WorkerFailure(how)))

    def _sort(self, number: int, news: Any) -> tuple[int, Any]:
        if isinstance(news, WorkerFailure):
            self._running.pop(number, None)
        return number, news


def _work(
    job: WorkerSpec,
    number: int,
    life: tuple[int, ...],
    memory: SharedMemory,
    part: ActorState | None,
    pipe: "Connection",
) -> None:
    """An actor-learner's process."""
    for of_the_run in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # which ends its processes in order
        signal.signal(of_the_run, signal.SIG_IGN)
    keep_memory()
    learner = None
    try:
        learner = job.learner(life, memory.home(number), part)
        del part
        word = ""
        while word != "stop":
            if learner.steps < job.config.steps and not pipe.poll():
                pipe.send(learner.iterate())
            else:
                word = pipe.recv()
                pipe.send(learner.state())
                give_back_memory()  # as a run does that saves itself
    except BaseException as error:
        with suppress(OSError):  # if the run is gone, nobody listens
            pipe.send(WorkerFailure.by(error))
    finally:
        if learner is not None:
            with suppress(Exception):
                learner.rollout.env.close()
        os._exit(0)  # whatever the environment has left running
