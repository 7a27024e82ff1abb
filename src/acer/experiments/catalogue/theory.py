"""The theory on random MDPs (Section 7), and what the truncation is for."""

from pathlib import Path

from acer.experiments import figures, theory
from acer.experiments.plan import Scale
from acer.experiments.results import Say, write

# By scale: MDPs, trajectories for each state.
SIZES: dict[Scale, tuple[int, int]] = {"smoke": (5, 500), "small": (100, 1_000), "paper": (100, 1_000)}


def compute(scale: Scale, stem: Path, say: Say) -> list[Path]:
    """Seconds of linear algebra and sampling."""
    mdps, samples = SIZES[scale]
    say(f"Experiment theory, scale {scale}: {mdps} random MDPs, in {stem.parent}")
    rows = theory.rows(mdps, samples)
    text = (f"scale: {scale}; {mdps} random MDPs of {theory.STATES} states and {theory.ACTIONS} actions, "
            f"γ = {theory.GAMMA}; bands hold 90 % of them")  # fmt: skip
    table = write(stem, "", ["panel", "series", "x", "value", "low", "high"], rows)
    return [*figures.theory(rows, theory.GAMMA, text, stem), table]
