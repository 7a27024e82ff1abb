"""The live progress displays; quiet when standard error is not a terminal."""

import math
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

if TYPE_CHECKING:
    from acer.crew import Member

errors = Console(stderr=True)


def warn(line: str) -> None:
    """Something that the user should know though the run goes on."""
    errors.print(f"acer: {line}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def complain(line: str) -> None:
    """Something that has failed."""
    errors.print(f"acer: {line}", style="red", markup=False, highlight=False, soft_wrap=True)


class _Only(ProgressColumn):
    """A column of the run's own line, empty in those of its actor-learners, which have no total."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self._column = column

    def render(self, task: Task) -> RenderableType:
        return self._column(task) if task.total is not None else Text()


class _Live:
    """Shows its progress as long as it is entered."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class Display(_Live):
    """One line: steps done, return, speed, time left; and one for each actor-learner of a crew."""

    def __init__(self, name: str, total: int, done: int = 0, shown: bool = True) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            _Only(BarColumn()),
            _Only(MofNCompleteColumn()),
            TextColumn("return [bold]{task.fields[episode_return]}"),
            TextColumn("{task.fields[speed]}"),
            _Only(TimeRemainingColumn(elapsed_when_finished=True)),
            console=errors,
            disable=not (shown and errors.is_terminal),
        )
        self._task: TaskID = self._progress.add_task(name, total=total, completed=done, episode_return="…", speed="")
        self._members: list[TaskID] = []

    def show(self, steps: int, episode_return: float, speed: float, members: Sequence["Member"] = ()) -> None:
        self._update(self._task, episode_return, speed, completed=steps)
        while len(self._members) < len(members):
            actor = f"actor {len(self._members)}"
            self._members.append(self._progress.add_task(actor, total=None, episode_return="…", speed=""))
        for task, member in zip(self._members, members, strict=True):
            dead = "  restarting" if member.due is not None else ""
            restarts = f"  {member.restarts} restarts" if member.restarts else ""
            self._update(task, member.last_return, member.speed, restarts + dead)

    def _update(self, task: TaskID, episode_return: float, speed: float, more: str = "", **fields: int) -> None:
        text = "…" if math.isnan(episode_return) else f"{episode_return:,.1f}"
        self._progress.update(task, episode_return=text, speed=f"{speed:,.0f} steps/s{more}", **fields)  # type: ignore[arg-type]

    def say(self, line: str) -> None:
        """A line above the bar, on a terminal only."""
        if not self._progress.disable:
            self._progress.console.print(line, highlight=False)


class JobsDisplay(_Live):
    """Many runs at once: a line for all of them with the time left, and one for each that is going on.

    Where there is no terminal, a line for each that ends.
    """

    def __init__(self, runs: int, runs_done: int, steps: int, steps_done: int) -> None:
        self._runs, self._runs_done = runs, runs_done
        self._steps, self._steps_done, self._first = steps, steps_done, steps_done
        self._at: dict[str, int] = {}  # steps of the runs that are going on
        self._lock = threading.RLock()  # each run has a thread that tells of it
        self._began = time.monotonic()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f}/{task.total:,.0f} steps"),
            TextColumn("{task.fields[left]}"),
            console=errors,
            disable=not errors.is_terminal,
        )
        self._all = self._progress.add_task(self._title(), total=steps, completed=steps_done, left="")
        self._tasks: dict[str, TaskID] = {}

    def begin(self, name: str, steps: int) -> None:
        with self._lock:
            self._at[name] = 0
            self._tasks[name] = self._progress.add_task(f"  {name}", total=steps, left="")

    def show(self, name: str, steps: int) -> None:
        """How far a run is. The steps that it has when it is first heard of were not done now: it went on."""
        with self._lock:
            if not self._at[name]:
                self._first += steps
            self._at[name] = steps
            self._progress.update(self._tasks[name], completed=steps)
            self._refresh()

    def drop(self, name: str) -> None:
        """A run that was asked to stop."""
        with self._lock:
            if name in self._tasks:
                self._progress.remove_task(self._tasks.pop(name))
            self._at.pop(name, None)

    def end(self, name: str, steps: int, error: str = "") -> None:
        """A run that is over, well or not."""
        with self._lock:
            if error:
                self._first += steps - self._at.get(name, 0)  # what it did not do took no time
            self.drop(name)
            self._runs_done += 1
            self._steps_done += steps
            self._refresh()
            line = f"{self._title()}  {name}: {error or 'done'}; {self._left()}"
        if error or self._progress.disable:
            errors.print(line, style="red" if error else None, markup=False, highlight=False, soft_wrap=True)

    def _refresh(self) -> None:
        done = self._steps_done + sum(self._at.values())
        self._progress.update(self._all, completed=done, description=self._title(), left=self._left())

    def _title(self) -> str:
        return f"{self._runs_done}/{self._runs} runs"

    def _left(self) -> str:
        """Time left at the speed so far."""
        done = self._steps_done + sum(self._at.values())
        new, seconds = done - self._first, time.monotonic() - self._began
        if new <= 0:
            return "time left unknown"
        hours, minutes = divmod(math.ceil(seconds * max(0, self._steps - done) / new / 60), 60)
        return f"{hours} h {minutes:02d} min left" if hours else f"{minutes} min left"
