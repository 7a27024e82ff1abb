"""Settings as JSON: what config.json holds."""

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from acer.config.checks import check_names
from acer.config.settings import Config
from acer.errors import SettingsError


def to_json(config: Config) -> str:
    """The text of config.json; infinities as strings, for JSON has none."""
    values = {
        key: str(v) if isinstance(v, float) and math.isinf(v) else v for key, v in dataclasses.asdict(config).items()
    }
    return json.dumps(values, indent=2) + "\n"


def read_file(path: Path) -> dict[str, Any]:
    """Settings from a JSON file, not yet checked."""
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not a JSON file of settings: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path} is not a JSON file of settings: it must hold one object")
    check_names(values)
    return values
