"""Taking turns, medians, and peers in environments of their own."""

import os
import statistics
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acer.config import Config
from acer.errors import AcerError
from acer.machine import cores


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


def ratio(results: dict[str, list[float]], one: str, other: str) -> float:
    """Median over the turns of how many times as fast `one` was as `other` in the same turn."""
    return statistics.median(a / b for a, b in zip(results[one], results[other], strict=True))


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Seconds that one call of `work` takes."""
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - began) / repeats


def report(
    name: str, config: Config, results: dict[str, list[float]], peers: Sequence[str], suffix: str = ""
) -> dict[str, Any]:
    """What every benchmark tells: this package and its roofline (the contenders with `suffix`), peers, all turns."""
    middle = medians(results)
    own, roofline = f"acer{suffix}", f"roofline{suffix}"
    peers = [peer for peer in peers if peer in results]
    return {
        "benchmark": name,
        "steps_per_second": middle[own],
        "roofline_steps_per_second": middle[roofline],
        "roofline_fraction": ratio(results, own, roofline),
        "peers": {peer: middle[peer] for peer in peers},
        "times_the_peers": {peer: ratio(results, own, peer) for peer in peers},
        "turns": results,
        "cores": cores(),
        "settings": asdict(config),
    }


def peer_speed(python: Path | str, script: str, arguments: Sequence[object], who: str) -> float:
    """The number that a peer's script, a file beside this one, prints last: its steps per second."""
    command = [str(python), "-W", "ignore", str(Path(__file__).with_name(script)), *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return float(run.stdout.split()[-1])
    except (IndexError, ValueError):
        lines = run.stderr.strip().splitlines() or ["no message"]
        raise AcerError(f"{who} failed: {lines[-1]}; --no-peers measures without it") from None


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
