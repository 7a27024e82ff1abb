"""Trains for hours and watches memory and open files: results/reliability/soak-NAME.csv and soak.csv.

    python benchmarks/soak.py CartPole-v1 [MINUTES]
    python benchmarks/soak.py pong [MINUTES]
    python benchmarks/soak.py endless [MINUTES]

Each is `acer train` with its preset and a checkpoint every minute, on CartPole with an evaluation now and then. The
replay memory of pong is a fiftieth of the preset's, so that it is full after minutes and not after an hour. `endless`
is everything at once: `--home shared` with two actor-learners whose episodes never end, an evaluation about every
minute, a reader of the log that goes away after a minute, and every half minute a SIGKILL of the younger actor-learner.

Every ten seconds: resident memory and open file handles of the process, and resident memory of the actor-learner that
is never killed. Growth is that of the mean of the last tenth of the samples after the memory was full over the first
tenth. Samples are written as they come: `python benchmarks/soak.py` alone sums up what there is.
"""

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from kills import alive, below
from table import write

RESULTS = Path("results/reliability")
RUNS = Path(os.environ.get("SOAK_RUNS", "runs/soak"))
FLAGS = {
    "CartPole-v1": ["--eval-every", "200000", "--log-every", "20000", "--quiet"],
    "pong": ["--replay-capacity", "1000", "--replay-start", "2000", "--log-every", "5000", "--quiet"],
    "endless": ["--home", "shared", "--actors", "2", "--environments", "4", "--replay-capacity", "1000",
                "--eval-every", "60000", "--eval-episodes", "4", "--eval-limit", "500", "--log-every", "5000",
                "--learning-rate-decay", "none"],
}  # fmt: skip
ENVS = {"endless": "endless:Endless"}
FULL = {"CartPole-v1": 16 * 5_000, "pong": 16 * 1_000, "endless": 200_000}  # steps after which memory has its size
READS = 60.0  # seconds that the log's reader stays
KILLS = 30.0  # seconds between two kills
COLUMNS = ["seconds", "steps", "resident_bytes", "file_handles", "resident_bytes_of_an_actor_learner", "kills"]


def steps_of(run: Path) -> int:
    try:
        with (run / "progress.csv").open("rb") as file:
            file.seek(max(0, os.path.getsize(file.name) - 2_000))
            return int(file.read().decode().splitlines()[-1].split(",")[0])
    except (OSError, ValueError, IndexError):
        return 0


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS"))


def actor_learners(pid: int) -> list[int]:
    """Processes of actor-learners, the oldest first."""
    found = []
    for child in below(pid):
        try:
            stat = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        forked = any(b"forkserver" in part for part in command) and stat[1] != str(pid)
        if forked and alive(child):
            found.append((int(stat[19]), child))
    return [child for _, child in sorted(found)]


def main() -> None:
    name, minutes = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    run = RUNS / name
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "acer", "train", ENVS.get(name, name), "--steps", "1000000000",
               "--checkpoint-minutes", "1", "--out", str(run), *FLAGS[name]]  # fmt: skip
    search = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    many = name == "endless"
    process = subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": search}, stderr=subprocess.PIPE if many else None
    )
    if process.stderr is not None:
        os.set_blocking(process.stderr.fileno(), False)
    rows: list[list[int]] = []
    began = time.monotonic()
    kills, kill_at, kept = 0, 2 * READS, 0
    try:
        while process.poll() is None and (passed := time.monotonic() - began) < 60 * minutes:
            actors = actor_learners(process.pid) if many else []
            kept = kept or (actors[0] if len(actors) == 2 else 0)
            if process.stderr is not None and not process.stderr.closed:
                process.stderr.read()
                if passed > READS:
                    process.stderr.close()
            if passed >= kill_at and actors[-1:] not in ([], [kept]):
                os.kill(actors[-1], signal.SIGKILL)
                kills, kill_at = kills + 1, passed + KILLS
            assert kept in (0, *actors), "the actor-learner that is never killed has died"
            handles = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
            of_actor = resident(kept) if kept else 0
            rows.append([round(passed), steps_of(run), resident(process.pid), handles, of_actor, kills])
            write(RESULTS / f"soak-{name}.csv", COLUMNS, rows)
            time.sleep(10)
        if process.returncode is not None:
            sys.exit(f"the training ended by itself with code {process.returncode}: no result")
    finally:
        process.terminate()
        process.wait()
    collect()


def collect() -> None:
    """A line for each."""
    lines = []
    for name in FLAGS:
        path = RESULTS / f"soak-{name}.csv"
        if not path.exists():
            continue
        with path.open() as file:
            rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]
        full = [row for row in rows if row["steps"] >= FULL[name]]
        if not full:
            sys.exit(f"{path}: the replay memory was never full; give it more minutes")
        handles = sorted({row["file_handles"] for row in full})
        minutes = round(rows[-1]["seconds"] / 60, 1)
        first, last, growth = grown(full, "resident_bytes")
        of_actor = grown(full, COLUMNS[4])[2] if full[-1].get(COLUMNS[4]) else ""
        lines.append([name, minutes, rows[-1]["steps"], full[0]["steps"], first, last, growth,
                      " ".join(map(str, handles)), of_actor, full[-1].get("kills", 0)])  # fmt: skip
    columns = ["env", "minutes", "steps", "full_at", "megabytes_when_full", "megabytes_at_the_end", "growth",
               "file_handles", "growth_of_an_actor_learner", "kills"]  # fmt: skip
    write(RESULTS / "soak.csv", columns, lines)


def grown(rows: list[dict[str, int]], column: str) -> tuple[float, float, str]:
    """Megabytes in the first tenth and in the last, and the growth between."""
    tenth = max(1, len(rows) // 10)
    first, last = (sum(row[column] for row in part) / tenth for part in (rows[:tenth], rows[-tenth:]))
    return round(first / 1e6, 1), round(last / 1e6, 1), f"{last / first - 1:.2%}"


if __name__ == "__main__":
    main() if len(sys.argv) > 1 else collect()
