"""Kills runs with SIGKILL, many of them inside a save: results/reliability/kills.csv.

    python benchmarks/kills.py shared [KILLS]
    python benchmarks/kills.py ray [KILLS]

Begun again, it goes on to that many kills: a session may be cut.

The run is CartPole-v1 with two actor-learners and a checkpoint every 200 steps. It is killed at a random moment,
every other time while a checkpoint is being written, and resumed. After each kill no process of the run is left, and
no shared memory; the checkpoint that it goes on from is good, its parameters are finite, its episodes add up to no
more than its steps, and no row is counted twice.
"""

import csv
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import safetensors.numpy

from acer.run import store
from table import write

RESULTS = Path("results/reliability")
FLAGS = ["--steps", "1000000000", "--actors", "2", "--environments", "4", "--hidden", "16", "--replay-start", "100",
         "--checkpoint-every", "200", "--log-every", "1000", "--quiet", "--learning-rate-decay", "none"]  # fmt: skip
LONGEST = 300.0  # seconds that a run may take to its next checkpoint
LEAVING = 240.0  # seconds that its processes may take to notice that it is gone


def below(of: int) -> set[int]:
    """Processes that a process has begun, and theirs."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = stat.read_text().partition(" ")
        except OSError:
            continue
        parents[int(number)] = int(rest.rpartition(")")[2].split()[1])
    found, new = set(), {of}
    while new:
        new = {pid for pid, parent in parents.items() if parent in new} - found
        found |= new
    return found


def name_of(pid: int) -> str:
    try:
        return f"{pid} " + Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    except OSError:
        return str(pid)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def shared_memory() -> set[str]:
    return {name for name in os.listdir("/dev/shm") if name.startswith("torch")}


def latest(run: Path) -> str:
    try:
        return (run / "checkpoints" / "LATEST").read_text()
    except OSError:
        return ""


def being_written(run: Path) -> bool:
    try:
        return any(name.endswith(".partial") for name in os.listdir(run / "checkpoints"))
    except OSError:
        return False


def check(run: Path) -> int:
    """The steps of the checkpoint that the run goes on from; complains about one that is not as it should be."""
    complaints: list[str] = []
    found = store.find(run, complaints.append)
    assert not complaints, complaints
    tensors = safetensors.numpy.load_file(found.path / "model.safetensors")
    assert all(abs(array).max() < 1e6 for array in tensors.values())
    state = found.state
    with (run / "episodes.csv").open() as file:
        rows = list(csv.DictReader(file))[: state["rows"]["episodes"]]
    assert len(rows) == state["rows"]["episodes"] == state["meter"]["episodes"]
    assert sum(int(row["length"]) for row in rows) <= state["steps"]
    return int(state["steps"])


def main() -> None:
    home, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 100
    run = Path(os.environ.get("KILL_RUNS", "runs/kills")) / home
    done, saves, steps, waited = so_far(home) if run.exists() else (0, 0, 0, 0.0)
    if not done:
        shutil.rmtree(run, ignore_errors=True)
    outward = ["--home", home, "--actors", "2"]
    command = [sys.executable, "-m", "acer", "train", "CartPole-v1", *FLAGS, "--home", home, "--out", str(run)]
    resume = [sys.executable, "-m", "acer", "resume", str(run), *outward, "--quiet"]
    rng = random.Random(done)
    for kill in range(done, kills):
        command = resume if kill else command
        before = shared_memory()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        since, began = latest(run), time.monotonic()
        while latest(run) == since:
            if process.poll() is not None or time.monotonic() - began > LONGEST:
                sys.exit(f"{home}: after {kill} kills the run does not go on: {process.communicate()[1].decode()}")
            time.sleep(0.02)
        until = time.monotonic() + rng.uniform(0, 2)
        while time.monotonic() < until or (kill % 2 and not being_written(run)):
            time.sleep(0.002)
        saves += being_written(run)
        children = below(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed = time.monotonic()
        until = killed + LEAVING
        while any(map(alive, children)) and time.monotonic() < until:
            time.sleep(0.05)
        left = [name_of(pid) for pid in sorted(filter(alive, children))]
        waited = max(waited, time.monotonic() - killed)
        assert not left, f"{home}: processes {left} are left"
        assert not shared_memory() - before, f"{home}: shared memory is left"
        steps = check(run)
        print(f"{kill + 1} kills, {saves} in a save, {steps:,} steps", flush=True)
        keep(home, kill + 1, saves, steps, round(waited, 1))


def so_far(home: str) -> tuple[int, int, int, float]:
    """Kills, kills in a save, steps and longest wait of the sessions before; a session may end at any moment."""
    path = RESULTS / "kills.csv"
    if path.exists():
        with path.open() as file:
            for row in csv.DictReader(file):
                if row["home"] == home:
                    _, kills, saves, steps, waited = row.values()
                    return int(kills), int(saves), int(steps), float(waited)
    return 0, 0, 0, 0.0


def keep(home: str, kills: int, saves: int, steps: int, waited: float) -> None:
    """A line for each home."""
    path, columns = RESULTS / "kills.csv", ["home", "kills", "in_a_save", "steps", "most_seconds_until_all_had_left"]
    rows = []
    if path.exists():
        with path.open() as file:
            rows = [list(row.values()) for row in csv.DictReader(file) if row["home"] != home]
    write(path, columns, [*rows, [home, kills, saves, steps, waited]])


if __name__ == "__main__":
    main()
