"""Attacks runs in every way that `docs/security.md` speaks of, and counts what held: results/reliability/attack.csv.

    python benchmarks/attack.py [CLASS …]

The classes are directories, states, environments, races, filesystem and resources. Each try is a process of its own
with a copy of a small run. It holds if nothing outside of the run's directory was written or changed, no code of the
attacker's ran, it ended within two minutes without a traceback, by exit code 0, 2, 3 or 130 and a named error, and if
a run that was good before, and was not itself damaged, can go on. What did not hold is printed.
"""

import builtins
import contextlib
import errno
import gc
import hashlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch

sys.path.append(str(Path(__file__).parent.parent / "tests"))
from acer import ACER, cli
from acer.errors import AcerError
from acer.run import opening, store
from fuzzing import Attacked, Bytes, mutate_json
from power import PowerCut, fragile
from run_files import latest, read_state, rewrite_state
from table import write

FILE = Path("results/reliability/attack.csv")
SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5, "threads": 1,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "checkpoint_every": 60,
         "log_every": 50, "eval_every": 100, "eval_episodes": 1, "eval_limit": 10, "keep_checkpoints": 2}  # fmt: skip
LONGEST = 120.0  # seconds that a try may take
OURS = {"run", "outside", "said", "wrong", "own", "new", "harm.py", "__pycache__"}  # what tries leave beside each other
WRONG = 1_000  # a file's number, where no deed finds it
FORK = multiprocessing.get_context("fork")


class Try(NamedTuple):
    kind: str
    name: str
    act: Callable[[Path], None]  # with a run's directory
    keeps: bool = True  # whether the run has to go on afterwards


def acer(*args: Any) -> int:
    """A command, in this process."""
    sys.argv = ["acer", *map(str, args)]
    try:
        cli.main()
    except SystemExit as end:
        if end.code not in (0, 2, 3, 130):
            raise RuntimeError(f"exit code {end.code}") from end
        return int(end.code or 0)
    raise RuntimeError("no exit code")


def go_on(run: Path, steps: int = 30) -> None:
    training = opening.resume(run, directory=run)
    try:
        training.extend(training.steps + steps)
        training.run()
    finally:
        training.close()


def commands(run: Path) -> None:
    """What somebody does with a directory that they were given."""
    acer("eval", run, "--episodes", 1)
    acer("plot", run, "--output", run / "curve.png")
    acer("report", run, "--output", run / "report.html")
    acer("resume", run, "--steps", 260, "--quiet")


# ------------------------------------------------------------------ directories

NAMES = ["config.json", "progress.csv", "episodes.csv", "eval.csv", "curve.png", "report.html", "video.mp4",
         "tensorboard", "checkpoints", "checkpoints/LATEST", "checkpoints/BEST", "checkpoints/STEPS",
         "checkpoints/999999999999", "checkpoints/STEPS.undone", "checkpoints/.STEPS.replaced.partial",
         "checkpoints/.x.partial", ".progress.csv.partial", ".config.json.partial", "checkpoints/.LATEST.partial",
         "progress.csv.old", "tensorboard/events.out.tfevents.1", "checkpoints/STEPS/state.json",
         "checkpoints/STEPS/model.safetensors", "checkpoints/STEPS/run.safetensors",
         "checkpoints/STEPS/replay.blocks"]  # fmt: skip


def plant(kind: str, path: Path, outside: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link to a file":
        path.symlink_to(outside / "secret")
    elif kind == "link to a directory":
        path.symlink_to(outside)
    elif kind == "link to itself":
        path.symlink_to(path.name)
    elif kind == "hard link":
        os.link(outside / "secret", path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one:
            os.chdir(path.parent)
            one.bind(path.name)
    elif kind == "device":
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 5))  # endless zeros
    elif kind == "directory":
        path.mkdir()
        (path / "inside\n\x1b[2J").write_text("x")
    elif kind == "terabytes of nothing":
        with path.open("wb") as file:
            file.truncate(8 << 40)


KINDS = ["link to a file", "link to a directory", "link to itself", "hard link", "pipe", "socket", "device",
         "directory", "terabytes of nothing"]  # fmt: skip


def steps_of(run: Path) -> str:
    return (run / "checkpoints" / "LATEST").read_text().strip()


def planted(kind: str, name: str, run: Path) -> None:
    outside = run.parent / "outside"
    path = run / name.replace("STEPS", steps_of(run))
    try:
        plant(kind, path, outside)
    except OSError as error:
        if error.errno not in (errno.EFBIG, errno.EPERM):  # not on this file system, or not for this user
            raise
        return
    commands(run)


def deep(run: Path) -> None:
    here = os.open(run / "checkpoints", os.O_RDONLY)
    for level in range(1_200):
        name = ".x.partial" if not level else "a"
        os.mkdir(name, dir_fd=here)
        here, before = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(before)
    commands(run)


def deep_for_reports(run: Path) -> None:
    here = os.open(run, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("a", dir_fd=here)
        here, before = os.open("a", os.O_RDONLY, dir_fd=here), here
        os.close(before)
    commands(run)


def odd_names(run: Path) -> None:
    for name in (
        b"a\nb.csv",
        b"\x1b[2J.csv",
        b"\xff\xfe.csv",
        b"-rf",
        "\u202egnp.csv".encode(),
        b"x" * 255,
        b"\xd9\xa3",
    ):
        for where in (run, run / "checkpoints", run / "tensorboard"):
            Path(os.fsdecode(os.path.join(os.fsencode(where), name))).write_text("steps,return_mean\n1,2\n")
    commands(run)


def table_of(name: str, text: str, run: Path) -> None:
    (run / name).write_text(text)
    commands(run)


def asks(settings: dict[str, Any], run: Path) -> None:
    """A configuration that reaches outside, in the checkpoint, in config.json and given as --config."""
    (run.parent / "harm.py").write_text(f"open({str(run.parent / 'outside' / 'ran')!r}, 'w')")
    sys.path.insert(0, str(run.parent))
    os.chdir(run.parent)
    where = latest(run).path
    state = read_state(where)
    rewrite_state(where, state | {"config": state["config"] | settings})
    config = json.loads((run / "config.json").read_text()) | settings
    (run / "config.json").write_text(json.dumps(config))
    commands(run)
    shutil.rmtree(run / "checkpoints")
    commands(run)
    acer("train", "--config", run / "config.json", "--out", run.parent / "new", "--steps", 20, "--quiet")
    shutil.rmtree(run.parent / "new", ignore_errors=True)


def configured(number: int, run: Path) -> None:
    """A file of settings, one part of it replaced."""
    source = Bytes(random.Random(number).randbytes(20))
    file = run.parent / "harm.py"
    file.write_text(json.dumps(mutate_json(source, json.loads((run / "config.json").read_text()))))
    acer("train", "--config", file, "--out", run.parent / "new", "--steps", 20, "--quiet")
    acer("plot", run, "--output", run / "curve.png")


HEADER = "steps,seconds,episodes,return_mean,length_mean\n"
TABLES = {
    "huge numbers": HEADER + "1e308,1e308,1e308,1e308,1e308\n" * 3 + "-1e308,1e308,1,-1e308,1\n",
    "not numbers": HEADER + "nan,inf,-inf,x,\n",
    "many columns": ",".join(f"c{n}" for n in range(100_000)) + "\n" + ",".join(["1"] * 100_000) + "\n",
    "a huge cell": HEADER + '"' + "9" * 2_000_000 + '",1,1,1,1\n',
    "an open quote": HEADER + '1,"2,3,4,5\n' * 1_000,
    "returns only": HEADER + "1,1,1,1,1\r" * 1_000,
    "the same steps": HEADER + "1,1,1,1,1\n" * 10_000,
    "nothing": "",
    "a header": HEADER,
    "zeros": "\0" * 10_000,
    "times": HEADER.replace("steps", "steps,steps") + "1,1,1,1,1,1\n",
    "formulas": HEADER + "=cmd|'/c calc'!A1,<script>,</script>,1,1\n",
}
ASKED: list[dict[str, Any]] = [
    {"env": "harm:Env"}, {"env": "os:abort"}, {"env": "harm:CartPole-v1"}, {"env": "../harm:Env"},
    {"home": "ray", "ray_address": "name://harm"}, {"home": "ray", "ray_address": "10.0.0.1:1"},
    {"ray_address": "harm://x"}, {"home": "shared", "actors": 3_000}, {"home": "shared"}, {"workers": True},
    {"device": "cuda:7"}, {"device": "meta"}, {"threads": 10**6}, {"environments": 10**6}, {"shards": 50},
    {"processes_per_actor": 99}, {"env_kwargs": {"harm": [1]}}, {"replay_capacity": 2**62}, {"hidden": [10**6] * 3},
    {"trajectory_length": 10**9}, {"steps": 10**30}, {"eval_episodes": 10**9}, {"eval_limit": 10**15, "gamma": 1.0},
    {"step_limit": 1e-9}, {"checkpoint_minutes": 1e-9}, {"keep_checkpoints": 10**9}, {"log_every": 1},
    {"replay_ratio": 1e9}, {"trajectories_per_update": 10**9}, {"memory_size": 10**9, "recurrent": "gru"},
]  # fmt: skip


def directories() -> Iterator[Try]:
    for name in NAMES:
        for kind in KINDS:
            yield Try("directories", f"{kind}: {name}", partial(planted, kind, name), keeps=False)
    for title, text in TABLES.items():
        for name in ("progress.csv", "eval.csv", "episodes.csv"):
            yield Try("directories", f"{title}: {name}", partial(table_of, name, text), keeps=False)
    for settings in ASKED:
        yield Try("directories", f"asks for {settings}", partial(asks, settings), keeps=False)
    for number in range(60):
        act = partial(limited, resource.RLIMIT_AS, 12 << 30, partial(configured, number))
        yield Try("directories", f"--config {number}", act)
    yield Try("directories", "1,200 directories deep", deep, keeps=False)
    yield Try("directories", "1,200 directories deep, for the report", deep_for_reports, keeps=False)
    yield Try("directories", "odd names", odd_names, keeps=False)


# ------------------------------------------------------------------ states


def states(place: Path, count: int = 300) -> Iterator[Try]:
    attacked = Attacked(place / "attacked")
    for number in range(count):
        data = random.Random(number).randbytes(40)
        yield Try("states", data.hex(), lambda run, data=data: str(attacked(data)) and None)


# ------------------------------------------------------------------ environments


class Guest(gym.Env[Any, Any]):
    """Behaves, but for one deed at its 40th step, at its third reset, or when it is made."""

    observation_space = gym.spaces.Box(-10, 10, (2,))
    action_space = gym.spaces.Discrete(2)

    def __init__(self, deed: str, when: str) -> None:
        self.deed, self.when = deed, when
        self.steps = self.resets = self.at = 0
        if when == "made":
            DEEDS[deed]()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.resets += 1
        self.at = 0
        if self.when == "reset" and self.resets == 3:
            DEEDS[self.deed]()
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.at += 1
        if self.when == "step" and self.steps == 40:
            DEEDS[self.deed]()
        return np.full(2, self.at % 5, np.float32), float(action), self.at == 13, False, {}

    def close(self) -> None:
        if self.when == "close":
            DEEDS[self.deed]()


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise SystemExit(0)


class Base(BaseException):
    pass


def throw(error: BaseException) -> None:
    raise error


def fork() -> None:
    if os.fork() == 0:
        return
    os.wait()


def leak() -> None:
    with contextlib.suppress(OSError):
        while True:
            os.open("/dev/null", os.O_RDONLY)


def close_all() -> None:
    """As a daemon begins: every file that is open."""
    os.closerange(3, 256)
    for _ in range(20):  # and the numbers are taken by others
        os.open("/dev/null", os.O_RDWR)


def take_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)


def break_print() -> None:
    builtins.print = lambda *_, **__: throw(OSError("no"))


RAISED: dict[str, Callable[[], Any]] = {
    type(error).__name__: partial(throw, error)
    for error in (SystemExit(0), GeneratorExit(), KeyboardInterrupt(), StopIteration(), RecursionError("\x1b[2J\n"),
                  MemoryError(), Base(), Unspeakable(), ValueError("x" * 10**7), UnicodeError("\ud800"),
                  OSError(28, "no"), StopAsyncIteration(), AssertionError(), BrokenPipeError(),
                  torch.cuda.OutOfMemoryError("no"))
}  # fmt: skip
CHANGED: dict[str, Callable[[], Any]] = {
    "gradients off": partial(torch.set_grad_enabled, False),
    "inference mode": lambda: torch.inference_mode().__enter__(),
    "dtype": partial(torch.set_default_dtype, torch.float64),
    "device": partial(torch.set_default_device, "meta"),
    "threads": partial(torch.set_num_threads, 3),
    "anomalies": partial(torch.autograd.set_detect_anomaly, True),
    "deterministic": partial(torch.use_deterministic_algorithms, True),
    "float errors": partial(np.seterr, all="raise"),
    "print options": partial(np.set_printoptions, threshold=1, precision=1),
    "warnings": partial(warnings.simplefilter, "error"),
    "signals": take_signals,
    "child signals": partial(signal.signal, signal.SIGCHLD, signal.SIG_IGN),
    "an alarm": partial(signal.setitimer, signal.ITIMER_REAL, 0.05),
    "recursion": partial(sys.setrecursionlimit, 150),
    "umask": partial(os.umask, 0o777),
    "garbage": gc.disable,
    "environment variables": os.environ.clear,
    "directory": partial(os.chdir, "/"),
    "streams closed": partial(os.closerange, 0, 3),
    "streams none": lambda: (setattr(sys, "stdout", None), setattr(sys, "stderr", None)),
    "a full standard error": lambda: os.dup2(os.open("/dev/full", os.O_WRONLY), 2),
    "print": break_print,
    "a fork": fork,
    "everything closed": close_all,
    "a thread that fails": lambda: threading.Thread(target=throw, args=(Base(),)).start(),
    "random": lambda: (random.seed(0), torch.manual_seed(0)),
    "torch forgotten": partial(sys.modules.pop, "torch", None),
    "a path": partial(sys.path.insert, 0, "/nowhere"),
    "a file limit": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10**7, 10**7)),
}
USED_UP: dict[str, Callable[[], Any]] = {"file handles": leak}  # what ends a run in order, as what is raised does
DEEDS = RAISED | CHANGED | USED_UP


def live_with(deed: str, when: str, run: Path) -> None:
    out = run.parent / "own"
    failed = ""
    try:
        model = ACER(partial(Guest, deed, when), **SMALL)
        try:
            model.learn(200, out=out)
        finally:
            model.close()
    except AcerError as error:
        failed = str(error)
        if "\n" in failed or len(failed) > 20_000:
            raise RuntimeError("an error of several lines or too long a one") from None
    except KeyboardInterrupt:
        if deed != "KeyboardInterrupt" or when == "step":  # outside of a run it is the user's
            raise RuntimeError("an interrupt of nobody's") from None
    if deed in USED_UP:
        for number in range(10, resource.getrlimit(resource.RLIMIT_NOFILE)[0]):  # this process has to look at the run
            if number != WRONG:
                with contextlib.suppress(OSError):
                    os.close(number)
    if deed in CHANGED and failed:
        raise RuntimeError(f"the run ended: {failed}")
    if out.exists():
        steps = store.find(out, lambda line: throw(RuntimeError(line))).state["steps"]
        if steps < (200 if deed in CHANGED or when == "close" else 30):
            raise RuntimeError(f"only {steps} steps are saved")
    elif when == "step":
        raise RuntimeError("the run is lost")


def environments() -> Iterator[Try]:
    for deed in DEEDS:
        for when in ("step", "reset", "made", "close"):
            yield Try("environments", f"{deed}: {when}", partial(live_with, deed, when))


# ------------------------------------------------------------------ races


def together(run: Path, *acts: Callable[[Path], None]) -> None:
    """Several processes at once; each does it, or says why not."""
    processes = [FORK.Process(target=quietly, args=(act, run)) for act in acts]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LONGEST)
        if process.exitcode != 0:
            raise RuntimeError(f"one of them ended with {process.exitcode}")


def quietly(act: Callable[[Path], None], run: Path) -> None:
    with contextlib.suppress(AcerError):
        act(run)


def begin(run: Path) -> None:
    model = ACER("CartPole-v1", **SMALL)
    try:
        model.learn(60, out=run)
    finally:
        model.close()


def look_again_and_again(run: Path) -> None:
    until = time.monotonic() + 2
    while time.monotonic() < until:
        opening.load(run).close()


def killed(seconds: float, act: Callable[[Path], None], run: Path) -> None:
    process = FORK.Process(target=quietly, args=(act, run))
    process.start()
    time.sleep(seconds)
    process.kill()
    process.join()


def killed_while_it_replaces(seconds: float, run: Path) -> None:
    """No process can clear away after its own SIGKILL: the model is whole, and the next save does."""
    model = ACER.load(run)
    model.save(run.parent / "own")
    killed(seconds, save_again_and_again, run)
    opening.load(run.parent / "own").close()
    model.save(run.parent / "own")
    model.close()


def save_again_and_again(run: Path) -> None:
    model = ACER.load(run)
    for _ in range(100):
        model.save(run.parent / "own")


def model_while_it_is_replaced(run: Path) -> None:
    ACER.load(run).save(run.parent / "own")
    together(run, save_again_and_again, lambda run: look_again_and_again(run.parent / "own"))


def early_and_late(run: Path) -> None:
    early = ACER.load(run, resume=True)
    go_on(run)
    newest = steps_of(run)
    with contextlib.suppress(AcerError):
        early.learn(20)
        raise RuntimeError("one that was loaded earlier went on")
    if steps_of(run) != newest:
        raise RuntimeError("what was trained meanwhile is undone")


def races() -> Iterator[Try]:
    for number in range(10):
        yield Try("races", f"two resumes {number}", lambda run: together(run, go_on, go_on))
        yield Try("races", f"two beginnings {number}", lambda run: together(run.parent / "own", begin, begin))
        yield Try("races", f"a resume and a look {number}",
                  lambda run: together(run, partial(go_on, steps=400), look_again_and_again))  # fmt: skip
        seconds = 0.1 + 0.05 * number
        yield Try("races", f"a kill after {seconds:.2f} s", partial(killed, seconds, partial(go_on, steps=10_000)))
        yield Try("races", f"a kill while a model is replaced, after {seconds:.2f} s",
                  partial(killed_while_it_replaces, seconds))  # fmt: skip
    for number in range(3):
        yield Try("races", f"one that was loaded earlier {number}", early_and_late)
        yield Try("races", f"a model that is replaced while it is read {number}", model_while_it_is_replaced)


# ------------------------------------------------------------------ file system


def failing(number: int, at: int, every: bool, exchanges: bool, run: Path) -> None:
    """The n-th operation on files fails, or all of them from there on."""
    with fragile(run.parent, at, OSError(number, os.strerror(number)), exchanges) as disk:
        if every:
            disk._step = lambda: count_and_fail(disk, at, number)  # type: ignore[method-assign]
        try:
            with contextlib.suppress(OSError):
                go_on(run, 150)
        finally:
            shutil.rmtree(run.parent / "kept-for-a-power-cut")  # the benchmark's own


def count_and_fail(disk: Any, at: int, number: int) -> None:
    disk.count += 1
    if disk.count >= at:
        raise OSError(number, os.strerror(number))


def cut(at: int, exchanges: bool, act: Callable[[Path], None], run: Path) -> None:
    with fragile(run.parent, at, exchanges=exchanges) as disk:
        with contextlib.suppress(PowerCut):
            act(run)
        disk.cut(random.Random(at))


def filesystem() -> Iterator[Try]:
    for at in range(1, 60, 2):
        number = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT, errno.EMFILE)[at // 2 % 5]
        for every in (False, True):
            name = f"{errno.errorcode[number]} {'from operation' if every else 'at operation'} {at} on"
            yield Try("filesystem", name, partial(failing, number, at, every, at % 4 == 1))
        yield Try("filesystem", f"a power cut at operation {at}", partial(cut, at, at % 4 == 1, go_on))


# ------------------------------------------------------------------ resources


def limited(what: int, limit: int, act: Callable[[Path], None], run: Path) -> None:
    resource.setrlimit(what, (limit, resource.getrlimit(what)[1]))
    act(run)


def without_streams(closed: tuple[int, ...], run: Path) -> None:
    for number in closed:
        os.close(number)
    commands(run)


def onto(path: str, run: Path) -> None:
    for number in (1, 2):
        os.dup2(os.open(path, os.O_WRONLY), number)
    commands(run)


def no_reader(run: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, 2)
    os.dup2(writer, 1)
    commands(run)


def resources() -> Iterator[Try]:
    for limit in (8, 12, 16, 20, 24, 28, 32, 40, 48, 64):
        for name, act in (("resume", go_on), ("commands", commands)):
            yield Try(
                "resources", f"{limit} file handles: {name}", partial(limited, resource.RLIMIT_NOFILE, limit, act)
            )
    for limit in (0, 100, 1_000, 10_000, 50_000, 100_000):
        for name, act in (("resume", go_on), ("commands", commands)):
            yield Try(
                "resources", f"{limit:,} bytes of a file: {name}", partial(limited, resource.RLIMIT_FSIZE, limit, act)
            )
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    for more in (1, 4, 16, 32, 64, 128, 256):
        for name, act in (("resume", go_on), ("commands", commands)):
            limit = used + (more << 20)
            yield Try("resources", f"{more} MB of memory: {name}", partial(limited, resource.RLIMIT_AS, limit, act))
    for closed in ((0,), (1,), (2,), (0, 1, 2)):
        yield Try("resources", f"streams {closed} closed", partial(without_streams, closed))
    yield Try("resources", "streams on the full device", partial(onto, "/dev/full"))
    yield Try("resources", "streams that nobody reads", no_reader)


# ------------------------------------------------------------------ the tries


def fingerprint(place: Path) -> str:
    """All that is in a directory."""
    parts = []
    for path in sorted(place.rglob("*")):
        parts.append(f"{path} {path.lstat().st_mode} {path.read_bytes() if path.is_file() else ''}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def child(one: Try, run: Path, said: Path) -> None:
    for number in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    code, wrong = 0, os.open(said.with_name("wrong"), os.O_WRONLY | os.O_CREAT)
    os.dup2(wrong, WRONG)
    try:
        one.act(run)
    except AcerError as error:
        code = 0 if "\n" not in str(error) else 4
    except BaseException as error:
        if one.kind == "resources" and isinstance(error, OSError | MemoryError):  # the command says it in one line
            os._exit(0)
        import traceback

        os.write(WRONG, "".join(traceback.format_exception(error)).encode(errors="replace")[-3_000:])
        code = 5
    os._exit(code)


def clear(place: Path) -> None:
    """Removes all of it; shutil's own is not up to 1,200 levels."""
    subprocess.run(["rm", "-rf", "--", str(place)], check=True)


def held(one: Try, original: Path, place: Path) -> str:
    """Empty if it did, else what went wrong."""
    clear(place)
    outside = place / "outside"
    outside.mkdir(parents=True)
    (outside / "secret").write_text("mine")
    run, said = place / "run", place / "said"
    shutil.copytree(original, run)
    before = fingerprint(outside)
    process = FORK.Process(target=child, args=(one, run, said))
    process.start()
    process.join(LONGEST)
    if process.is_alive():
        process.kill()
        process.join()
        return "did not end"
    text = said.read_text(errors="replace")
    wrong = place / "wrong"
    if wrong.exists() and wrong.stat().st_size:
        return wrong.read_text()
    if process.exitcode:
        return f"ended with {process.exitcode}: {text[-500:]}"
    if "Traceback" in text and "actor-learner" not in text and "a thread that fails" not in one.name:
        return text[-3_000:]
    if fingerprint(outside) != before:
        return "wrote outside"
    strangers = {path.name for path in place.iterdir()} - OURS
    if strangers:
        return f"wrote {strangers}"
    if one.keeps:
        try:
            before_that = opening.resume(run, directory=run)
            before_that.learner.iterate()
            before_that.close()
        except AcerError as error:
            return f"the run is lost: {error}"
    return ""


def main() -> None:
    wanted = sys.argv[1:] or ["directories", "states", "environments", "races", "filesystem", "resources"]
    counts: dict[str, list[int]] = {}
    if FILE.exists():
        lines = [line.split(",") for line in FILE.read_text().splitlines()[1:]]
        counts = {name: [int(tries), int(good)] for name, tries, good in lines}
    from acer.console import errors

    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        ACER("CartPole-v1", **SMALL).learn(200, out=place / "original").close()
        for kind in wanted:
            tries: Iterator[Try] = states(place) if kind == "states" else globals()[kind]()
            counts[kind] = [0, 0]
            for one in tries:
                errors.quiet = False
                problem = held(one, place / "original", place / "try")
                counts[kind][0] += 1
                counts[kind][1] += not problem
                if problem:
                    print(f"--- {one.kind}, {one.name}: {problem}", flush=True)
            print(kind, *counts[kind], flush=True)
            clear(place / "try")
            write(FILE, ["class", "tries", "held"], [[name, *numbers] for name, numbers in counts.items()])


if __name__ == "__main__":
    main()
