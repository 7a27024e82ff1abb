"""What acer says: lines on standard error, results on standard output.

Nothing that is said can end a run: a closed stream, a reader that has gone away and a full disk cost the line. Names
and messages come from files and environments of others, so what would command a terminal is shown instead of sent.
"""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import IO, Any

from rich.console import Console


class _StandardError:
    """Whatever standard error is at the moment of writing. Losing a line is no error."""

    encoding = "utf-8"

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._stream().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._stream().flush()

    def isatty(self) -> bool:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            return bool(self._stream().isatty())
        return False

    def fileno(self) -> int:
        return int(self._stream().fileno())

    def _stream(self) -> Any:
        return getattr(sys.stderr, "rich_proxied_file", sys.stderr)  # not rich's own, which would write here again


def _console() -> Console:
    stream: Any = _StandardError()
    file: IO[str] = stream
    return Console(file=file)


errors = _console()


def printable(text: str) -> str:
    """A text with what would command a terminal, or turn its letters around, shown as escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def say(line: str, style: str | None = None) -> None:
    """A line on standard error."""
    errors.print(printable(line), style=style, markup=False, highlight=False, soft_wrap=True)


def warn(line: str) -> None:
    """Something that the user should know though the run goes on."""
    say(f"acer: {_in_one_line(line)}", "yellow")


def complain(line: str) -> None:
    """Something that has failed."""
    say(f"acer: {_in_one_line(line)}", "red")


def _in_one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def tell(result: str) -> None:
    """A result, on standard output; OSError if it cannot be written, nothing if there is no such stream any more."""
    with contextlib.suppress(ValueError):  # closed by an environment
        print(printable(result), flush=True)


@contextlib.contextmanager
def output_to_errors() -> Iterator[None]:
    """Meanwhile, what environments print goes to standard error: standard output is for the result."""
    with contextlib.redirect_stdout(sys.stderr):
        try:
            held = os.dup(1)
        except OSError:  # there is none
            yield
            return
        try:
            with contextlib.suppress(OSError):
                os.dup2(2, 1)
            yield
        finally:
            os.dup2(held, 1)
            os.close(held)


def leave_standard_output() -> None:
    """If standard output cannot be written, lets the null device have what is left: the interpreter's last flush of it
    would fail, and change the exit code."""
    try:
        sys.stdout.flush()
    except OSError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (ValueError, AttributeError):  # closed, or none
        pass
