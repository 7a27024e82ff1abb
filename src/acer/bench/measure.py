"""Taking turns, medians, and peers in environments of their own."""

import os
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from acer.errors import AcerError


def alternate(
    contenders: dict[str, Callable[[], float]], turns: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Runs every contender `turns` times, one after the other in each turn; each call gives its steps per second."""
    results: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(turns):
        for name, contender in contenders.items():
            results[name].append(contender())
            say(f"turn {turn + 1}/{turns}  {name:<28} {results[name][-1]:>12,.1f} steps/s")
    return results


def medians(results: dict[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in results.items()}


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Seconds that one call of `work` takes."""
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - began) / repeats


def peer_python(name: str, requirements: Sequence[str], say: Callable[[str], None]) -> Path:
    """The interpreter of a peer's own virtual environment, made on first use in the user's cache."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    directory = cache / "acer" / "peers" / name
    python, ready = directory / "bin" / "python", directory / "ready"
    if not ready.exists() or ready.read_text() != "\n".join(requirements):
        say(f"Installing {', '.join(requirements)} into {directory}, once")
        venv.create(directory, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        run = subprocess.run(install, stdout=sys.stderr, check=False)
        if run.returncode:
            raise AcerError(f"cannot install the peer {name} (pip failed); --no-peers measures without it")
        ready.write_text("\n".join(requirements))
    return python
