"""What a run tells while it goes on: rows of its tables, evaluations, the display, the user's callbacks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from acer.errors import FAILED, EnvironmentFault
from acer.learner.actor_learner import Report
from acer.run.callbacks import Call
from acer.run.display import Display
from acer.run.evaluation import Evaluation
from acer.run.logs import Logs
from acer.run.state import RunState


class Evaluate(Protocol):
    """Plays episodes with the parameters as they are."""

    def __call__(self, episodes: int, deterministic: bool = True) -> Evaluation: ...


@dataclass(frozen=True)
class Record:
    """Of one session."""

    state: RunState
    logs: Logs
    display: Display
    call: Call
    evaluate: Evaluate

    def take(self, reports: Sequence[Report]) -> None:
        """Takes down what actor-learners report."""
        for report in reports:
            self.state.meter.add(report)
            self.logs.episodes(report.total, report.episodes)
            self.call("on_rollout", report)

    def row_if_due(self, speed: float, note: str) -> None:
        """The next row of progress.csv, if it is time. note: what the workers say of themselves, for the display."""
        progress, steps = self.state.progress, self.state.steps
        if steps - progress.row_at >= self.state.config.log_every:
            self.logs.progress(self.state.row())
            self.display.log(steps, self.state.meter.return_mean, speed, note)
            progress.row_at, progress.row_seconds = steps, progress.seconds

    def last_row(self) -> None:
        """What has happened since the last row. What ends a run is not part of it: if it goes on, this row gives way
        to those of a run that never stopped."""
        if self.state.progress.row_at < self.state.steps:
            self.logs.progress(self.state.row(final=True), final=True)

    def evaluation(self, final: bool = False) -> bool:
        """Evaluates and writes it down; whether it is the best so far."""
        config, progress = self.state.config, self.state.progress
        before = progress.evaluations
        try:
            result = self.evaluate(config.eval_episodes, deterministic=config.eval_policy == "mode")
        except KeyboardInterrupt:  # of the evaluation only: the run itself ends in order
            progress.evaluations = before
            return False
        progress.evaluation_due = False
        if final:
            progress.evaluations = before
        row = {"steps": self.state.steps, "seconds": progress.seconds, **result.row()}
        self.logs.evaluation(row, final)
        said = f"evaluation ({row['policy']}) {result.mean:,.1f} ± {result.std:,.1f}{result.said_of_cut()}"
        self.display.say(f"{self.state.steps:>12,} steps  {said}")
        if final or result.mean <= progress.best:
            return False
        progress.best = result.mean
        return True

    def last_evaluation(self) -> None:
        """The one at the end of a run."""
        config = self.state.config
        most = f"{config.eval_episodes} episodes of at most {config.eval_limit:,} steps"
        self.display.say(f"{self.state.steps:>12,} steps  evaluating: {most}")
        try:
            self.evaluation(final=True)
        except EnvironmentFault as error:
            error.exit_code = FAILED
            raise


def due(every: int, steps: int, new: int) -> bool:
    """Whether a multiple of `every` lies among the last `new` steps."""
    return bool(every) and steps // every > (steps - new) // every
