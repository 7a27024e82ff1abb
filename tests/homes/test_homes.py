"""Homes of the parameters: the same learning wherever they live, and deaths that cost no run."""

import csv
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from acer import ACER, Callback
from acer.config import defaults
from acer.errors import CheckpointError, EnvironmentFault, LearningFault, SettingsError
from acer.homes.local import Local
from acer.homes.shared import Memory, Shared, WorkerProcesses
from acer.learner.normalizer import Moments
from acer.learner.optimizer import clip_by_norm
from acer.learner.parameters import Constants, descend
from acer.run import opening
from environments import Mortal
from run_files import latest

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'acer-rl[ray]'")
from acer.homes import wire  # noqa: E402
from acer.homes.cluster import join  # noqa: E402
from acer.homes.remote import Remote, joined, parts  # noqa: E402
from acer.homes.server import Client, Part, Shard, packed, unpacked  # noqa: E402
from acer.homes.team import Alone  # noqa: E402
from acer.homes.wire import COUNTERS, MOMENTS, NEW, Answer, Request, Sizes, TcpLine, WireLost  # noqa: E402

SMALL = {"environments": 4, "hidden": (16,), "replay_start": 80, "eval_episodes": 2, "eval_limit": 50}
CARTPOLE_MARK = 475.0


@pytest.fixture(scope="module")
def cluster():
    """One Ray for the tests that need no more than one."""
    ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}})  # fmt: skip
    yield
    ray.shutdown()


def children(of: int) -> set[int]:
    """Processes below a process."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        parents[int(name.split()[0])] = int(rest.split()[1])
    found, new = set(), {of}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new}
        found |= new
    return found


def actors(of: int) -> list[int]:
    """Processes of actor-learners: those that have mapped the shared parameters."""

    def is_actor(pid: int) -> bool:
        try:
            return "/dev/shm/torch_" in Path(f"/proc/{pid}/maps").read_text()
        except OSError:
            return False

    return sorted(pid for pid in children(of) if is_actor(pid))


class Until(Callback):
    """Ends a run after so many steps, once everybody has worked: on a busy machine some begin late."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def on_rollout(self, run, report):
        return run.steps < self.steps or not all(member.steps for member in run._run._workers.members)


# ------------------------------------------------------------------ the same learning


@pytest.mark.parametrize(("env", "steps", "unit"), [("CartPole-v1", 800, "rewards"), ("Pendulum-v1", 2_000, "errors")])
@pytest.mark.parametrize("home", ["shared", "ray"])
def test_one_actor_learns_the_same_in_every_home(env, steps, unit, home, cluster):
    """With one actor and without overlap: 50 updates and more give the same parameters, to the bit."""
    local = ACER(env, seed=3, delta_unit=unit, **SMALL).learn(steps)
    without_overlap = {"overlap": False} if home == "ray" else {}
    other = ACER(env, seed=3, delta_unit=unit, home=home, actors=1, **without_overlap, **SMALL).learn(steps)
    mine, its = local._training.state.home, other._training.state.home
    assert local._training.state.meter.updates == other._training.state.meter.updates >= 50
    assert local.steps == other.steps
    for name in ("theta", "theta_a", "square"):
        assert torch.equal(getattr(its, name), getattr(mine, name)), name
    if mine.moments is not None:
        assert np.array_equal(its.moments.pack(), mine.moments.pack())


def test_many_actors_share_what_they_learn(tmp_path):
    model = ACER("Pendulum-v1", home="shared", actors=3, log_every=400, **SMALL)
    before = model._training.state.home.theta.clone()
    model.learn(1_000_000, out=tmp_path / "run", callbacks=[Until(3_000)])
    training = model._training
    assert model.steps >= 3_000 and torch.isfinite(training.state.home.theta).all()
    assert not torch.equal(training.state.home.theta, before)
    assert training.state.home.moments.count == model.steps  # each step observed once
    assert len(training.state.actors) == 3 and all(len(part.blocks) for part in training.state.actors)
    rows = list(csv.DictReader((tmp_path / "run" / "progress.csv").open()))
    assert int(rows[-1]["steps"]) == model.steps
    staleness = [float(row["staleness"]) for row in rows if row["staleness"]]
    assert staleness and max(staleness) > 0
    assert int(rows[-1]["episodes"]) == sum(1 for _ in (tmp_path / "run" / "episodes.csv").open()) - 1


def test_overlap_learns_with_parameters_that_lack_the_last_update(cluster):
    model = ACER("CartPole-v1", home="ray", actors=2, cpus_per_actor=0.5, **SMALL).learn(1_500)
    assert model.steps >= 1_500 and torch.isfinite(model._training.state.home.theta).all()
    assert model.evaluate(2).mean > 0


def test_what_is_saved_in_mid_run_is_what_was_learnt(tmp_path):
    class Save(Callback):
        def on_rollout(self, training, report):
            model.save(tmp_path / "model")
            return training.steps < 600

    model = ACER("CartPole-v1", home="shared", actors=1, **SMALL)
    first = model._training.state.home.theta.clone()
    model.learn(2_000, callbacks=[Save()])
    assert not torch.equal(ACER.load(tmp_path / "model")._training.state.home.theta, first)


def test_a_directory_that_is_refused_leaves_no_workers_behind(tmp_path):
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    model = ACER("CartPole-v1", home="shared", actors=1, **SMALL)
    with pytest.raises(SettingsError, match="is not empty"):
        model.learn(100, out=tmp_path / "used")
    assert model.learn(600, out=tmp_path / "new").steps >= 600


def test_a_learner_that_goes_on_keeps_its_memory():
    model = ACER("CartPole-v1", home="shared", actors=2, **SMALL).learn(1_000)
    first = [len(part.replay["block_sizes"]) for part in model._training.state.actors]
    model.learn(1_000)
    now = [len(part.replay["block_sizes"]) for part in model._training.state.actors]
    assert all(more > less for more, less in zip(now, first, strict=True))


@pytest.mark.parametrize("home", ["shared", "ray"])
def test_a_run_of_many_is_taken_up_again(home, tmp_path, request):
    if home == "ray":
        request.getfixturevalue("cluster")

    class Stop(Callback):
        def on_rollout(self, training, report):
            return training.steps < 1_000

    model = ACER("CartPole-v1", home=home, actors=2, steps=12_000, **SMALL)
    model.learn(12_000, out=tmp_path / "run", callbacks=[Stop()])
    state = latest(tmp_path / "run").state
    assert 1_000 <= state["steps"] < 12_000 and len(state["random_streams"]) == 2
    assert "actor-1.replay.blocks" in state["files"]
    again = opening.resume(tmp_path / "run", directory=tmp_path / "run", given={"home": home, "actors": 2})
    assert again.steps == state["steps"]
    again.run()
    assert again.steps >= 12_000
    steps = [int(row["steps"]) for row in csv.DictReader((tmp_path / "run" / "episodes.csv").open())]
    assert len(steps) == again.state.meter.episodes
    local = ACER.load(tmp_path / "run")  # the model alone needs no workers
    assert local.evaluate(2).mean > 0


def test_a_part_that_is_missing_is_named(tmp_path):
    ACER("CartPole-v1", home="shared", actors=2, **SMALL).learn(600, out=tmp_path / "run")
    where = latest(tmp_path / "run").path
    (where / "actor-1.replay.blocks").unlink()
    with pytest.raises(CheckpointError, match=r"actor-1\.replay\.blocks is missing"):
        opening.resume(tmp_path / "run", given={"home": "shared", "actors": 2})


def test_shared_moments_are_those_of_everything_observed():
    """Each actor-learner writes its own row; together they are the moments of all values."""
    rng = np.random.default_rng(0)
    values = rng.normal(3, 2, size=(4, 50, 3))
    networks = ACER("Pendulum-v1", **SMALL).agent
    constants = Constants(0.99, 0.99, 1e-6)
    local = Local(networks.network, networks.average, constants, moments=Moments((3,)))
    memory = Memory.of(local, 2)
    homes = [Shared(memory, i, networks.network, networks.average, constants, Moments((3,))) for i in range(2)]
    for i, part in enumerate(values):
        homes[i % 2].observe(part)
    whole = memory.moments_of_all(Moments((3,)))
    everything = values.reshape(-1, 3)
    assert whole.count == 200
    np.testing.assert_allclose(whole.mean, everything.mean(0))
    np.testing.assert_allclose(whole.variance, everything.var(0))


def test_staleness_counts_the_updates_of_others():
    networks = ACER("CartPole-v1", **SMALL).agent
    constants = Constants(0.99, 0.99, 1e-6)
    memory = Memory.of(Local(networks.network, networks.average, constants), 2)
    one, two = (Shared(memory, i, networks.network, networks.average, constants, None) for i in range(2))
    gradient = torch.ones_like(one.gradient)
    one.pull()
    for _ in range(3):
        two.pull()
        two.push(gradient, 1e-3)
    one.push(gradient, 1e-3)
    assert (one.staleness, two.staleness) == (3, 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"shards": 3, "actors": 2},
        {"shards": 2, "actors": 2, "gradient_precision": "bfloat16"},
        {"shards": 2, "actors": 1, "processes_per_actor": 3},
        {"actors": 1, "processes_per_actor": 2, "overlap": False},
    ],
    ids=["shards", "bfloat16", "group", "group without overlap"],
)
def test_everybody_on_a_cluster_works_and_nothing_is_counted_twice(settings, cluster, tmp_path):
    class UntilMeasured(Until):
        def on_rollout(self, run, report):
            measured = run.metrics.get("pushes_per_second", 0) > 0  # it takes two looks, a second apart
            return super().on_rollout(run, report) or (run.steps < 100_000 and not measured)

    model = ACER("Pendulum-v1", home="ray", cpus_per_actor=0.25, log_every=400, **settings, **SMALL)
    before = model._training.state.home.theta.clone()
    model.learn(1_000_000, out=tmp_path / "run", callbacks=[UntilMeasured(3_000)])
    state, team = model._training.state, settings["actors"] * settings.get("processes_per_actor", 1)
    assert torch.isfinite(state.home.theta).all() and not torch.equal(state.home.theta, before)
    assert state.home.moments.count == model.steps >= 3_000  # each step observed once
    assert len(state.actors) == team and all(len(actor.blocks) for actor in state.actors)
    assert len(latest(tmp_path / "run").state["random_streams"]) == team
    rows = [row for row in csv.DictReader((tmp_path / "run" / "progress.csv").open()) if row["server_busy"]]
    assert max(float(row["pushes_per_second"]) for row in rows) > 0
    assert 0 < max(float(row["server_busy"]) for row in rows) < 2
    lengths = sum(int(row["length"]) for row in csv.DictReader((tmp_path / "run" / "episodes.csv").open()))
    assert lengths <= model.steps


# ------------------------------------------------------------------ parameter servers


class Direct:
    """A line to a shard of this process: each request is answered at once."""

    def __init__(self, shard):
        self.shard, self.client = shard, Client()

    def send(self, request):
        self.answer = self.shard.answer(request, self.client)

    def receive(self):
        return self.answer

    def close(self):
        pass


def vectors(numbers, averaged):
    rng = np.random.default_rng(0)
    return [rng.normal(size=size).astype(np.float32) for size in (numbers, averaged, numbers)]


def shards_of(whole, count, interval=0.0):
    return [Shard(part, Constants(0.99, 0.99, 1e-6), interval) for part in parts(whole, count)]


def remote(lines, numbers, averaged, moments=None, **settings):
    config = defaults("CartPole-v1", False, home="ray", **settings)
    places = torch.zeros(numbers), torch.zeros(averaged), torch.zeros(numbers)
    return Remote(lines, config, places, Constants(0.99, 0.99, 1e-6), moments)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_shards_together_are_one_server(count):
    """Updates number by number, with a clipping factor that the whole gradient's norm decided."""
    theta, theta_a, square = vectors(101, 60)
    whole = Part(theta, theta_a, np.abs(square), 5, 1)
    shards = shards_of(whole, count)
    home = remote([Direct(shard) for shard in shards], 101, 60, overlap=False, shards=count)
    local = [torch.from_numpy(array.copy()) for array in (theta, theta_a, np.abs(square))]
    for seed in range(5):
        gradient = torch.randn(101, generator=torch.Generator().manual_seed(seed))
        norm, factor = clip_by_norm(gradient, 2.0)
        assert norm > 2
        home.count(3)
        home.push(gradient, 1e-2, factor)
        descend(*local, gradient, 1e-2, Constants(0.99, 0.99, 1e-6), factor)
    home.pull()
    together = joined([shard.whole() for shard in shards])
    for its, mine in zip((together.theta, together.theta_a, together.square), local, strict=True):
        np.testing.assert_array_equal(its, mine.numpy())
    torch.testing.assert_close(home.theta, local[0], rtol=0, atol=0)
    torch.testing.assert_close(home.theta_a, local[1], rtol=0, atol=0)
    assert (together.steps, together.skipped) == (home.steps, home.skipped) == (20, 1)


@pytest.mark.parametrize("overlap", [False, True])
def test_what_is_told_by_itself_brings_no_parameters_that_nobody_takes(overlap):
    """The server would think that the client has them."""
    whole = Part(*(np.ones(size, np.float32) for size in (30_000, 20_000, 30_000)))
    (shard,) = shards_of(whole, 1)
    home = remote([Direct(shard)], 30_000, 20_000, overlap=overlap)
    for _ in range(4):
        home.pull()
        home.push(torch.ones(30_000), 1e-2)
        home.count(20)
        home.flush()
        home.pull()
        assert len(home._flying) <= 2 * overlap
    while not home.arrived():
        time.sleep(0.01)
    home.pull()
    while not home.arrived():
        time.sleep(0.01)
    assert torch.equal(home.theta, shard.theta) and home.steps == 80


def test_a_client_gets_parameters_no_more_often_than_asked(monkeypatch):
    """Those that are too large for every answer."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    whole = Part(*(np.zeros(size, np.float32) for size in (30_000, 20_000, 30_000)))
    (shard,) = shards_of(whole, 1, interval=0.05)
    one, other = Client(), Client()
    push = Request(np.ones(30_000, np.float32), 1e-3)
    first = shard.answer(Request(want=NEW), one)
    assert first.theta is not None and first.theta_a is not None and first.staleness == -1
    for _ in range(10):
        answer = shard.answer(push, one)
        assert answer.theta is None and answer.theta_a is None
    assert (answer.staleness, answer.updates) == (9, 10)
    assert shard.answer(push, other).theta is not None  # to each in its own time
    now[0] += 0.06
    answer = shard.answer(push, one)
    assert answer.theta is not None and answer.theta_a is None  # θ_a travels less often
    now[0] += 0.5
    assert shard.answer(push, one).theta_a is not None
    fresh = shard.answer(Request(want=NEW), one)
    assert fresh.theta is None and fresh.theta_a is None  # nothing has changed since
    counters = shard.answer(replace(push, want=COUNTERS), one)
    now[0] += 9
    assert counters.theta is None and shard.answer(Request(want=MOMENTS), one).theta is None


def test_an_average_that_is_not_sent_follows_theta():
    """θ_a of k updates ago and today's θ: α^k θ_a + (1 − α^k) θ, and once it is sent, what is sent."""
    theta, theta_a, square = vectors(10, 10)
    (shard,) = shards_of(Part(theta, theta_a, np.abs(square)), 1)
    home = remote([Direct(shard)], 10, 10)
    newer = torch.ones(10).numpy()
    home._take([Answer(0, 0, 0, 3, theta=newer)])
    torch.testing.assert_close(home.theta_a, 0.99**3 * torch.from_numpy(theta_a) + (1 - 0.99**3) * torch.ones(10))
    home._take([Answer(0, 0, 0, 3, theta_a=2 * newer)])
    torch.testing.assert_close(home.theta_a, torch.full((10,), 2.0))


@pytest.mark.parametrize("overlap", [True, False])
def test_what_was_observed_is_heard_of_once(overlap):
    """With overlap it travels with the next request, or with the last; each value counts once."""
    theta, theta_a, square = vectors(10, 10)
    (shard,) = shards_of(Part(theta, theta_a, np.abs(square), moments=Moments((3,))), 1)
    home = remote([Direct(shard)], 10, 10, Moments((3,)), overlap=overlap)
    values = np.random.default_rng(0).normal(3, 2, size=(7, 5, 3))
    for part in values:
        home.observe(part)
        home.push(torch.ones(10), 1e-3)
        home.pull()
    home.observe(values[0])
    home.flush()
    home.flush()
    everything = np.concatenate([*values, values[0]])
    assert shard.moments.count == 40
    np.testing.assert_allclose(shard.moments.mean, everything.mean(0))
    np.testing.assert_allclose(shard.moments.variance, everything.var(0))
    home.pull()
    home.pull()
    assert home.moments.count == 40


def test_a_gradient_on_its_way_is_not_the_one_that_is_computed_next():
    """The actor-learner fills its vector again while a push waits to be sent."""
    theta, theta_a, square = vectors(10, 10)
    (shard,) = shards_of(Part(theta, theta_a, np.abs(square)), 1)
    line, gate = Direct(shard), threading.Event()
    home = remote([line], 10, 10)
    sent, line.send = line.send, lambda request: (gate.wait(10), sent(request))
    before = shard.theta.clone()
    home.push(home.gradient, 1e-3)  # zeros
    home.gradient.fill_(1.0)
    gate.set()
    home.pull()
    home.pull()
    assert shard.updates == 1 and torch.equal(shard.theta, before)


def test_bfloat16_is_applied_as_what_it_stands_for():
    """The same bits as with the widened gradient, in one pass or several."""
    for one_pass in (True, False):
        constants = Constants(0.99, 0.99, 1e-6, one_pass)
        generator = torch.Generator().manual_seed(0)
        gradient = torch.randn(10_000, generator=generator).bfloat16()
        narrow, wide = ([torch.randn(size, generator=torch.Generator().manual_seed(size)).abs()
                         for size in (10_000, 9_000, 10_000)] for _ in range(2))  # fmt: skip
        descend(*narrow, gradient, 1e-2, constants, 0.5)
        descend(*wide, gradient.float(), 1e-2, constants, 0.5)
        assert all(torch.equal(one, other) for one, other in zip(narrow, wide, strict=True))


# ------------------------------------------------------------------ the wire


SECRET = bytes(range(32))


@pytest.fixture
def served():
    """A server on the loopback interface, with one number that it counts up; where it is, and what it was asked."""
    listener, asked = wire.listen("127.0.0.1"), []
    sizes = Sizes(5, 0, 7)

    def answer(request):
        copies = [None if part is None else part.copy() for part in (request.gradient, request.observed)]
        asked.append(replace(request, gradient=copies[0], observed=copies[1]))
        if request.seen == 13:
            raise ConnectionAbortedError
        return Answer(1, 2, 3, 2**40, np.arange(5, dtype=np.float32), np.empty(0, np.float32),
                      np.arange(7.0) if request.observed is not None else None)  # fmt: skip

    def welcome():
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=wire.serve, args=(connection, SECRET, sizes, answer), daemon=True).start()

    threading.Thread(target=welcome, daemon=True).start()
    yield listener.getsockname(), sizes, asked
    listener.close()


def test_what_is_sent_over_the_wire_arrives(served):
    address, sizes, asked = served
    line = TcpLine(address, SECRET, sizes)
    requests = [
        Request(np.arange(5, dtype=np.float32), 0.1, 0.7, 2**33, 10, 1, np.arange(7.0), NEW),
        Request(want=COUNTERS),
        Request(np.arange(5, dtype=np.int16), seen=-1),
    ]
    for request in requests:
        line.send(request)
        answer = line.receive()
        assert (answer.steps, answer.skipped, answer.staleness, answer.updates) == (1, 2, 3, 2**40)
        np.testing.assert_array_equal(answer.theta, np.arange(5))
        assert answer.theta_a.size == 0 and (answer.moments is None) == (request.observed is None)
    for its, mine in zip(asked, requests, strict=True):
        for name in ("gradient", "observed"):
            np.testing.assert_array_equal(getattr(its, name), getattr(mine, name))
            assert getattr(its, name) is None or getattr(its, name).dtype == getattr(mine, name).dtype
        assert replace(its, gradient=None, observed=None) == replace(mine, gradient=None, observed=None)
    line.close()


def test_who_does_not_know_the_secret_is_not_heard(served):
    address, sizes, asked = served
    with pytest.raises(WireLost, match="secret"):
        TcpLine(address, bytes(32), sizes)
    with socket.create_connection(address) as stranger:  # who says the server's own words back to it
        word = stranger.recv(32, socket.MSG_WAITALL)
        stranger.sendall(word)
        stranger.sendall(stranger.recv(32, socket.MSG_WAITALL))
        stranger.settimeout(10)
        with suppress(ConnectionResetError):
            stranger.sendall(bytes(wire.REQUEST.size))
            assert not stranger.recv(1)
    assert not asked


def test_a_server_that_is_gone_is_said_to_be(served):
    address, sizes, _ = served
    line = TcpLine(address, SECRET, sizes)
    line.send(Request(seen=13))
    with pytest.raises(WireLost, match=f"127.0.0.1:{address[1]}"):
        line.receive()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
    with pytest.raises(WireLost, match="refused"):
        TcpLine(("127.0.0.1", port), SECRET, sizes)


def test_what_bfloat16_rounds_away_is_sent_later():
    """The sum of what was sent stays within one rounding of the sum of the gradients; without feedback it drifts."""
    gradient, error, sent = torch.full((4,), 1.0 + 2.0**-9), torch.zeros(4), torch.zeros(4)
    for _ in range(64):
        wire = packed(gradient, "bfloat16", error)
        assert wire.nbytes == 8
        sent += unpacked(wire)
    assert float((sent - 64 * gradient).abs().max()) <= 2.0**-7
    assert float((64 * gradient.bfloat16().float() - 64 * gradient).abs().max()) > 0.1


# ------------------------------------------------------------------ deaths


@pytest.mark.parametrize(
    ("home", "how"),
    [
        *(("shared", how) for how in ("raise", "kill", "leave")),
        *(("ray", how) for how in ("raise", "kill")),
        pytest.param("ray", "leave", marks=pytest.mark.slow),
    ],
)
def test_an_actor_that_dies_is_started_again(home, how, tmp_path, request, capfd):
    if home == "ray":
        request.getfixturevalue("cluster")
    deaths = tmp_path / "deaths"
    deaths.touch()
    env = partial(Mortal, str(deaths), how, 150, 2)
    settings = {**SMALL, "environments": 1, "trajectory_length": 10, "replay_start": 20}
    model = ACER(env, home=home, actors=2, **settings).learn(1_200)
    assert deaths.stat().st_size == 2 and model.steps >= 1_200
    assert torch.isfinite(model._training.state.home.theta).all()
    said = " ".join(capfd.readouterr().err.split())
    assert "a new one starts" in said
    if how == "raise":
        assert "the gearbox is stuck" in said and "in step" in said  # the environment's own traceback
    elif home == "shared":
        assert {"kill": "killed by SIGKILL", "leave": "ended with code 0"}[how] in said


@pytest.mark.slow
def test_a_process_of_a_group_that_is_killed_is_started_again(cluster, tmp_path, capfd):
    """Its group goes on meanwhile, and no step is counted twice."""
    deaths = tmp_path / "deaths"
    deaths.touch()
    env = partial(Mortal, str(deaths), "kill", 150, 2)
    settings = {**SMALL, "environments": 1, "trajectory_length": 10, "replay_start": 20}
    model = ACER(env, home="ray", actors=1, processes_per_actor=2, cpus_per_actor=0.25, **settings)
    model.learn(1_000_000, out=tmp_path / "run", callbacks=[Until(3_000)])
    said = " ".join(capfd.readouterr().err.split())
    assert deaths.stat().st_size == said.count("killed by SIGKILL") == said.count("a new one starts") == 2
    state = model._training.state
    assert len(state.actors) == 2 and all(len(actor.blocks) for actor in state.actors)
    lengths = sum(int(row["length"]) for row in csv.DictReader((tmp_path / "run" / "episodes.csv").open()))
    assert 0 < lengths <= model.steps and torch.isfinite(state.home.theta).all()


@pytest.mark.parametrize("home", ["shared", "ray"])
def test_deaths_in_a_row_end_the_run_with_a_checkpoint(home, tmp_path, request):
    if home == "ray":
        request.getfixturevalue("cluster")
    deaths = tmp_path / "deaths"
    deaths.touch()
    env = partial(Mortal, str(deaths), "raise", 5, 1_000)
    model = ACER(env, home=home, actors=2, most_deaths=2, **{**SMALL, "trajectory_length": 10})
    with pytest.raises(EnvironmentFault, match=r"died 2 times in a row.*the gearbox is stuck"):
        model.learn(1_000, out=tmp_path / "run")


def test_what_a_worker_did_before_it_died_is_told_first():
    class Learner:
        steps = 0
        agent = SimpleNamespace(home=SimpleNamespace(flush=lambda: told.append("counts")))
        rollout = SimpleNamespace(env=SimpleNamespace(close=lambda: told.append("closed")))

        def iterate(self):
            self.steps += 1
            if self.steps == 3:
                raise RuntimeError("the gearbox is stuck")
            return self.steps

    told = []
    team = Alone(SimpleNamespace(config=SimpleNamespace(steps=100)), None)
    team.learner = Learner()
    assert team.work() == [(0, 1), (0, 2)]
    assert told == ["counts", "closed"]
    ((number, death),) = team.work()
    assert number == 0 and "the gearbox is stuck" in death.reason


def test_numbers_that_are_not_finite_end_the_run_of_all(tmp_path):
    model = ACER("CartPole-v1", home="shared", actors=2, most_skipped=2, **SMALL)
    model._training.state.home.theta.fill_(float("nan"))
    with pytest.raises(LearningFault):
        model.learn(2_000, out=tmp_path / "run")


COMMAND = [sys.executable, "-m", "acer", "train", "CartPole-v1", "--home", "shared", "--quiet", "--out", "run"]
FLAGS = ["--envs-per-actor", "4", "--hidden", "16"]


def began(run: Path, process: "subprocess.Popen[bytes]") -> None:
    """Waits until a run has written something down."""
    until = time.monotonic() + 60
    while time.monotonic() < until and process.poll() is None:
        if (run / "progress.csv").exists() and len((run / "progress.csv").read_text().splitlines()) > 1:
            return
        time.sleep(0.1)
    pytest.fail("the run did not begin")


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_no_process_outlives_its_run(number, tmp_path):
    """Ctrl-C and SIGTERM save and end every process; if the run is killed, its processes end by themselves."""
    shared_before = set(os.listdir("/dev/shm"))
    process = subprocess.Popen([*COMMAND, *FLAGS, "--actors", "3", "--steps", "10000000"], cwd=tmp_path,
                               stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    began(tmp_path / "run", process)
    below = children(process.pid)
    assert len(actors(process.pid)) == 3
    if number == signal.SIGINT:  # as a terminal does: to everybody
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, said = process.communicate(timeout=60)
    until = time.monotonic() + 20
    while any(Path(f"/proc/{pid}").exists() for pid in below) and time.monotonic() < until:
        time.sleep(0.1)
    assert not [pid for pid in below if Path(f"/proc/{pid}").exists()]
    assert not {name for name in set(os.listdir("/dev/shm")) - shared_before if name.startswith("torch")}
    if number != signal.SIGKILL:
        assert process.returncode == 130 and b"acer resume run" in said, said
        state = latest(tmp_path / "run").state
        assert len(state["random_streams"]) == 3


@pytest.mark.slow
def test_a_kill_every_five_seconds_for_two_minutes(tmp_path):
    """The run goes on, no step is counted twice, and CartPole still reaches its mark."""
    process = subprocess.Popen([*COMMAND, "--envs-per-actor", "4", "--actors", "4", "--steps", "400000"],
                               cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True)  # fmt: skip
    began(tmp_path / "run", process)
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.extend(process.stderr))
    reader.start()
    rng, kills, until = np.random.default_rng(0), 0, time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        time.sleep(5)
        alive = actors(process.pid)
        if alive and process.poll() is None:
            os.kill(int(rng.choice(alive)), signal.SIGKILL)
            kills += 1
    assert process.wait(600) == 0
    reader.join()
    text = b"".join(said).decode()
    assert kills >= 15 and len(re.findall("a new one starts", text)) >= kills - 1
    rows = list(csv.DictReader((tmp_path / "run" / "progress.csv").open()))
    counted = [int(row["steps"]) for row in rows]
    assert counted == sorted(set(counted))
    lengths = sum(int(row["length"]) for row in csv.DictReader((tmp_path / "run" / "episodes.csv").open()))
    assert lengths <= counted[-1]  # an episode of a killed actor is lost, none is counted twice
    model = ACER.load(tmp_path / "run")
    assert torch.isfinite(model._training.state.home.theta).all()
    assert model.evaluate(100, seed=1000).mean >= CARTPOLE_MARK


@pytest.mark.parametrize("shards", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_a_lost_shard_sends_the_run_back_to_its_checkpoint(shards, cluster, tmp_path, capfd):
    """Its process killed in mid-run: the run goes on from the last checkpoint by itself."""

    class Kill(Callback):
        done = False

        def on_rollout(self, training, report):
            if training.steps > 2_000 and not self.done:
                self.done = True
                ray.kill(training._run._workers._shards[-1])

    killing = Kill()
    model = ACER("CartPole-v1", home="ray", actors=2, shards=shards, checkpoint_every=500, steps=4_000, **SMALL)
    model.learn(4_000, out=tmp_path / "run", callbacks=[killing])
    assert killing.done and model.steps >= 4_000
    assert "going on from" in " ".join(capfd.readouterr().err.split())
    steps = [int(row["steps"]) for row in csv.DictReader((tmp_path / "run" / "progress.csv").open())]
    assert steps == sorted(set(steps))
    episodes = sum(1 for _ in (tmp_path / "run" / "episodes.csv").open()) - 1
    assert episodes == model._training.state.meter.episodes


@pytest.mark.slow
def test_a_lost_holder_does_not_begin_another_ray(tmp_path):
    """A Ray that the run itself started ends with its workers; going on starts one again, and ends that, too."""
    (tmp_path / "script.py").write_text("""
import ray
from acer import ACER, Callback

class Kill(Callback):
    done = False
    def on_rollout(self, training, report):
        if training.steps > 600 and not self.done:
            self.done = True
            ray.kill(training._run._workers._shards[-1])

if __name__ == "__main__":
    model = ACER("CartPole-v1", home="ray", actors=1, environments=4, hidden=(16,), checkpoint_every=200)
    killing = Kill()
    model.learn(1_200, out="run", callbacks=[killing])
    assert killing.done and model._training.steps >= 1_200
    assert not ray.is_initialized()
""")
    result = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=240,
                            check=False)  # fmt: skip
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_a_removed_node_loses_its_actors_only(tmp_path):
    """Two Ray nodes on this machine: one goes in mid-run, another comes, and all actor-learners work again."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR",
             runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}})  # fmt: skip
    seen: dict[str, list[int]] = {}

    class Watch(Callback):
        at = time.monotonic()
        phase = "both"

        def on_rollout(self, training, report):
            members = training._run._workers.members
            seen[self.phase] = [member.steps for member in members]
            elapsed = time.monotonic() - self.at
            if self.phase == "both" and elapsed > 10 and all(seen["both"]):
                nodes.remove_node(second)
                self.phase, self.at = "one", time.monotonic()
            elif self.phase == "one" and elapsed > 25:
                nodes.add_node(num_cpus=1)
                self.phase, self.at = "again", time.monotonic()
            elif self.phase == "again" and all(
                now > then for now, then in zip(seen["again"], seen["one"], strict=True)
            ):
                return False
            return elapsed < 90

    try:
        model = ACER("CartPole-v1", home="ray", actors=2, steps=10**8, **SMALL)
        model.learn(10**8, out=tmp_path / "run", callbacks=[Watch()])
        both, one, again = seen["both"], seen["one"], seen["again"]
        assert sum(now > then + 1_000 for now, then in zip(one, both, strict=True)) == 1  # the other node's went on
        assert all(now > then for now, then in zip(again, one, strict=True))
        assert torch.isfinite(model._training.state.home.theta).all()
    finally:
        ray.shutdown()
        nodes.shutdown()


@pytest.mark.slow
def test_what_dies_on_two_nodes_with_two_shards(tmp_path, capfd):
    """One after the other: a worker, a shard, a node with a shard and a worker on it; then a node comes and is used.
    The run goes on by itself, and nothing is counted twice."""
    from ray.cluster_utils import Cluster

    ray.shutdown()
    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    second = nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False, logging_level="ERROR",
             runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}})  # fmt: skip

    def where(actor):
        return ray.get(actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id()))

    class Watch(Callback):
        def __init__(self):
            self.phases, self.nodes_of_shards = [], set()
            self.workers, self.at = None, []  # at the beginning of the phase

        def on_rollout(self, training, report):
            workers = training._run._workers
            steps = [member.steps for member in workers.members]
            if not self.phases:
                if all(steps) and training._run._checkpointed:
                    self.nodes_of_shards = {where(shard) for shard in workers._shards}
                    ray.kill(workers._workers[0], no_restart=False)
                    self.next("worker", workers, steps)
            elif self.phases[-1] == "worker":
                if workers.members[0].restarts and self.all_went_on(steps):
                    ray.kill(workers._shards[-1])
                    self.next("shard", workers, [0, 0])
            elif self.phases[-1] == "shard":
                if workers is not self.workers and all(steps):
                    nodes.remove_node(second)
                    self.next("node", workers, [0, 0])
            elif self.phases[-1] == "node":
                if workers is not self.workers and any(steps):
                    nodes.add_node(num_cpus=1)
                    self.next("back", workers, [0, 0])
            elif self.phases[-1] == "back" and all(steps):
                self.phases.append("all")
            return self.phases[-1:] != ["all"]

        def next(self, phase, workers, steps):
            self.phases.append(phase)
            self.workers, self.at = workers, steps

        def all_went_on(self, steps):
            return all(now > then for now, then in zip(steps, self.at, strict=True))

    watch = Watch()
    try:
        model = ACER("CartPole-v1", home="ray", actors=2, shards=2, checkpoint_every=500, steps=10**8, **SMALL)
        model.learn(10**8, out=tmp_path / "run", callbacks=[watch])
        assert watch.phases == ["worker", "shard", "node", "back", "all"]
        assert len(watch.nodes_of_shards) == 2
        assert " ".join(capfd.readouterr().err.split()).count("going on from") == 2
        counted = [int(row["steps"]) for row in csv.DictReader((tmp_path / "run" / "progress.csv").open())]
        assert counted == sorted(set(counted))
        lengths = [int(row["length"]) for row in csv.DictReader((tmp_path / "run" / "episodes.csv").open())]
        assert len(lengths) == model._training.state.meter.episodes and sum(lengths) <= counted[-1]
        assert torch.isfinite(model._training.state.home.theta).all()
    finally:
        ray.shutdown()
        nodes.shutdown()


# ------------------------------------------------------------------ bad input


def acer(*arguments, cwd, **environment):
    return subprocess.run([sys.executable, "-m", "acer", *map(str, arguments)], cwd=cwd, capture_output=True, text=True,
                          timeout=120, env={**os.environ, **environment}, check=False)  # fmt: skip


def one_line(result, *words):
    assert result.returncode == 2, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("acer: "), result.stderr
    assert all(word in lines[0] for word in words), lines[0]


def test_ray_that_is_not_installed_is_named(tmp_path):
    (tmp_path / "ray.py").write_text("raise ModuleNotFoundError(\"No module named 'ray'\", name='ray')")
    result = acer("train", "CartPole-v1", "--home", "ray", "--out", "run", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    one_line(result, "pip install 'acer-rl[ray]'")
    assert not (tmp_path / "run").exists()


def test_a_cluster_that_does_not_answer_is_named(tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"127.0.0.1:{port}"
    result = acer("train", "CartPole-v1", "--home", "ray", "--ray-address", address, "--out", "run", cwd=tmp_path)
    one_line(result, address, "ray start --head")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("address", ["ray://host:10001", "name://code", "local", "os:system", "host:6379/x", "host"])
def test_only_an_address_is_an_address(address):
    """Ray imports the module that an address of the form name://… names, and starts a cluster for `local`."""
    with pytest.raises(SettingsError, match="must be host:port"):
        join(address)


def listening(pids):
    """Local addresses, in hexadecimal, on which processes listen."""
    sockets = set()
    for pid in pids:
        for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
            try:
                sockets.add(os.readlink(descriptor))
            except OSError:
                continue
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                found.append(fields[1].split(":")[0])
    return found


def test_a_ray_that_is_started_here_listens_on_loopback_only(tmp_path):
    """Every process of it, and with a token."""

    script = """
import os, ray
from acer import ACER, Callback
class Look(Callback):
    def on_rollout(self, training, report):
        print(os.environ.get("RAY_AUTH_MODE"), flush=True)
        input()
        return False
if __name__ == "__main__":
    ACER("CartPole-v1", home="ray", actors=1, environments=4, hidden=(16,)).learn(10**6, callbacks=[Look()])
"""
    (tmp_path / "script.py").write_text(script)
    environment = {name: value for name, value in os.environ.items() if name != "RAY_AUTH_MODE"}
    process = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, text=True, env=environment,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        mode = process.stdout.readline().strip()
        places = listening({process.pid, *children(process.pid)})
    finally:
        process.communicate("\n", timeout=120)
    assert len(places) >= 5
    assert set(places) <= {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}, places
    if tuple(map(int, ray.__version__.split(".")[:2])) >= (2, 60):
        assert mode == "token"


@pytest.mark.slow
def test_a_cluster_with_a_token_is_joined_with_it_only(tmp_path):
    """Another token, or none, is one line; with the right one the run trains there."""
    script = """
import ray
ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
print(ray.get_runtime_context().gcs_address, flush=True)
input()
"""
    token = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "a" * 64,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    head = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, **token}, text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # fmt: skip
    try:
        address = head.stdout.readline().strip()
        flags = ("train", "CartPole-v1", "--home", "ray", "--ray-address", address, "--actors", 1, "--steps", 300)
        wrong = acer(*flags, "--out", "wrong", cwd=tmp_path, **{**token, "RAY_AUTH_TOKEN": "b" * 64})
        one_line(wrong, "token")
        none = acer(*flags, "--out", "none", cwd=tmp_path, **{**token, "RAY_AUTH_MODE": "disabled"})
        one_line(none, "token")
        assert not (tmp_path / "wrong").exists() and not (tmp_path / "none").exists()
        right = acer(*flags, "--out", "right", cwd=tmp_path, **token)
        assert right.returncode == 0, right.stderr
        assert (tmp_path / "right" / "checkpoints").exists() and "without a token" not in right.stderr
    finally:
        head.communicate("\n", timeout=60)


def test_more_actors_than_the_cluster_has_cpus_are_refused(cluster):
    with pytest.raises(SettingsError, match=r"50 actor-learners need 50 CPUs.*cpus_per_actor"):
        ACER("CartPole-v1", home="ray", actors=50, **SMALL).learn(100)


@pytest.mark.parametrize("home", ["shared", "ray"])
def test_more_actors_than_memory_holds_are_refused(home, tmp_path):
    result = acer("train", "CartPole-v1", "--home", home, "--actors", 1_000_000, "--out", "run", cwd=tmp_path)
    one_line(result, "GB", "fewer --actors")


def test_an_environment_that_cannot_be_pickled_is_named():
    lock = threading.Lock()

    def make():
        assert lock
        return Mortal("x")

    with pytest.raises(SettingsError, match="make cannot be sent to another process"):
        ACER(make, home="shared", actors=2, **SMALL).learn(100)


def test_settings_of_another_home_are_refused():
    for settings, said in (
        ({"actors": 4}, "--home shared and --home ray"),
        ({"ray_address": "auto", "home": "shared"}, "--home ray"),
        ({"overlap": False}, "--home ray"),
        ({"shards": 2, "home": "shared"}, "--home ray"),
        ({"processes_per_actor": 2}, "--home ray"),
        ({"home": "ray", "overlap": False, "publish_interval": 10.0}, "--home ray with --overlap"),
        ({"home": "ray", "device": "cuda"}, "leave out --device"),
        ({"home": "shared", "actors": -1}, "must not be negative"),
    ):
        with pytest.raises(SettingsError, match=said):
            defaults("CartPole-v1", False, **settings)


def test_the_papers_setting_is_one_line():
    """16 actor-learners with one environment each, which update one by one."""
    config = defaults("CartPole-v1", False, home="shared", actors=16, environments=1)
    assert config.trajectories_per_update == 1


def test_updates_of_other_processes_cannot_be_watched():
    class Watch(Callback):
        def on_update(self, training, diagnostics):
            pass

    with pytest.raises(SettingsError, match="on_update"):
        ACER("CartPole-v1", home="shared", actors=2, **SMALL).learn(100, callbacks=[Watch()])


def test_a_script_without_a_guard_is_told_so(tmp_path):
    script = "from acer import ACER\nACER('CartPole-v1', home='shared', actors=2, hidden=(8,)).learn(500)\n"
    (tmp_path / "script.py").write_text(script)
    result = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120,
                            check=False)  # fmt: skip
    assert result.returncode != 0 and "__main__" in result.stderr


def test_processes_are_workers():
    assert {"start", "wait", "fetch", "states", "stop", "kill"} <= set(dir(WorkerProcesses))
