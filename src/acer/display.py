"""The live progress display; quiet when standard error is not a terminal."""

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

errors = Console(stderr=True)


def warn(line: str) -> None:
    """Something that the user should know though the run goes on."""
    errors.print(f"acer: {line}", style="yellow", markup=False, highlight=False, soft_wrap=True)


class Display:
    """One line: steps done, return, speed, time left."""

    def __init__(self, name: str, total: int, done: int = 0, shown: bool = True) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("return [bold]{task.fields[episode_return]}"),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(elapsed_when_finished=True),
            console=errors,
            disable=not (shown and errors.is_terminal),
        )
        self._task: TaskID = self._progress.add_task(name, total=total, completed=done, episode_return="…", speed="")

    def __enter__(self) -> "Display":
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, steps: int, episode_return: float, speed: float) -> None:
        text = "…" if episode_return != episode_return else f"{episode_return:,.1f}"
        self._progress.update(self._task, completed=steps, episode_return=text, speed=f"{speed:,.0f} steps/s")

    def say(self, line: str) -> None:
        """A line above the bar, on a terminal only."""
        if not self._progress.disable:
            self._progress.console.print(line, highlight=False)
