"""Callbacks: the user's own code at the three moments of a run that matter."""

from typing import TYPE_CHECKING

from acer.learner.actor_learner import Report
from acer.run.evaluation import Evaluation

if TYPE_CHECKING:
    from acer.run.training import Training


class Callback:
    """Override what you need. A method that returns False ends the training after the current iteration."""

    def on_rollout(self, training: "Training", report: Report) -> bool | None:
        """After each iteration of Algorithm 1: new trajectories have been collected and learnt from."""

    def on_update(self, training: "Training", diagnostics: dict[str, float]) -> bool | None:
        """After each update of the parameters."""

    def on_evaluation(self, training: "Training", evaluation: Evaluation) -> bool | None:
        """After each evaluation."""
