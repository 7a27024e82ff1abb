"""Settings as JSON: what config.json holds."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from acer.config.checks import check_names
from acer.config.settings import Config
from acer.errors import SettingsError

LARGEST = 1 << 20  # bytes of a file of settings


def to_json(config: Config) -> str:
    """The text of config.json; infinities as strings, for JSON has none."""
    values = {
        key: str(v) if isinstance(v, float) and math.isinf(v) else v for key, v in dataclasses.asdict(config).items()
    }
    return json.dumps(values, indent=2) + "\n"


def read_file(path: Path) -> dict[str, Any]:
    """Settings from a JSON file that the user named, not yet checked."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except OSError as error:
        raise SettingsError(f"{path} is not a JSON file of settings: {error}") from None
    return parsed(content, path)


def parsed(content: bytes, path: Path) -> dict[str, Any]:
    """Settings from what a file at `path` holds, not yet checked."""
    try:
        if len(content) > LARGEST:
            raise ValueError(f"it is larger than {LARGEST:,} bytes")
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not a JSON file of settings: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path} is not a JSON file of settings: it must hold one object")
    check_names(values)
    return values
