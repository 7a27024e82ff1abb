"""ACER without each of its four components (Figure 4)."""

from pathlib import Path

from acer.experiments import learning_curves
from acer.experiments.plan import Plan
from acer.experiments.random_search import CONTROL_SIZES, configure
from acer.experiments.results import Results

ABLATIONS = ("acer", "no-trust-region", "no-sdn", "no-retrace", "no-truncation")
PLAN = Plan("task", ("fish", "walker", "humanoid"), ABLATIONS, CONTROL_SIZES, configure)
PAIRS = [("acer", other) for other in ABLATIONS if other != "acer"]


def draw(results: Results) -> list[Path]:
    """Curves, the paper's statistic, and how often ACER is ahead of itself without a component."""
    return learning_curves.draw(results, PAIRS)
