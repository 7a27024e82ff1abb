"""The live progress displays, on a terminal or in a notebook; elsewhere lines at each row of the log."""

import importlib
import io
import math
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

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

from acer.console import errors

if TYPE_CHECKING:
    from acer.homes.supervisor import WorkerStatus


class _Only(ProgressColumn):
    """A column of the run's own line, empty in those of its actor-learners, which have no total."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self._column = column

    def render(self, task: Task) -> RenderableType:
        return self._column(task) if task.total is not None else Text()


class Live:
    """Shows its progress as long as it is entered."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()


class Cell:
    """One output of a notebook, drawn again in place; it needs no widgets."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._drawn = -math.inf

    def draw(self, what: RenderableType, at_once: bool = False) -> None:
        """Shows it, but for what follows within a quarter of a second."""
        now = time.monotonic()
        if now - self._drawn < 0.25 and not at_once:
            return
        self._drawn = now
        page = Console(file=io.StringIO(), width=100, force_jupyter=False, force_terminal=False)
        with page.capture() as text:
            page.print(what)
        data = {"text/plain": text.get().rstrip()}
        if self._handle is None:
            self._handle = importlib.import_module("IPython.display").display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class Display(Live):
    """One line: steps done, return, speed, time left; and one for each actor-learner of a workers."""

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
        self._shown, self._total = shown, total
        self._cell = Cell() if shown and errors.is_jupyter else None
        self._task: TaskID = self._progress.add_task(name, total=total, completed=done, episode_return="…", speed="")
        self._members: list[TaskID] = []

    def show(
        self, steps: int, episode_return: float, speed: float, members: Sequence["WorkerStatus"] = (), note: str = ""
    ) -> None:
        """note: what else there is to say of all members."""
        self._update(self._task, episode_return, speed, f"  {note}" if note else "", completed=steps)
        while len(self._members) < len(members):
            actor = f"actor {len(self._members)}"
            self._members.append(self._progress.add_task(actor, total=None, episode_return="…", speed=""))
        for task, member in zip(self._members, members, strict=True):
            dead = "  restarting" if member.due is not None else ""
            restarts = f"  {member.restarts} restarts" if member.restarts else ""
            self._update(task, member.last_return, member.speed, restarts + dead)
        if self._cell is not None:
            self._cell.draw(self._progress.get_renderable(), at_once=steps >= self._total)

    def _update(self, task: TaskID, episode_return: float, speed: float, more: str = "", **fields: int) -> None:
        text = "…" if math.isnan(episode_return) else f"{episode_return:,.1f}"
        self._progress.update(task, episode_return=text, speed=f"{speed:,.0f} steps/s{more}", **fields)  # type: ignore[arg-type]

    def log(self, steps: int, episode_return: float, speed: float, note: str) -> None:
        """Where there is neither terminal nor notebook to draw on, a line at each row of the log."""
        if self._progress.disable and self._cell is None:
            text = "no episode yet" if math.isnan(episode_return) else f"return {episode_return:,.1f}"
            self.say(f"{steps:>12,} of {self._total:,} steps  {text}  {speed:,.0f} steps/s{note and '  ' + note}")

    def say(self, line: str) -> None:
        """A line above the bar, or into the log."""
        if self._shown:
            self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
