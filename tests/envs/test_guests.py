"""Environments are guests: whatever they raise ends in a named error, whatever they change has no effect."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

from acer import ACER
from acer.envs import make_batch
from acer.envs.episodes import LONGEST, Actions, Replayable
from acer.errors import FAILED, EnvironmentFault
from run_files import latest

SMALL = {"hidden": (8,), "trajectory_length": 5, "replay_capacity": 100, "replay_start": 40, "eval_episodes": 1,
         "eval_limit": 20, "checkpoint_minutes": 0.0, "threads": 1}  # fmt: skip


class Guest(gym.Env):
    """Behaves, but for one deed at its 40th step, at its third reset, or when it is made."""

    observation_space = gym.spaces.Box(-10, 10, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, deed: str = "", when: str = "step") -> None:
        self.deed, self.when = deed, when
        self.steps = self.resets = 0
        if when == "made":
            DEEDS[deed]()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.resets += 1
        if self.when == "reset" and self.resets == 3:
            DEEDS[self.deed]()
        self.at = 0
        return self.np_random.normal(size=2).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        self.at += 1
        if self.when == "step" and self.steps == 40:
            DEEDS[self.deed]()
        x = np.clip(self.np_random.normal(size=2), -10, 10).astype(np.float32)
        return x, float(action), self.at == 13, False, {}


def throw(error):
    raise error


def fork():
    if os.fork() == 0:
        return  # the copy goes on as if it were the run
    os.wait()


def take_signals():
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, lambda *_: None)


def reseed():
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)


def wait_in_c(seconds):
    """Without the interpreter's lock: its thread goes on."""
    import ctypes

    ctypes.CDLL(None).sleep(seconds)


def hold_the_interpreter(seconds):
    import ctypes

    ctypes.PyDLL(None).sleep(seconds)


def wait_in_c_for_good():
    while True:  # Python's alarm only comes between two calls; this one never ends by itself
        wait_in_c(10_000)


class Unspeakable(Exception):
    def __str__(self):
        raise SystemExit(0)


def close_everything():
    """As a daemon begins; others take the numbers."""
    for name in os.listdir("/proc/self/fd"):
        path = f"/proc/self/fd/{name}"
        if int(name) > 2 and os.path.isdir(path) and not os.readlink(path).startswith("/proc"):
            os.close(int(name))
            os.dup2(1, int(name))


RAISED = {
    "SystemExit": partial(throw, SystemExit(0)),
    "GeneratorExit": partial(throw, GeneratorExit()),
    "KeyboardInterrupt": partial(throw, KeyboardInterrupt()),
    "CancelledError": partial(throw, asyncio.CancelledError()),
    "StopIteration": partial(throw, StopIteration()),
    "RecursionError": partial(throw, RecursionError("deep\x1b[2J")),
    "Unspeakable": partial(throw, Unspeakable()),
    "ValueError": partial(throw, ValueError("x" * 10**7)),
}
CHANGED = {
    "gradients": partial(torch.set_grad_enabled, False),
    "dtype": partial(torch.set_default_dtype, torch.float64),
    "device": partial(torch.set_default_device, "meta"),
    "recursion": partial(sys.setrecursionlimit, 150),
    "threads": partial(torch.set_num_threads, 2),
    "float errors": partial(np.seterr, all="raise"),
    "warnings": partial(warnings.simplefilter, "error"),
    "random": reseed,
    "fork": fork,
    "signals": take_signals,
    "nothing": lambda: None,
}
HOMES = {"local": {}, "workers": {"workers": True}, "shared": {"home": "shared", "actors": 1, "most_deaths": 1}}
DEEDS = {
    **RAISED,
    **CHANGED,
    "directories": close_everything,
    "wait": wait_in_c_for_good,
    "hold": partial(hold_the_interpreter, 10_000),
}


@pytest.fixture(autouse=True)
def _as_it_was():
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("deed", "when", "how"),
    [
        *((deed, when, "local") for deed in RAISED for when in ("step", "reset")),
        *((deed, "step", how) for deed in ("SystemExit", "KeyboardInterrupt") for how in ("workers", "shared")),
    ],
)
def test_whatever_it_raises_is_named_and_the_run_is_saved(deed, when, how, tmp_path):
    model = ACER(partial(Guest, deed, when), environments=2, trajectories_per_update=2, **HOMES[how], **SMALL)
    with pytest.raises(EnvironmentFault, match=deed) as error:
        model.learn(2_000, out=tmp_path / "run")
    model.close()
    assert error.value.exit_code == FAILED and "\n" not in str(error.value) and len(str(error.value)) < 5_000
    assert latest(tmp_path / "run").state["steps"] >= (0 if how == "shared" else 40)


@pytest.mark.parametrize("deed", sorted(RAISED.keys() - {"KeyboardInterrupt"}))  # outside a run that is Ctrl-C
def test_one_that_cannot_be_made_is_named(deed):
    with pytest.raises(EnvironmentFault, match=deed):
        ACER(partial(Guest, deed, "made"), **SMALL)


def learnt(deed: str, when: str, **how) -> torch.Tensor:
    model = ACER(partial(Guest, deed, when), environments=2, trajectories_per_update=2, **how, **SMALL).learn(400)
    model.close()
    return model.agent.home.theta.clone()


@pytest.fixture(scope="module")
def undisturbed():
    return learnt("nothing", "step")


@pytest.mark.parametrize(
    ("deed", "when", "workers"),
    [
        *((deed, when, False) for deed in CHANGED for when in ("step", "reset", "made")),
        *((deed, "step", True) for deed in ("fork", "gradients", "nothing")),
    ],
)
def test_what_it_changes_for_the_whole_process_has_no_effect(deed, when, workers, undisturbed):
    try:
        assert torch.equal(learnt(deed, when, workers=workers), undisturbed)
        assert torch.is_grad_enabled() and torch.get_default_dtype() == torch.float32
        assert np.geterr()["under"] == "ignore"
        assert not any(one[0] == "error" and one[2] is Warning for one in warnings.filters)
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)


def test_directories_that_it_closes_are_opened_again(tmp_path):
    out = tmp_path / "run"
    model = ACER(partial(Guest, "directories", "step"), environments=2, trajectories_per_update=2, **SMALL)
    model.learn(400, out=out)
    model.close()
    assert latest(out).state["steps"] >= 400 and (out / "progress.csv").read_text().count("\n") > 1


def acer(*args, **options):
    return subprocess.run([sys.executable, "-m", "acer", *map(str, args)], capture_output=True, text=True, check=False,
                          timeout=120, **options)  # fmt: skip


OWN = """
import os, sys
import gymnasium as gym, numpy as np

class Own(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (2,))
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def __init__(self):
        if {when!r} == "made":
            self.misbehave()

    def misbehave(self):
        {deed}

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {{}}

    def step(self, action):
        Own.steps += 1
        if Own.steps >= 150 and {when!r} == "step":
            self.misbehave()
        return np.full(2, Own.steps % 10, np.float32), 1.0, Own.steps % 20 == 0, False, {{}}
"""
FLAGS = ["--environments", 2, "--hidden", 8, "--trajectory-length", 10, "--replay-start", 40, "--quiet", "--steps", 600,
         "--eval-episodes", 1, "--eval-limit", 20, "--checkpoint-every", 200, "--log-every", 100]  # fmt: skip


def own(tmp_path: Path, deed: str, when: str = "step") -> Path:
    (tmp_path / "own.py").write_text(OWN.format(deed=deed, when=when))
    (tmp_path / "elsewhere").mkdir()
    return tmp_path


TAKEN = {
    "os.close(2)": "step",
    "os.close(1); os.close(2)": "step made",
    "sys.stderr.close()": "step",
    "sys.stdout.close()": "step",
    "sys.stdout = sys.stderr = None": "step made",
    "os.chdir('elsewhere')": "step made",
    "os.dup2(os.open('/dev/full', os.O_WRONLY), 2)": "step",
}


@pytest.mark.parametrize(
    ("deed", "when"),
    [
        pytest.param(deed, when, marks=[] if when in always else pytest.mark.slow)
        for deed, always in TAKEN.items()
        for when in ("step", "made")
    ],
)
def test_streams_and_directories_that_it_takes_away_cost_no_run(deed, when, tmp_path):
    once = f"os.environ.get('DONE') or (os.environ.update(DONE='1'), exec({deed!r}))"
    guest = own(tmp_path, once, when)
    done = acer("train", "own:Own", *FLAGS, "--out", "run", cwd=guest)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert latest(guest / "run").state["steps"] >= 600
    assert not list((guest / "elsewhere").iterdir())
    assert (guest / "run" / "progress.csv").read_text().count("\n") > 4


@pytest.mark.parametrize("then", ["goes on", "raises"])
def test_file_handles_that_it_uses_up_are_not_those_of_the_last_save(then, tmp_path):
    limit = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))"
    leak = "[os.open('/dev/null', 0) for _ in iter(int, 1)]"
    quietly = f"import contextlib\n        with contextlib.suppress(OSError): {leak}"
    guest = own(tmp_path, f"{limit}; {leak if then == 'raises' else quietly}")
    done = acer("train", "own:Own", *FLAGS, "--out", "run", cwd=guest)
    assert done.returncode == FAILED and "Traceback" not in done.stderr, done.stderr
    assert "own:Own: " in done.stderr and "cannot" not in done.stderr
    assert latest(guest / "run").state["steps"] >= 120


def test_a_limit_too_short_for_any_step_does_not_drown_in_alarms(tmp_path):
    done = acer("train", "CartPole-v1", *FLAGS, "--step-limit", 1e-9, "--steps", 100, "--out", tmp_path / "run")
    assert done.returncode in (0, FAILED) and "Traceback" not in done.stderr, done.stderr


def test_what_it_prints_is_no_result(tmp_path):
    guest = own(tmp_path, "print('hello'); os.write(1, b'from C\\n')")
    assert acer("train", "own:Own", *FLAGS, "--out", "run", cwd=guest).returncode == 0
    done = acer("eval", "run", "--env", "own:Own", "--episodes", 12, "--json", cwd=guest)
    assert done.stdout.startswith('{"episodes": 12') and done.stdout.count("\n") == 1
    assert "hello" in done.stderr and "from C" in done.stderr


@pytest.mark.parametrize("deed", ["wait", "hold"])
def test_a_hang_in_native_code_is_named_and_ends_with_exit_code_3(deed, tmp_path):
    call = "CDLL" if deed == "wait" else "PyDLL"
    # A lock that is taken twice: no signal ends that, as one would end a sleep.
    # Once there is a checkpoint: what holds the interpreter holds the thread that writes it, too.
    lock = "os.path.exists('run/checkpoints/LATEST') and (lock(mutex), lock(mutex))"
    native = f"import ctypes; mutex, lock = ctypes.create_string_buffer(64), ctypes.{call}(None).pthread_mutex_lock"
    guest = own(tmp_path, f"{native}; {lock}")
    began = time.monotonic()
    flags = [*FLAGS, "--steps", 100_000_000, "--step-limit", 2, "--checkpoint-every", 100]
    done = acer("train", "own:Own", *flags, "--out", "run", cwd=guest)
    assert done.returncode == FAILED, done.stderr
    said = " ".join(done.stderr.split())
    assert "own:Own: no answer within --step-limit" in said and 'own.py", line' in said and "misbehave" in said
    assert latest(guest / "run").state["steps"] >= 100
    assert time.monotonic() - began < 60


def test_a_hangup_saves_and_nohup_goes_on(tmp_path):
    flags = [*FLAGS, "--steps", 100_000_000, "--out", tmp_path / "run"]
    # The tests themselves may run under nohup, which children inherit.
    default = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL); from acer.cli import main; main()"
    command = [sys.executable, "-c", default, "train", "CartPole-v1", *map(str, flags)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while not (tmp_path / "run" / "checkpoints" / "LATEST").exists():
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGHUP)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130 and "acer resume" in said

    from acer.run.signals import stop_on_signals

    class Run:
        stopping = interrupted = False

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals(Run()):
            os.kill(os.getpid(), signal.SIGHUP)
        assert not Run.stopping
    finally:
        signal.signal(signal.SIGHUP, before)


# ------------------------------------------------------------------ endless episodes


def test_actions_of_an_endless_episode_take_bounded_memory():
    actions, chosen = Actions(), np.random.default_rng(0).integers(0, 2, LONGEST + 2_000)
    for n, action in enumerate(chosen):
        actions.add(action)
        if n == 300_000:
            assert np.array_equal(actions.array(), chosen[: n + 1]) and actions.array().nbytes == n + 1
            packed = sum(len(piece._bytes) for piece in actions._pieces)
            assert packed < 0.25 * n  # a quarter of a byte for each: 2 MB for a million steps of 8 environments
    assert actions.forgotten and len(actions.array()) == 0 and not actions._pieces


@pytest.mark.parametrize(
    "taken", [np.arange(3_000) - 5, np.arange(3_000) * 10**9, np.linspace(-1, 1, 3_000, dtype=np.float32), np.ones(10)]
)
def test_actions_are_remembered_exactly(taken):
    actions = Actions()
    for action in taken:
        actions.add(action)
    assert np.array_equal(actions.array(), taken) and actions.array().dtype in (taken.dtype, np.uint8)


class Choosy(gym.Env):
    """Wants its actions in the dtype of its space."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))

    def __init__(self, space):
        self.action_space = space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0.0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        assert np.asarray(action).dtype == self.action_space.dtype, np.asarray(action).dtype
        self.x = float(np.sum(action) - 200 + self.x)  # a byte would run over
        return np.array([self.x], np.float32), 0.0, False, False, {}


@pytest.mark.parametrize(
    "space",
    [gym.spaces.Discrete(250), gym.spaces.Discrete(5, start=-3), gym.spaces.MultiDiscrete([3, 200]),
     gym.spaces.MultiBinary(4), gym.spaces.Box(-1, 1, (2,)), gym.spaces.Box(0, 9, (2,), np.int16)],
)  # fmt: skip
def test_an_episode_is_played_again_with_actions_of_its_spaces_dtype(space):
    one, other = (make_batch(partial(Choosy, space), 1) for _ in range(2))
    one.reset([5])
    for n in range(20):
        action = np.zeros((1, len(one.action.parts) or int(np.prod(space.shape))), np.int64) + n % 2
        step = one.step(action[:, 0] if isinstance(space, gym.spaces.Discrete) else action.astype(float) / 2
                        if isinstance(space, gym.spaces.Box) else action)  # fmt: skip
    other.reset([6])
    assert np.array_equal(other.restore(one.state()), step.observations)


class Endless(gym.Env):
    """One episode without an end; its seed and actions decide where it is."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x = float(self.np_random.integers(1000))
        return np.array([self.x], np.float32), {}

    def step(self, action):
        self.x = (31 * self.x + action + 1) % 9973
        return np.array([self.x], np.float32), 0.0, False, False, {}


def test_an_endless_episode_is_taken_up_after_more_than_200_000_steps():
    one, other = (make_batch(Endless, 1) for _ in range(2))
    one.reset([5])
    for n in range(200_500):
        step = one.step(np.array([n % 2]))
    other.reset([6])
    assert np.array_equal(other.restore(one.state()), step.observations)


def test_one_that_is_too_long_begins_anew_and_the_others_go_on(monkeypatch):
    monkeypatch.setattr("acer.envs.episodes.LONGEST", 50)
    from acer.learner.rollout import Rollout

    rollout = Rollout(make_batch(Endless, 2), 60, 0.9, [1, 2])
    young: Replayable = rollout.env.env.envs[1]
    act = lambda x, masks: (np.zeros(2, np.int64), np.zeros((2, 2), np.float32))  # noqa: E731
    rollout.collect(act)
    young.reset()
    rollout.observations[1] = young.reset()[0]
    state = {name: array.copy() for name, array in rollout.state().items()}
    again = Rollout(make_batch(Endless, 2), 60, 0.9, [8, 9])
    assert again.restore(state) == [0]
    assert np.array_equal(again.observations[1], state["observations"][1])
