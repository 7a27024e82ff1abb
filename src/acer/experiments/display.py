"""The progress of many runs at once."""

import math
import threading
import time

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from acer.console import errors
from acer.run.display import Live


class JobsDisplay(Live):
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

    def leave_out(self, runs: int, steps: int) -> None:
        """Runs that will not be needed, and their steps together."""
        with self._lock:
            self._runs -= runs
            self._steps -= steps
            self._progress.update(self._all, total=self._steps)

    def end(self, name: str, steps: int, error: str = "", pruned: bool = False) -> None:
        """A run that is over, well or not, or ended early by a search."""
        with self._lock:
            if error or pruned:
                self._first += steps - self._at.get(name, 0)  # what it did not do took no time
            self.drop(name)
            self._runs_done += 1
            self._steps_done += steps
            self._refresh()
            line = f"{self._title()}  {name}: {error or ('pruned' if pruned else 'done')}; {self._left()}"
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
