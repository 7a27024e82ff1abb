"""A workers on Ray: the actor-learners and the server of the parameters are Ray actors.

Ray places them, starts again what dies, and carries gradients and parameters through its object store. A cluster
trusts whoever can reach it: see the README.
"""

import copy
import logging
import math
import os
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import ray
import torch
from numpy.typing import NDArray
from ray.exceptions import GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from torch import Tensor

from acer.config import Config
from acer.console import warn
from acer.envs.others import EnvMaker
from acer.errors import ParameterServerLost, SettingsError
from acer.homes.local import Local
from acer.homes.supervisor import PATIENCE, Supervisor, WorkerFailure, WorkerSpec, check_memory, packed
from acer.learner.actor_learner import ActorLearner, ActorState, Report
from acer.learner.networks import Network, Policy
from acer.learner.normalizer import Moments
from acer.learner.parameters import Constants, descend, place
from acer.machine import cores, keep_memory

CALL = 1.0  # seconds that one call of an actor-learner lasts at least, in whole trajectories
PROCESS_BYTES = 350 << 20  # of one actor-learner's process, measured with CartPole-v1
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}  # what Ray is to say of itself
LOST = "the process that held the parameters is gone"

GONE = WorkerFailure("its process or its node is gone")

Array = NDArray[Any]


@dataclass(frozen=True)
class Values:
    """What an actor-learner pulls."""

    theta: Array
    theta_a: Array
    steps: int  # T
    skipped: int  # updates left out
    updates: int  # of all actor-learners so far
    staleness: int  # of the update that this answers: those since the parameters that it was computed from
    moments: Array | None


class ParameterServer:
    """θ, θ_a, the optimiser's statistics, and what is counted and averaged over all actor-learners."""

    def __init__(self, theta: Array, theta_a: Array, square: Array, counts: tuple[int, int], moments: Moments | None,
                 constants: Constants) -> None:  # fmt: skip
        torch.set_num_threads(1)
        self.theta, self.theta_a, self.square = (torch.from_numpy(a.copy()) for a in (theta, theta_a, square))
        self.steps, self.skipped = counts
        self.moments, self.constants = moments, constants
        self.updates = 0

    def pull(self, counts: tuple[int, int] = (0, 0), staleness: int = 0) -> Values:
        """counts: steps made and updates left out since the caller's last call."""
        self.count(*counts)
        moments = None if self.moments is None else self.moments.pack()
        parameters = self.theta.numpy(), self.theta_a.numpy()
        return Values(*parameters, self.steps, self.skipped, self.updates, staleness, moments)

    def push(
        self, gradient: Array, rate: float, seen: int, counts: tuple[int, int] = (0, 0), factor: float = 1.0
    ) -> Values:
        """seen: updates so far when the actor-learner pulled; counts: as for `pull`."""
        staleness = self.updates - seen
        # The array lies in Ray's store and is only read; PyTorch wants to hear that it may be written.
        copy = torch.from_numpy(gradient.copy())
        descend(self.theta, self.theta_a, self.square, copy, rate, self.constants, factor)
        self.updates += 1
        return self.pull(counts, staleness)

    def count(self, steps: int, skipped: int) -> None:
        self.steps += steps
        self.skipped += skipped

    def observe(self, count: float, mean: Array, variance: Array) -> Array:
        assert self.moments is not None
        self.moments.merge(count, mean, variance)
        return self.moments.pack()

    def whole(self) -> tuple[Values, Array]:
        """For the run: everything there is."""
        return self.pull(), self.square.numpy()


class Remote:
    """An actor-learner's way to the server.

    With overlap, what an update brings back is not taken by the pull right after it, but by the next: meanwhile the
    actor-learner acts, or computes another update, with parameters that lack the last one. Without, each pull and each
    push is waited for. What is counted travels with the next call: calls cost more than numbers.
    """

    def __init__(
        self,
        server: Any,
        overlap: bool,
        network: Network,
        average: Policy,
        constants: Constants,
        moments: Moments | None,
    ) -> None:
        self.moments = moments
        self.theta, self.theta_a, self.gradient = place(network, average)
        self.staleness = 0
        self.steps = self.skipped = 0
        self._updates = 0
        self._server, self._overlap = server, overlap
        self._flying: deque[Any] = deque()  # calls whose answers have not been taken
        self._fresh = 0  # of them, those made since the last pull
        self._uncounted = (0, 0)  # steps, and updates left out, that the server has not heard of
        self._take(ray.get(server.pull.remote()))

    def count(self, steps: int) -> None:
        self.steps += steps
        self._uncounted = (self._uncounted[0] + steps, self._uncounted[1])

    def skip(self) -> None:
        self.skipped += 1
        self._uncounted = (self._uncounted[0], self._uncounted[1] + 1)

    def flush(self) -> None:
        """Tells the server what it has not heard of."""
        if any(self._uncounted):
            ray.get(self._server.count.remote(*self._counts()))

    def _counts(self) -> tuple[int, int]:
        counts, self._uncounted = self._uncounted, (0, 0)
        return counts

    def observe(self, values: Array) -> None:
        if self.moments is not None and len(values):
            new = Moments(self.moments.mean.shape)
            new.add(values)
            answer = self._server.observe.remote(new.count, new.mean, new.variance)
            if not self._overlap:
                self.moments = self.moments.unpack(ray.get(answer))

    def pull(self) -> None:
        if not self._overlap:
            self._take(ray.get(self._server.pull.remote(self._counts())))
            return
        if not self._flying:
            self._flying.append(self._server.pull.remote(self._counts()))
            return
        while len(self._flying) > self._fresh:
            self._take(ray.get(self._flying.popleft()))
        self._fresh = 0

    def push(self, gradient: Tensor, rate: float, factor: float = 1.0) -> None:
        answer = self._server.push.remote(gradient.numpy(), rate, self._updates, self._counts(), factor)
        if self._overlap:
            self._flying.append(answer)
            self._fresh = 1
        else:
            self.staleness = ray.get(answer).staleness

    def _take(self, values: Values) -> None:
        self.theta.numpy()[:] = values.theta
        self.theta_a.numpy()[:] = values.theta_a
        self.steps, self.skipped = values.steps + self._uncounted[0], values.skipped + self._uncounted[1]
        self._updates, self.staleness = values.updates, values.staleness
        if self.moments is not None and values.moments is not None:
            self.moments = self.moments.unpack(values.moments)


class Worker:
    """An actor-learner as a Ray actor. What goes wrong in its environment is told, not raised: its process lives on."""

    def __init__(self) -> None:  # without arguments, so that Ray can always make it again
        self.learner: ActorLearner | None = None
        self._death: WorkerFailure | None = None  # not yet told
        keep_memory()

    def work(
        self, job: WorkerSpec, life: tuple[int, int], server: Any, part: ActorState | None
    ) -> list[Report] | WorkerFailure:
        """Some trajectories; none once the run's steps are done. life: its number, and how often it has died."""
        if self._death is not None:
            death, self._death = self._death, None
            return death
        reports: list[Report] = []
        try:
            if self.learner is None:
                actor, deaths = life
                steps = ray.get(server.pull.remote()).steps
                make_home = partial(Remote, server, job.config.overlap)
                self.learner = job.learner((actor, steps, deaths), make_home, part)
            until = time.monotonic() + CALL
            while self.learner.steps < job.config.steps and time.monotonic() < until:
                reports.append(self.learner.iterate())
            self.learner.agent.home.flush()  # type: ignore[attr-defined]
            return reports
        except Exception as error:
            death = WorkerFailure(LOST) if isinstance(error, RayError) else WorkerFailure.by(error)
            if self.learner is not None:
                with suppress(Exception):
                    self.learner.agent.home.flush()  # type: ignore[attr-defined]
                with suppress(Exception):
                    self.learner.rollout.env.close()
                self.learner = None
            if reports:  # which come first
                self._death = death
                return reports
            return death

    def here(self) -> list[Report]:
        """Answers once the worker is there."""
        return []

    def part(self) -> ActorState | None:
        return None if self.learner is None else self.learner.state()


class RayWorkers(Supervisor):
    """Actor-learners on a Ray cluster: one that is named, or one that is started here and ends with the run.

    The server is where the run itself is, so that no other node's end can be its own.
    """

    def __init__(
        self, config: Config, env: str | EnvMaker, home: Local, seeds: np.random.SeedSequence, again: bool = False
    ) -> None:
        """again: the run had begun on the cluster, which may have become too small for a while."""
        super().__init__(config)
        self._job = WorkerSpec(config, packed(env), seeds.entropy, tuple(seeds.spawn_key))
        self.home = home
        self._own = _connect(config, len(self.members), again)
        here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
        arrays = (tensor.numpy() for tensor in (home.theta, home.theta_a, home.square))
        counts = (home.steps, home.skipped)
        self._server: Any = (
            ray.remote(ParameterServer)
            .options(num_cpus=0, scheduling_strategy=here)
            .remote(*arrays, counts, home.moments, home.constants)
        )
        worker: Any = ray.remote(Worker).options(num_cpus=config.cpus_per_actor, max_restarts=-1, max_task_retries=0)
        self._workers: list[Any] = [worker.remote() for _ in self.members]
        self._calls: dict[Any, int] = {}  # which actor's call will answer
        self._gone: set[int] = set()  # whose processes are gone and have not yet answered again
        self._states: list[ActorState | None] = [None] * len(self.members)
        self._stopped = False

    def fetch(self) -> None:
        if self._stopped:
            return
        try:
            values, square = ray.get(self._server.whole.remote())
        except RayError:
            raise ParameterServerLost(LOST) from None
        home = self.home
        for mine, array in ((home.theta, values.theta), (home.theta_a, values.theta_a), (home.square, square)):
            mine.numpy()[:] = array
        home.steps, home.skipped = values.steps, values.skipped
        if home.moments is not None:
            home.moments = home.moments.unpack(values.moments)

    def states(self) -> list[ActorState | None]:
        if not self._stopped:
            here = set(range(len(self.members))) - self._gone
            asked = {actor: self._workers[actor].part.remote() for actor in here}
            until = time.monotonic() + PATIENCE
            self._states = [self._part(asked.get(actor), until) for actor in range(len(self.members))]
        return self._states

    def stop(self) -> list[Report]:
        until = time.monotonic() + PATIENCE
        while set(self._calls.values()) - self._gone and time.monotonic() < until:
            for actor, answer in self._answers(1.0):
                for report in answer if isinstance(answer, list) else ():
                    self._record(actor, report)
        self.states()
        self.fetch()
        self._stopped = True
        return self._drain()

    def kill(self) -> None:
        for actor in (*self._workers, self._server):
            with suppress(Exception):
                ray.kill(actor)
        self._workers, self._calls = [], {}
        if self._own:
            self._own = False
            ray.shutdown()

    def _start(self, actor: int, part: ActorState | None) -> None:
        worker = self._workers[actor]
        if actor in self._gone:  # until Ray has started it again, a call of work would fail; this one waits
            call = worker.here.options(max_task_retries=-1).remote()
        else:
            call = worker.work.remote(self._job, (actor, self.members[actor].restarts), self._server, part)
        self._calls[call] = actor

    def _poll(self, seconds: float) -> list[tuple[int, Report | WorkerFailure]]:
        news: list[tuple[int, Report | WorkerFailure]] = []
        for actor, answer in self._answers(seconds):
            if isinstance(answer, WorkerFailure):
                if answer.reason == LOST:
                    self.fetch()  # raises, if it is
                news.append((actor, answer))
            else:
                news += [(actor, report) for report in answer]
                self._start(actor, None)
                if not answer:
                    self.fetch()  # the steps are done, or another's are not yet reported
        reports = [what for _, what in news if isinstance(what, Report)]
        self.home.steps = max([self.home.steps, *(report.total for report in reports)])
        self.home.skipped = max([self.home.skipped, *(report.skipped for report in reports)])
        return news

    def _answers(self, seconds: float) -> list[tuple[int, list[Report] | WorkerFailure]]:
        """What the calls that have ended gave."""
        if not self._calls:
            time.sleep(seconds)
            return []
        first, _ = ray.wait(list(self._calls), timeout=seconds)
        ready = first and ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)[0]
        answers = [(self._calls.pop(call), _answer(call)) for call in ready]
        for actor, answer in answers:
            (self._gone.add if answer == GONE else self._gone.discard)(actor)
        return answers

    def _part(self, asked: Any, until: float) -> ActorState | None:
        if asked is None:
            return None
        try:
            part = ray.get(asked, timeout=max(0.0, until - time.monotonic()))
        except GetTimeoutError:
            warn(f"an actor-learner did not come to a trajectory's end in {PATIENCE:.0f} s: its memory is not saved")
            return None
        except RayError:
            return None
        return copy.deepcopy(part)  # type: ignore[no-any-return]  # out of Ray's store, which the run may outlive


def _answer(call: Any) -> list[Report] | WorkerFailure:
    try:
        return ray.get(call)  # type: ignore[no-any-return]
    except RayActorError:
        return GONE
    except RayTaskError as error:
        return WorkerFailure(" ".join(str(error).splitlines()[-1:]), str(error))


def _connect(config: Config, actors: int, again: bool) -> bool:
    """Joins the cluster, or starts one on this machine; whether it is our own, to be ended with the run."""
    need = actors * config.cpus_per_actor
    if ray.is_initialized():
        if not again:
            _check_room(need, actors)
        return False
    if not config.ray_address:
        check_memory(actors, PROCESS_BYTES)
        ray.init(
            address="local",
            num_cpus=max(cores(), math.ceil(need)),
            include_dashboard=False,
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}},
            **QUIET,
        )
        return True
    join(config.ray_address)
    if not again:
        try:
            _check_room(need, actors)
        except SettingsError:
            ray.shutdown()
            raise
    return True


def join(address: str) -> None:
    """Joins a cluster that is there."""
    reason = _unreachable(address)
    if not reason:
        try:
            ray.init(address=address, **QUIET)
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
    if reason:
        raise SettingsError(
            f"no Ray cluster at --ray-address {address} ({reason}); start one with `ray start --head`, or leave the "
            "address out to run on this machine"
        )


def _unreachable(address: str) -> str:
    """Why host:port does not answer; empty if it does, or if the address is of another kind."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return ""
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return ""


def _check_room(need: float, actors: int) -> None:
    has = ray.cluster_resources().get("CPU", 0.0)  # type: ignore[no-untyped-call]
    if need > has:
        raise SettingsError(
            f"{actors} actor-learners need {need:g} CPUs and the Ray cluster has {has:g}: use fewer --actors, or "
            "--cpus-per-actor below 1 if their simulators mostly wait"
        )
