"""Trains for an hour and watches memory and open files: results/reliability/soak-ENV.csv and soak.csv.

    python benchmarks/soak.py CartPole-v1 [MINUTES]
    python benchmarks/soak.py pong [MINUTES]

Each is `acer train` with its preset and a checkpoint every minute, and on CartPole an evaluation now and then. The
replay memory of pong is a fiftieth of the preset's, so that it is full after minutes and not after an hour. Every ten
seconds: resident memory and open file handles, from /proc. Growth is that of the mean of the last tenth of the
samples after the memory was full over the first tenth.
"""

import csv
import shutil
import subprocess
import sys
import time
from pathlib import Path

from table import write

RESULTS = Path("results/reliability")
FLAGS = {
    "CartPole-v1": ["--eval-every", "200000", "--log-every", "20000"],
    "pong": ["--replay-capacity", "1000", "--replay-start", "2000", "--log-every", "5000"],
}
FULL = {"CartPole-v1": 16 * 5_000, "pong": 16 * 1_000}  # steps after which the replay memory is full


def steps_of(run: Path) -> int:
    try:
        return int((run / "progress.csv").read_text().splitlines()[-1].split(",")[0])
    except (OSError, ValueError, IndexError):
        return 0


def sample(pid: int) -> tuple[int, int]:
    """Resident bytes and open file handles."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmRSS"))
    return resident, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def main() -> None:
    env, minutes = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    run = Path("runs/soak") / env
    shutil.rmtree(run, ignore_errors=True)
    command = [sys.executable, "-m", "acer", "train", env, "--steps", "1000000000", "--checkpoint-minutes", "1",
               "--out", str(run), "--quiet", *FLAGS[env]]  # fmt: skip
    process = subprocess.Popen(command)
    rows: list[list[int]] = []
    began = time.monotonic()
    try:
        while process.poll() is None and time.monotonic() - began < 60 * minutes:
            rows.append([round(time.monotonic() - began), steps_of(run), *sample(process.pid)])
            time.sleep(10)
        if process.returncode is not None:
            sys.exit(f"the training ended by itself with code {process.returncode}: no result")
    finally:
        process.terminate()
        process.wait()
    write(RESULTS / f"soak-{env}.csv", ["seconds", "steps", "resident_bytes", "file_handles"], rows)
    collect()


def collect() -> None:
    """A line for each environment."""
    lines = []
    for env in FLAGS:
        path = RESULTS / f"soak-{env}.csv"
        if not path.exists():
            continue
        with path.open() as file:
            rows = [{key: int(value) for key, value in row.items()} for row in csv.DictReader(file)]
        full = [row for row in rows if row["steps"] >= FULL[env]]
        if not full:
            sys.exit(f"{path}: the replay memory was never full; give it more minutes")
        tenth = max(1, len(full) // 10)
        first, last = (sum(row["resident_bytes"] for row in part) / tenth for part in (full[:tenth], full[-tenth:]))
        handles = sorted({row["file_handles"] for row in full})
        minutes = round(rows[-1]["seconds"] / 60, 1)
        lines.append([env, minutes, rows[-1]["steps"], full[0]["steps"], round(first / 1e6, 1),
                      round(last / 1e6, 1), f"{last / first - 1:.2%}", " ".join(map(str, handles))])  # fmt: skip
    write(
        RESULTS / "soak.csv",
        ["env", "minutes", "steps", "full_at", "megabytes_when_full", "megabytes_at_the_end", "growth", "file_handles"],
        lines,
    )


if __name__ == "__main__":
    main()
