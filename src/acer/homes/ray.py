"""Workers on Ray: the actor-learners and the parameter servers are Ray actors.

Ray places them, starts again what dies and carries reports; gradients and parameters go over `wire`. `cluster` joins
or starts Ray, `server` is a shard of the parameters, `remote` the way to them, `team` what works in an actor-learner's
Ray actor.
"""

import copy
import dataclasses
import secrets
import time
from contextlib import suppress
from typing import Any

import numpy as np
import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError, RayTaskError
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from acer.config import Config
from acer.console import warn
from acer.envs.others import EnvMaker
from acer.errors import ParameterServerLost, SettingsError, in_one_line
from acer.homes.cluster import connect
from acer.homes.local import Local
from acer.homes.processes import News
from acer.homes.remote import joined, parts
from acer.homes.server import Load, Part, Shard
from acer.homes.supervisor import PATIENCE, Supervisor, WorkerFailure, WorkerSpec, packed
from acer.homes.team import LOST, Birth, Servers, Team, failure, team
from acer.homes.wire import Address
from acer.learner.actor_learner import ActorState, Report
from acer.machine import keep_memory

GONE = WorkerFailure("its process or its node is gone")
LOOK = 1.0  # seconds between two looks at the servers' load
SHARD_BYTES = 200 << 20  # of a shard's process beside its vectors


class Worker:
    """Actor-learners of one Ray actor. What goes wrong in an environment is told, not raised: its process lives on."""

    def __init__(self) -> None:  # without arguments, so that Ray can always make it again
        self._team: Team | None = None
        keep_memory()

    def work(self, job: WorkerSpec, servers: Servers, births: list[Birth]) -> list[News]:
        """Some trajectories of each; none once the run's steps are done."""
        try:
            if self._team is None:
                self._team = team(job, servers)
            for birth in births:
                self._team.start(birth)
            news = self._team.work()
        except Exception as error:
            news = [(birth.number, failure(error)) for birth in births]
        if any(isinstance(what, WorkerFailure) and what.reason == LOST for _, what in news):
            self._team = None
        return news

    def here(self) -> list[News]:
        """Answers once the worker is there."""
        return []

    def parts(self) -> list[ActorState | None]:
        return [] if self._team is None else self._team.parts()


class RayWorkers(Supervisor):
    """Actor-learners on a Ray cluster.

    A single parameter server is where the run itself is, so that no other node's end can be its own; several are
    spread over the cluster.
    """

    def __init__(
        self, config: Config, env: str | EnvMaker, home: Local, seeds: np.random.SeedSequence, again: bool = False
    ) -> None:
        """again: the run had begun on the cluster, which may have become too small for a while."""
        super().__init__(config)
        self._job = WorkerSpec(config, packed(env), seeds.entropy, tuple(seeds.spawn_key))
        self.home = home
        self._each = config.processes_per_actor  # members of one team
        teams = len(self.members) // self._each
        self._own = connect(config, len(self.members), again)
        self._group: PlacementGroup | None = None
        self._workers: list[Any] = []
        self._calls: dict[Any, int] = {}  # which team's call will answer
        self._shards = self._place_shards()
        secret = secrets.token_bytes(32)
        self._servers = Servers(
            self._shards,
            self._addresses(secret),
            secret,
            len(home.theta),
            len(home.theta_a),
            home.constants,
            None if home.moments is None else home.moments.unpack(0 * home.moments.pack()),
        )
        worker: Any = ray.remote(Worker).options(
            num_cpus=config.cpus_per_actor * self._each, max_restarts=-1, max_task_retries=0
        )
        self._workers = [worker.remote() for _ in range(teams)]
        self._births: list[list[Birth]] = [[] for _ in range(teams)]  # that the next call of work brings
        self._alive: list[set[int]] = [set() for _ in range(teams)]  # members at work, by number in the team
        self._gone: set[int] = set()  # whose processes are gone and have not yet answered again
        self._states: list[ActorState | None] = [None] * len(self.members)
        self._stopped = False
        self._asked: list[Any] = []  # the servers, how busy they are
        self._loads: list[Load] = []  # at the last look
        self._looked = 0.0
        self._measured: dict[str, float] = {}

    @property
    def note(self) -> str:
        """What the progress display says of the servers."""
        shown = {"pushes_per_second": "{:,.0f} pushes/s", "server_busy": "servers {:.0%} busy",
                 "staleness": "staleness {:.1f}"}  # fmt: skip
        return "  ".join(text.format(self._measured[name]) for name, text in shown.items() if name in self._measured)

    def fetch(self) -> None:
        if self._stopped:
            return
        try:
            whole = joined(ray.get([shard.whole.remote() for shard in self._shards]))
        except RayError:
            raise ParameterServerLost(LOST) from None
        home = self.home
        for mine, array in ((home.theta, whole.theta), (home.theta_a, whole.theta_a), (home.square, whole.square)):
            mine.numpy()[:] = array
        home.steps, home.skipped = whole.steps, whole.skipped
        if home.moments is not None and whole.moments is not None:
            home.moments = home.moments.unpack(whole.moments.pack())  # Ray's arrays are not ours to write

    def states(self) -> list[ActorState | None]:
        if not self._stopped:
            here = set(range(len(self._workers))) - self._gone
            asked = {actor: self._workers[actor].parts.remote() for actor in here}
            until = time.monotonic() + PATIENCE
            self._states = []
            for actor in range(len(self._workers)):
                states = self._parts(asked.get(actor), until)
                self._states += (states + [None] * self._each)[: self._each]
        return self._states

    def stop(self) -> list[Report]:
        until = time.monotonic() + PATIENCE
        while set(self._calls.values()) - self._gone and time.monotonic() < until:
            for actor, answer in self._answers(1.0):
                for number, what in answer or ():
                    if isinstance(what, Report):
                        self._record(self._each * actor + number, what)
        self.states()
        self.fetch()
        self._stopped = True
        return self._drain()

    def kill(self) -> None:
        for actor in (*self._workers, *self._shards):
            with suppress(Exception):
                ray.kill(actor)
        self._workers, self._shards, self._calls = [], [], {}
        if self._group is not None:
            with suppress(Exception):
                remove_placement_group(self._group)
            self._group = None
        if self._own:
            self._own = False
            ray.shutdown()

    def _place_shards(self) -> list[Any]:
        """The parameter servers, each with its part."""
        home, shard = self.home, ray.remote(Shard)
        theta, theta_a, square = (tensor.numpy() for tensor in (home.theta, home.theta_a, home.square))
        initial = parts(Part(theta, theta_a, square, home.steps, home.skipped, home.moments), self.config.shards)
        if len(initial) == 1:
            here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=True)
            placed = [{"num_cpus": 0, "scheduling_strategy": here}]
        else:
            size = SHARD_BYTES + 16 * max(len(part.theta) for part in initial)
            self._group = placement_group([{"memory": size}] * len(initial), strategy="SPREAD")
            if not self._group.wait(PATIENCE):
                raise SettingsError(f"the Ray cluster has no room for {len(initial)} shards of {size:,} bytes")
            placed = [
                {
                    "num_cpus": 0,
                    "memory": size,
                    "scheduling_strategy": PlacementGroupSchedulingStrategy(self._group, number),
                }
                for number in range(len(initial))
            ]
        interval = self.config.publish_interval / 1_000
        return [
            shard.options(**options).remote(part, home.constants, interval)
            for part, options in zip(initial, placed, strict=True)
        ]

    def _addresses(self, secret: bytes) -> list[Address]:
        """Where the servers answer those who know the secret."""
        try:
            return ray.get([shard.listen.remote(secret) for shard in self._shards])
        except RayActorError as error:
            self.kill()
            raise ParameterServerLost(f"{LOST} ({in_one_line(error)})") from None
        except RayTaskError as error:
            self.kill()
            raise SettingsError(f"a parameter server cannot listen on its node: {in_one_line(error.cause)}") from None

    def _start(self, member: int, part: ActorState | None) -> None:
        actor, number = divmod(member, self._each)
        self._births[actor].append(Birth(number, member, self.members[member].restarts, part))
        if actor not in self._calls.values():
            self._call(actor)

    def _call(self, actor: int) -> None:
        worker = self._workers[actor]
        if actor in self._gone:  # until Ray has started it again, a call of work would fail; this one waits
            call = worker.here.options(max_task_retries=-1).remote()
        else:
            births, self._births[actor] = self._births[actor], []
            self._alive[actor] |= {birth.number for birth in births}
            call = worker.work.remote(self._job, self._servers, births)
        self._calls[call] = actor

    def _poll(self, seconds: float) -> list[News]:
        news: list[News] = []
        for actor, answer in self._answers(seconds):
            alive = self._alive[actor]
            if answer is None:
                answer = [(number, GONE) for number in sorted(alive)]
            elif not answer and alive:
                self.fetch()  # the steps are done, or another's are not yet reported
            for number, what in answer:
                if isinstance(what, WorkerFailure):
                    alive.discard(number)
                    if what.reason == LOST:
                        self.fetch()  # raises, if it is
                else:
                    what = self._with_load(what)
                news.append((self._each * actor + number, what))
            if alive or self._births[actor]:
                self._call(actor)
        self._look()
        reports = [what for _, what in news if isinstance(what, Report)]
        self.home.steps = max([self.home.steps, *(report.total for report in reports)])
        self.home.skipped = max([self.home.skipped, *(report.skipped for report in reports)])
        return news

    def _answers(self, seconds: float) -> list[tuple[int, list[News] | None]]:
        """What the calls that have ended gave; none from an actor that is gone."""
        if not self._calls:
            time.sleep(seconds)
            return []
        first, _ = ray.wait(list(self._calls), timeout=seconds)
        ready = first and ray.wait(list(self._calls), num_returns=len(self._calls), timeout=0)[0]
        answers = []
        for call in ready:
            actor = self._calls.pop(call)
            answer = self._answer(actor, call)
            (self._gone.add if answer is None else self._gone.discard)(actor)
            answers.append((actor, answer))
        return answers

    def _answer(self, actor: int, call: Any) -> list[News] | None:
        try:
            return ray.get(call)  # type: ignore[no-any-return]
        except RayActorError:
            return None
        except RayTaskError as error:
            death = WorkerFailure(" ".join(str(error).splitlines()[-1:]), str(error))
            return [(number, death) for number in sorted(self._alive[actor])]

    def _parts(self, asked: Any, until: float) -> list[ActorState | None]:
        if asked is None:
            return []
        try:
            states = ray.get(asked, timeout=max(0.0, until - time.monotonic()))
        except GetTimeoutError:
            warn(f"an actor-learner did not come to a trajectory's end in {PATIENCE:.0f} s: its memory is not saved")
            return []
        except RayError:
            return []
        return copy.deepcopy(states)  # out of Ray's store, which the run may outlive

    # ------------------------------------------------------------------ how busy the servers are

    def _look(self) -> None:
        """Asks the servers now and then, and never waits for them."""
        if not self._asked and time.monotonic() >= self._looked + LOOK:
            self._asked = [shard.load.remote() for shard in self._shards]
            self._looked = time.monotonic()
        if self._asked and len(ray.wait(self._asked, num_returns=len(self._asked), timeout=0)[0]) == len(self._asked):
            asked, self._asked = self._asked, []
            try:
                self._compare(ray.get(asked))
            except ActorDiedError:  # those who work with it may still wait for a word from its machine
                raise ParameterServerLost(LOST) from None
            except RayError:  # it cannot be reached at the moment
                pass

    def _compare(self, loads: list[Load]) -> None:
        pairs = [(then, now) for then, now in zip(self._loads, loads, strict=False) if now.clock > then.clock]
        self._loads = loads
        if pairs:
            then, now = pairs[0]
            self._measured["pushes_per_second"] = (now.updates - then.updates) / (now.clock - then.clock)
            self._measured["server_busy"] = max(
                (now.busy - then.busy) / (now.clock - then.clock) for then, now in pairs
            )

    def _with_load(self, report: Report) -> Report:
        """A report with what is known of the servers, for the run's tables."""
        if "staleness" in report.diagnostics:
            self._measured["staleness"] = report.diagnostics["staleness"]
        numbers = {name: value for name, value in self._measured.items() if name != "staleness"}
        return dataclasses.replace(report, diagnostics=report.diagnostics | numbers) if report.diagnostics else report
