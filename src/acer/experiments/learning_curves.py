"""What experiments on control tasks draw and write: curves, the paper's statistic, and methods pair by pair."""

from collections.abc import Sequence
from pathlib import Path

from acer.experiments import figures, summaries
from acer.experiments.results import Results


def draw(results: Results, pairs: Sequence[tuple[str, str]]) -> list[Path]:
    """pairs: which methods are compared setting by setting."""
    shown, runs = results.shown, results.runs
    curves, meaning = summaries.best_curves(shown, runs), summaries.meaning_of_curves(shown)
    drawn = figures.learning(curves, f"{meaning}\n{results.caption}", results.stem)
    by_pair = summaries.pairs_table(shown, runs, pairs)
    return [*drawn, results.write("", summaries.CONTROL_TABLE, summaries.control_table(shown, runs)),
            results.write("-pairs", summaries.PAIRS_TABLE, by_pair)]  # fmt: skip
