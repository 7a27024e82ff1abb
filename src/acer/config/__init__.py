"""Settings of a run: each declared once.

`settings` declares each setting: type, default, bounds, sentence and source, when it has a meaning, what a file may
say of it. `presets` and `algorithms` hold the tables of other defaults. `checks` puts them together and refuses what
cannot be meant. Flags, messages and docs/settings.md are made from the declarations.

May import: envs.
"""

from acer.config.algorithms import ALGORITHMS
from acer.config.checks import check_names, defaults, from_dict, validate
from acer.config.files import parsed, read_file, to_json
from acer.config.presets import PRESETS
from acer.config.setting import Setting, flag_name
from acer.config.settings import AGENT_SETTINGS, SETTINGS, Config, descriptions
from acer.config.shares import environment_options, options_for, team_size, teams, threads_of
from acer.config.wording import in_python, speaking_python

__all__ = [
    "AGENT_SETTINGS",
    "ALGORITHMS",
    "PRESETS",
    "SETTINGS",
    "Config",
    "Setting",
    "check_names",
    "defaults",
    "descriptions",
    "environment_options",
    "flag_name",
    "from_dict",
    "in_python",
    "options_for",
    "parsed",
    "read_file",
    "speaking_python",
    "team_size",
    "teams",
    "threads_of",
    "to_json",
    "validate",
]
