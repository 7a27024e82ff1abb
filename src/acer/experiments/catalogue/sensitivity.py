"""ACER's final return against learning rate and δ (Figures 5 and 6)."""

from pathlib import Path

from acer.envs.tasks import TASKS
from acer.experiments import figures, summaries
from acer.experiments.plan import Plan
from acer.experiments.random_search import CONTROL_SIZES, configure
from acer.experiments.results import Results

PLAN = Plan("task", tuple(TASKS), ("acer",), CONTROL_SIZES, configure)


def draw(results: Results) -> list[Path]:
    """A point for each run."""
    rows = summaries.sensitivity_table(results.runs)
    drawn = figures.sensitivity(rows, results.caption, results.stem)
    return [*drawn, results.write("", summaries.SENSITIVITY_TABLE, rows)]
