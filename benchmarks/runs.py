"""Runs that a benchmark trains: from their beginning, or from where they stopped."""

import subprocess
import sys
from pathlib import Path

from acer.run.tables import read

COMMAND = [sys.executable, "-m", "acer"]


def steps_of(out: Path) -> int:
    """How far the run in `out` has come."""
    progress = out / "progress.csv"
    rows = read(progress) if progress.exists() else []
    return int(rows[-1]["steps"]) if rows else 0


def train(out: Path, env: str, steps: int, *flags: str) -> None:
    """Trains the run in `out` to that many steps; one that has them stays as it is."""
    if steps_of(out) >= steps:
        return
    begun = (out / "config.json").exists()
    again = ["resume", str(out), *(["--env", env] if ":" in env else [])]  # a file's word for code is not enough
    command = again if begun else ["train", env, "--out", str(out), *flags]
    subprocess.run([*COMMAND, *command, "--steps", str(steps), "--quiet"], check=True)
