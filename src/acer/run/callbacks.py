"""Callbacks: the user's own code at the three moments of a run that matter, and what it sees of the run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from acer.config import Config
from acer.errors import SettingsError
from acer.learner.actor_learner import Report
from acer.run.evaluation import Evaluation


class Watched(Protocol):
    """A run, as far as it is shown."""

    stopping: bool

    @property
    def config(self) -> Config: ...

    @property
    def steps(self) -> int: ...

    @property
    def metrics(self) -> dict[str, Any]: ...

    def evaluate(self, episodes: int, deterministic: bool = True) -> Evaluation: ...

    def save_model(self, path: Path) -> None: ...


class RunView:
    """What a callback sees of its run, and can ask of it."""

    def __init__(self, run: Watched) -> None:
        self._run = run

    @property
    def config(self) -> Config:
        """The settings, all of them."""
        return self._run.config

    @property
    def steps(self) -> int:
        """Environment steps done, by all actor-learners."""
        return self._run.steps

    @property
    def metrics(self) -> dict[str, Any]:
        """What the next row of progress.csv would say now, by its columns; what has none yet is missing or empty."""
        return self._run.metrics

    def evaluate(self, episodes: int, deterministic: bool = True) -> Evaluation:
        """Plays in environments of its own, on seeds that the run has not had."""
        return self._run.evaluate(episodes, deterministic)

    def save(self, path: str | Path) -> None:
        """Saves the model as it is now, as `ACER.save` does."""
        self._run.save_model(Path(path))

    def stop(self) -> None:
        """Ends the training after the current iteration; the run is saved."""
        self._run.stopping = True


class Callback:
    """Override what you need. A method that returns False ends the training after the current iteration."""

    def on_rollout(self, run: RunView, report: Report) -> bool | None:
        """After each iteration of Algorithm 1: new trajectories have been collected and learnt from."""

    def on_update(self, run: RunView, diagnostics: dict[str, float]) -> bool | None:
        """After each update of the parameters."""

    def on_evaluation(self, run: RunView, evaluation: Evaluation) -> bool | None:
        """After each evaluation."""

    @property
    def watches_updates(self) -> bool:
        """Whether each update has to be measured for it."""
        return type(self).on_update is not Callback.on_update


Call = Callable[[str, Any], None]
"""Tells the callbacks of a moment: its method's name, and what there is to tell."""


class _Function(Callback):
    """A function that is called after each rollout."""

    def __init__(self, function: Callable[[RunView, Report], Any]) -> None:
        self.function = function

    def on_rollout(self, run: RunView, report: Report) -> bool | None:
        ends: bool | None = self.function(run, report)
        return ends


Callbacks = Callback | Callable[[RunView, Report], Any] | Sequence[Any] | None


def as_callbacks(given: Callbacks) -> list[Callback]:
    """One callback, one function or several of them, as a list."""
    if given is None:
        return []
    many = given if isinstance(given, list | tuple) else [given]
    return [_as_callback(one) for one in many]


def _as_callback(given: Any) -> Callback:
    if isinstance(given, Callback):
        return given
    if isinstance(given, type):
        raise SettingsError(f"{given.__name__} is a class: give an instance, {given.__name__}()")
    if not callable(given):
        raise SettingsError(f"{given!r} is no callback: give an acer.Callback, or a function of the run and a report")
    return _Function(given)
