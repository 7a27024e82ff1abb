"""What a file may not decide: settings that reach outside this process come from the user of this command.

A checkpoint or a settings file may come from a stranger. Its networks and numbers are data; its environment's module,
its cluster, its device and its numbers of processes are not. A file's word for them is shown and refused, with the
flags that would allow it.
"""

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acer.config import SETTINGS, flag_name
from acer.errors import CheckpointError, SettingsError

OUTWARD = {name: of.from_file for name, of in SETTINGS.items() if of.from_file is not None}
"""For each setting that reaches outside, whether a configuration's value can be taken from a file."""


def admit(where: Path, settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A file's settings with those that the user gave; refused if it asks for more than a file may.

    given: by name, what the user of this command said; only names of `OUTWARD`.
    """
    merged = {**settings, **given}
    asked = [name for name, harmless in OUTWARD.items() if name not in given and not harmless(merged)]
    if "env" in asked:
        env = str(merged["env"])
        raise CheckpointError(
            f"{where} was made with {env}, code of your own, which is not run because a file names it; "
            f"if you trust it, name it yourself: --env {_importable(env)}, in Python env=…"
        )
    if "torso" in asked:
        torso = str(merged["torso"])
        raise CheckpointError(
            f"{where} was made with --torso {torso}, a network of your own, which is not run because a file names it; "
            f"if you trust it, name it yourself: --torso {_importable(torso)}, in Python torso=…"
        )
    if asked:
        flags, keywords = flags_of(merged, asked), ", ".join(f"{name}={merged[name]!r}" for name in asked)
        raise CheckpointError(
            f"{where} asks for {flags}, which a file may not decide; if that is what you want, say it yourself: "
            f"{flags}, in Python {keywords}"
        )
    return merged


def _importable(name: str) -> str:
    """The name, if code can be had by it."""
    return "module:Class" if "<" in name or name.startswith(("__main__:", "functools:")) else name


def admit_file(where: Path, settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuses a file of settings for a new run that asks for more than a file may."""
    env = str(settings.get("env", ""))
    if not given.get("env") and ":" in env:
        raise SettingsError(
            f"{where} names {env}, code that is not run because a file names it; if you trust it, name it yourself: "
            f"acer train {env} --config {where}"
        )
    said = {name: value for name, value in given.items() if name in OUTWARD}
    admit(where, settings, {"env": env, **said})


def without_outward(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A file's settings for playing its model here: not with the home, devices and processes that it trained with."""
    same = ("env", "env_kwargs", "torso")  # it is the same environment and the same network
    return {name: value for name, value in settings.items() if name in same or OUTWARD.get(name, _always)(settings)}


def _always(settings: Mapping[str, Any]) -> bool:
    return True


def outward(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Of a configuration that the user gave, what reaches outside."""
    return {name: settings[name] for name in OUTWARD}


def outward_flags(settings: Mapping[str, Any]) -> str:
    """The flags that a resume of this configuration needs, for copying; empty if none."""
    return flags_of(settings, [name for name, harmless in OUTWARD.items() if not harmless(settings)])


def flags_of(settings: Mapping[str, Any], names: list[str]) -> str:
    return " ".join(_flag(name, settings[name]) for name in names)


def _flag(name: str, value: Any) -> str:
    if isinstance(value, dict):
        value = " ".join(shlex.quote(f"{key}={json.dumps(of)}") for key, of in value.items())
    if isinstance(value, list | tuple):
        value = " ".join(map(str, value))
    return flag_name(name) if value is True else f"{flag_name(name)} {value}"
