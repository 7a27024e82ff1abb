"""The parts of a setting's declaration, and what is made of them: one value's type, its bounds, its flag."""

import contextlib
import dataclasses
import json
import math
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from acer.config.own import OwnCode
from acer.errors import SettingsError

if TYPE_CHECKING:
    from acer.config.settings import Config

FromFile = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True)
class Bound:
    """What a value must be; `must` completes "the setting must …"."""

    holds: Callable[[Any], bool]
    must: str


AT_LEAST_1 = Bound(lambda value: value >= 1, "be at least 1")
NOT_NEGATIVE = Bound(lambda value: value >= 0, "not be negative")
POSITIVE = Bound(lambda value: value > 0, "be positive")
FRACTION = Bound(lambda value: 0 <= value <= 1, "lie between 0 and 1")
SIZES = Bound(lambda value: all(size >= 1 for size in value), "be positive sizes")


@dataclass(frozen=True)
class When:
    """When a setting has a meaning; `said` completes "it is for …"."""

    holds: Callable[["Config", bool], bool]  # the configuration, and whether actions are continuous
    said: str


@dataclass(frozen=True)
class Setting:
    """One declaration."""

    group: str  # its heading in `acer train --help`
    bound: Bound | None = None
    when: When | None = None  # always, without one
    choices: Collection[str] | None = None  # of a text
    own: bool = False  # it may also be code of the user's own: module:Class, or a callable in Python
    may_be_infinite: bool = False
    from_file: FromFile | None = None  # whether a file may decide its value; it may if None
    alias: str | None = None  # another name of its flag
    # What the class says of it, filled in by `declared`.
    name: str = ""
    hint: Any = None
    default: Any = None


def setting(group: str, default: Any, bound: Bound | None = None, **more: Any) -> Any:
    """A field of `Config`. `more` is that of `Setting`."""
    metadata = {"setting": Setting(group, bound, **more)}
    if isinstance(default, dict):
        return dataclasses.field(default_factory=default.copy, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


def declared(of: type) -> dict[str, Setting]:
    """The declarations of a dataclass of settings, by name."""
    hints = typing.get_type_hints(of)
    found = {}
    for field in dataclasses.fields(of):
        of_field: Setting = field.metadata["setting"]
        hint, choices = hints[field.name], of_field.choices
        if typing.get_origin(hint) is Literal:
            choices = typing.get_args(hint)
        found[field.name] = dataclasses.replace(
            of_field,
            name=field.name,
            hint=hint,
            choices=choices,
            default=field.default if field.default_factory is dataclasses.MISSING else field.default_factory(),
        )
    return found


def flag_name(name: str) -> str:
    """A setting as the command line has it."""
    return "--" + name.replace("_", "-")


def coerced(of: Setting, value: Any) -> Any:
    """`value` as the setting's type: int for float and list for tuple are taken, nothing else is bent."""
    hint = of.hint
    if of.own and callable(value):
        return OwnCode.of(value)
    if of.own and isinstance(value, str) and ":" in value:
        return value
    if of.choices is not None:
        words = value if is_list(of) and isinstance(value, list | tuple) else [value]
        for word in words:
            check_choice(of.name, word, of.choices, of.own)
        return tuple(dict.fromkeys(words)) if is_list(of) else value
    if hint is float and isinstance(value, str) and value in ("inf", "Infinity"):
        return math.inf
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():  # people write 1e6
        return int(value)
    if is_list(of) and isinstance(value, list | tuple) and all(type(item) is int for item in value):
        return tuple(value)
    if is_table(of) and isinstance(value, dict) and _is_json(value):
        return dict(value)
    if not isinstance(hint, types.GenericAlias) and type(value) is hint:
        return value
    raise SettingsError(f"{flag_name(of.name)} must be {_type_name(of)}, not {value!r}")


def check_value(of: Setting, value: Any) -> None:
    """Refuses a value outside the setting's bounds."""
    if of.bound is not None and not of.bound.holds(value):
        raise SettingsError(f"{flag_name(of.name)} must {of.bound.must}, not {value}")
    if isinstance(value, float) and not (math.isfinite(value) or (of.may_be_infinite and value == math.inf)):
        raise SettingsError(f"{flag_name(of.name)} must be a finite number, not {value}")


def check_choice(name: str, value: Any, choices: Collection[str], own: bool = False) -> None:
    if not isinstance(value, str) or value not in choices:
        also = " or module:Class" if own else ""
        raise SettingsError(f"{flag_name(name)} must be one of {', '.join(choices)}{also}, not {value!r}")


def is_list(of: Setting) -> bool:
    return typing.get_origin(of.hint) is tuple


def is_table(of: Setting) -> bool:
    return typing.get_origin(of.hint) is dict


def _is_json(value: dict[Any, Any]) -> bool:
    """Whether a file can hold it as it is."""
    try:
        same: bool = json.loads(json.dumps(value)) == value
        return same
    except (TypeError, ValueError):
        return False


def _type_name(of: Setting) -> str:
    if is_table(of):
        return "names and values that JSON can hold"
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return names.get(of.hint, "a list of whole numbers")
