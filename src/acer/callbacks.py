"""Callbacks that people ask for: evaluate and save every so many steps, stop at a return or on a plateau.

`model.learn(100_000, callbacks=[EvaluateEvery(10_000), StopOnReturn(475)])`. What they count begins anew when a run
goes on.
"""

import math
from pathlib import Path

from acer.console import warn
from acer.errors import AcerError, SettingsError, described
from acer.learner.actor_learner import Report
from acer.run.callbacks import Callback, RunView
from acer.run.evaluation import Evaluation

__all__ = ["Callback", "EvaluateEvery", "RunView", "SaveEvery", "StopOnPlateau", "StopOnReturn"]

RECENT = 100  # episodes over which a run reports its return


class _Every(Callback):
    """Something that is done at multiples of a number of steps."""

    def __init__(self, steps: int) -> None:
        _need(steps >= 1, f"steps must be at least 1, not {steps}")
        self.every = steps
        self._passed: int | None = None  # multiples

    def on_rollout(self, run: RunView, report: Report) -> bool | None:
        passed = run.steps // self.every
        before = (run.steps - report.steps) // self.every if self._passed is None else self._passed
        self._passed = passed
        return self.act(run) if passed > before else None

    def act(self, run: RunView) -> bool | None:
        """What is done."""
        raise NotImplementedError


class EvaluateEvery(_Every):
    """Plays `episodes` episodes every `steps` steps, on new seeds, and keeps what came of them in `results`.

    deterministic: mode actions, or sampled ones; as the run's own evaluations, unless it is given.
    save_best: where the model with the best mean so far is saved.
    """

    def __init__(
        self,
        steps: int,
        episodes: int = 20,
        deterministic: bool | None = None,
        save_best: str | Path | None = None,
    ) -> None:
        super().__init__(steps)
        _need(episodes >= 1, f"episodes must be at least 1, not {episodes}")
        self.episodes, self.deterministic, self.save_best = episodes, deterministic, save_best
        self.results: list[tuple[int, Evaluation]] = []  # steps, and what was played there
        self.best = -math.inf

    def act(self, run: RunView) -> bool | None:
        mode = run.config.eval_policy == "mode" if self.deterministic is None else self.deterministic
        result = run.evaluate(self.episodes, mode)
        self.results.append((run.steps, result))
        if result.mean > self.best:
            self.best = result.mean
            if self.save_best is not None:
                _save(run, Path(self.save_best))
        return None


class SaveEvery(_Every):
    """Saves the model every `steps` steps as `folder`/STEPS, a directory that `ACER.load` takes."""

    def __init__(self, steps: int, folder: str | Path) -> None:
        super().__init__(steps)
        self.folder = Path(folder)

    def act(self, run: RunView) -> bool | None:
        _save(run, self.folder / f"{run.steps:012d}")
        return None


class StopOnReturn(Callback):
    """Ends the training once an evaluation's mean return reaches `target`.

    training: look at the last 100 episodes of the training instead, once there are so many.
    """

    def __init__(self, target: float, training: bool = False) -> None:
        self.target, self.training = target, training

    def on_rollout(self, run: RunView, report: Report) -> bool | None:
        if not self.training or not report.episodes:
            return None
        metrics = run.metrics
        return not (metrics["episodes"] >= RECENT and metrics["return_mean"] >= self.target)

    def on_evaluation(self, run: RunView, evaluation: Evaluation) -> bool | None:
        return None if self.training else evaluation.mean < self.target


class StopOnPlateau(Callback):
    """Ends the training after `patience` evaluations in a row that are not better than the best by `least_gain`."""

    def __init__(self, patience: int, least_gain: float = 0.0) -> None:
        _need(patience >= 1, f"patience must be at least 1, not {patience}")
        _need(least_gain >= 0, f"least_gain must not be negative, not {least_gain}")
        self.patience, self.least_gain = patience, least_gain
        self.best = -math.inf
        self.without_gain = 0  # evaluations

    def on_evaluation(self, run: RunView, evaluation: Evaluation) -> bool | None:
        if evaluation.mean > self.best + self.least_gain:
            self.best, self.without_gain = evaluation.mean, 0
        else:
            self.without_gain += 1
        return self.without_gain < self.patience


def _save(run: RunView, path: Path) -> None:
    """A model that cannot be saved costs itself, not the run."""
    try:
        run.save(path)
    except (AcerError, OSError) as error:
        warn(f"the model at step {run.steps:,} is not saved: {described(error)}")


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise SettingsError(message)
