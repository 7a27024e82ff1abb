"""Benchmarks: this package beside its peers and beside the bare cost of the same work, in one run on one machine.

Machines are noisy, so what counts are ratios: contenders take turns, and a ratio is the median of those within a turn.

May import: `acer.run` and what lies below it.
"""

from acer.bench.atari import atari
from acer.bench.classic import classic
from acer.bench.control import control

BENCHMARKS = {"classic": classic, "atari": atari, "control": control}

__all__ = ["BENCHMARKS"]
