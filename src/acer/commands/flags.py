"""The parser of a command, and the flags that are made from the settings' declarations."""

import argparse
import difflib
import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn

from acer.config import Setting, flag_name
from acer.config.setting import check_choice, is_list, is_table
from acer.errors import SettingsError

Group = Any  # what argparse's `add_argument_group` gives

WHOLE = re.compile(r"\d+(\.\d+)?[eE]\+?\d{1,2}")


class Parser(argparse.ArgumentParser):
    """argparse's, whose complaints are errors of one line, with the nearest flags that there are."""

    def __init__(self, command: str, description: str | None) -> None:
        super().__init__(
            prog=f"acer {command}",
            description=description,
            allow_abbrev=False,
            conflict_handler="resolve",  # a command may have a --help of its own
            formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=30),
        )
        self._flags: list[str] = []

    def flag(self, *names: str, group: Group = None, **options: Any) -> None:
        """Adds an argument. One that is not given is None unless `default` says otherwise."""
        self._flags += (group or self).add_argument(*names, **options).option_strings

    def read(self, args: Sequence[str]) -> argparse.Namespace:
        """The arguments, in any order."""
        found, unknown = self.parse_known_intermixed_args(args)
        if unknown:
            near = [flag for one in unknown for flag in difflib.get_close_matches(one, self._flags, 2)]
            hint = f"; did you mean {' or '.join(near[:2])}?" if near else ""
            self.error(f"Unrecognized options: {' '.join(unknown)}{hint}")
        return found

    def error(self, message: str) -> NoReturn:
        raise SettingsError(f"{message} ({self.prog} --help)")


def add_setting(
    parser: Parser, of: Setting, sentence: str, group: Group = None, default: Any = argparse.SUPPRESS
) -> None:
    """The flag of a setting. Without it the parsed arguments do not have the setting; `default` is only shown."""
    flag = flag_name(of.name)
    names = [flag] if of.alias is None else [flag, of.alias]
    text = sentence.replace("%", "%%")
    if default is not argparse.SUPPRESS:
        text += f" [{_shown(default)}]".replace("%", "%%")
    options: dict[str, Any] = {"help": text, "default": argparse.SUPPRESS, "group": group}
    if of.hint is bool:
        parser.flag(*names, action=argparse.BooleanOptionalAction, **options)
    elif is_list(of) and of.choices is not None:
        words = "{" + ",".join(of.choices) + "}"
        parser.flag(*names, nargs="*", type=choice(of.name, of.choices), metavar=words, **options)
    elif is_list(of):
        parser.flag(*names, nargs="*", type=reader(flag, int), metavar="N", **options)
    elif is_table(of):
        parser.flag(*names, nargs="*", action=_Table, metavar="NAME=VALUE", **options)
    elif of.choices is not None and of.own:
        metavar = "{" + ",".join((*of.choices, "module:Class")) + "}"
        parser.flag(*names, type=str, metavar=metavar, **options)
    elif of.choices is not None:
        parser.flag(*names, type=choice(of.name, of.choices), metavar="{" + ",".join(of.choices) + "}", **options)
    else:
        kind = {int: "N", float: "X", str: "TEXT"}[of.hint]
        parser.flag(*names, type=reader(flag, of.hint), metavar=kind, **options)


class _Table(argparse.Action):
    """Gathers name=value, also from a flag that is given again; a value is read as JSON where it is that."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: Any = None) -> None:
        table = dict(getattr(namespace, self.dest, {}))
        for pair in values:
            name, sign, text = pair.partition("=")
            if not sign or not name.isidentifier():
                raise SettingsError(f"{option_string} takes name=value, for example continuous=true, not {pair!r}")
            try:
                table[name] = json.loads(text)
            except ValueError:
                table[name] = text
        setattr(namespace, self.dest, table)


def reader(flag: str, kind: type) -> Callable[[str], Any]:
    """Reads what follows a flag; numbers as people write them, 1e6 for a whole one too."""

    def read(text: str) -> Any:
        if kind is str:
            return text
        whole = kind is int and WHOLE.fullmatch(text) and float(text).is_integer()
        try:
            return int(float(text)) if whole else kind(text)
        except ValueError:
            what = "a whole number" if kind is int else "a number"
            raise SettingsError(f"{flag} must be {what}, not {text!r}") from None

    return read


def choice(name: str, choices: Collection[str]) -> Callable[[str], str]:
    """Reads one of several words after the flag of `name`."""

    def read(text: str) -> str:
        check_choice(name, text, choices)
        return text

    return read


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value) if value not in ("", {}) else "none"
