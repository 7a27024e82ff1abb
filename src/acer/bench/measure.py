"""Taking turns, medians, and peers in environments of their own."""

import os
import statistics
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ProcessPoolExecutor, wait
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch.multiprocessing import get_context

from acer.config import Config
from acer.errors import AcerError
from acer.machine import cores, versions

PATIENCE = 1_800.0  # seconds that a peer's measurement may take

Parts = tuple[dict[str, float], dict[str, float]]
"""Seconds by part of an iteration of Algorithm 1, and of its bare work."""

Speeds = dict[str, list[float]]
"""Steps per second in each turn, by what was measured."""


def alternate(contenders: Sequence[Callable[[], dict[str, float]]], turns: int, say: Callable[[str], None]) -> Speeds:
    """Calls every contender `turns` times, one after the other in each turn; each gives what it measured, by name."""
    results: Speeds = {}
    for turn in range(turns):
        for contender in contenders:
            for name, speed in contender().items():
                results.setdefault(name, []).append(speed)
                say(f"turn {turn + 1}/{turns}  {name:<36} {speed:>12,.1f} steps/s")
    return results


def medians(results: Speeds) -> dict[str, float]:
    return {name: statistics.median(values) for name, values in results.items()}


def ratio(results: Speeds, one: str, other: str) -> float:
    """Median over the turns of how many times as fast `one` was as `other` in the same turn."""
    return statistics.median(a / b for a, b in zip(results[one], results[other], strict=True))


def seconds(work: Callable[[], object], repeats: int) -> float:
    """Seconds that one call of `work` takes."""
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    return (time.perf_counter() - began) / repeats


def at_once(work: Callable[..., Any], parts: Sequence[Sequence[Any]]) -> list[Any]:
    """What `work(*part)` gives for each part, each in a process of its own; they go on together from every `meet`."""
    context = get_context("forkserver")
    with ProcessPoolExecutor(len(parts), context, _arrive, (context.Barrier(len(parts)),)) as pool:
        futures = [pool.submit(_then_leave, work, part) for part in parts]
        for future in wait(futures, return_when=FIRST_EXCEPTION).done:
            future.result()  # what went wrong first
        return [future.result() for future in futures]


_others: Any = None


def _arrive(barrier: Any) -> None:
    global _others
    _others = barrier


def _then_leave(work: Callable[..., Any], part: Sequence[Any]) -> Any:
    try:
        result = work(*part)
        meet()  # who leaves first would break up a meeting that others are still coming out of
        return result
    finally:
        _others.abort()


def meet() -> bool:
    """Waits for the other processes of `at_once`; False if one has left."""
    try:
        _others.wait(PATIENCE)
    except threading.BrokenBarrierError:
        return False
    return True


def report(
    name: str, config: Config, results: Speeds, parts: Sequence[Parts], peers: Sequence[str], suffix: str = ""
) -> dict[str, Any]:
    """What every benchmark tells: this package and its roofline (what was measured with `suffix`), where the time goes,
    peers, all turns."""
    middle = medians(results)
    own, roofline = f"acer{suffix}", f"roofline{suffix}"
    peers = [peer for peer in peers if peer in results]
    return {
        "benchmark": name,
        "steps_per_second": middle[own],
        "roofline_steps_per_second": middle[roofline],
        "roofline_fraction": ratio(results, own, roofline),
        "milliseconds_per_iteration": where_time_goes(parts),
        "peers": {peer: middle[peer] for peer in peers},
        "times_the_peers": {peer: ratio(results, own, peer) for peer in peers},
        "turns": results,
        "cores": cores(),
        "versions": versions(),
        "settings": asdict(config),
    }


def where_time_goes(turns: Sequence[Parts]) -> dict[str, dict[str, float]]:
    """By part, milliseconds that an iteration takes and those of its bare work: medians over the turns."""

    def middle(of: Sequence[dict[str, float]], part: str) -> float:
        return round(1000 * statistics.median(one.get(part, 0.0) for one in of), 2)

    owns, bares = ([turn[i] for turn in turns] for i in (0, 1))
    return {part: {"acer": middle(owns, part), "bare": middle(bares, part)} for part in owns[0]}


def peer_speed(python: Path | str, script: str, arguments: Sequence[object], who: str) -> float:
    """The number that a peer's script, a file beside this one, prints last: its steps per second."""
    command = [str(python), "-W", "ignore", str(Path(__file__).with_name(script)), *map(str, arguments)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
        if not run.returncode:
            return float(run.stdout.split()[-1])
        reason = (run.stderr.strip().splitlines() or ["no message"])[-1]
    except subprocess.TimeoutExpired:
        reason = f"not done after {PATIENCE:.0f} seconds"
    except (IndexError, ValueError):
        reason = "it printed no speed"
    raise AcerError(f"{who} failed: {reason}; --no-peers measures without it")


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
