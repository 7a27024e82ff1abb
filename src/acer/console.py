"""What acer says on standard error; standard output is for results."""

from rich.console import Console

errors = Console(stderr=True)


def warn(line: str) -> None:
    """Something that the user should know though the run goes on."""
    errors.print(f"acer: {line}", style="yellow", markup=False, highlight=False, soft_wrap=True)


def complain(line: str) -> None:
    """Something that has failed."""
    errors.print(f"acer: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
