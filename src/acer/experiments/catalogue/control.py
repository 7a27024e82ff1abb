"""Five methods on the six control tasks (Figure 3)."""

from pathlib import Path

from acer.envs.tasks import TASKS
from acer.experiments import learning_curves
from acer.experiments.plan import Plan
from acer.experiments.random_search import CONTROL_SIZES, configure
from acer.experiments.results import Results

BASELINES = ("a3c", "trust-a3c", "tis", "trust-tis", "acer")
PLAN = Plan("task", tuple(TASKS), BASELINES, CONTROL_SIZES, configure)
PAIRS = [*(("acer", other) for other in BASELINES if other != "acer"), ("trust-a3c", "a3c"), ("trust-tis", "tis")]


def draw(results: Results) -> list[Path]:
    """Curves, the paper's statistic, and which method is ahead of which: ACER of all, trust region of none."""
    return learning_curves.draw(results, PAIRS)
