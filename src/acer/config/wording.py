"""Messages for Python: they are written for the command line, and say keywords where that says flags."""

import contextlib
import re
from collections.abc import Iterator

from acer.config.settings import SETTINGS
from acer.errors import AcerError

NUMBER = re.compile(r"-?\d[\d.e+-]*|inf")
FLAG = re.compile(r"--(no-)?([a-z][a-z-]*[a-z])(?: ([\w.+-]*\w))?")
WORDS = {"and", "cannot", "for", "is", "must", "or"}  # that follow a flag and are no value of it


def in_python(message: str) -> str:
    """The message with keywords: learning_rate for --learning-rate, torso='mlp' for --torso mlp."""
    return message if "in Python" in message else FLAG.sub(_keyword, message)


def _keyword(match: re.Match[str]) -> str:
    negated, flag, value = match.groups()
    of = SETTINGS.get(flag.replace("-", "_"))
    if of is None:
        return "out=…" if flag == "out" else match.group()
    rest = "" if value is None else f" {value}"
    if negated:
        return f"{of.name}=False{rest}"
    if of.hint in (int, float) and value is not None and NUMBER.fullmatch(value):
        return f"{of.name}={value}"
    if value in (of.choices or ()) or (of.hint is str and of.choices is None and value and value not in WORDS):
        return f"{of.name}={value!r}"
    return of.name + rest


@contextlib.contextmanager
def speaking_python() -> Iterator[None]:
    """Errors raised meanwhile speak Python."""
    try:
        yield
    except AcerError as error:
        error.args = (in_python(str(error)), *error.args[1:])
        raise
