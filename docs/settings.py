"""Writes settings.md from the settings themselves: `make docs`."""

import typing
from pathlib import Path

from acer.config import PRESETS, Config, defaults, descriptions

COLUMNS = [
    (preset, continuous)
    for preset in PRESETS
    for continuous in (False, True)
    if (preset, continuous) != ("atari", True)
]


def text() -> str:
    configs = [defaults("ENV", continuous, preset) for preset, continuous in COLUMNS]
    heads = [f"{preset}, {'continuous' if continuous else 'discrete'}" for preset, continuous in COLUMNS]
    lines = [
        "# Settings",
        "",
        "Every setting is a flag of `acer train` (`--learning-rate 1e-3`), a keyword of `ACER(…)`",
        "(`learning_rate=1e-3`) and a key of `config.json`. The columns are the presets' defaults for `acer`; the",
        "other algorithms change what their name says. A sentence ends with the setting's place in the paper, or with",
        "*ours*; on Atari a step is four frames of the game. `--envs-per-actor` is another name of `--environments`.",
        "",
        f"| setting | {' | '.join(heads)} | what it is |",
        f"|---|{'---|' * (len(heads) + 1)}",
    ]
    hints = typing.get_type_hints(Config)
    for name, sentence in descriptions().items():
        values = [getattr(config, name) for config in configs]
        shown = [_shown(value) for value in values] if name not in ("env", "preset") else ["" for _ in values]
        if typing.get_origin(hints[name]) is typing.Literal:
            sentence += " One of " + ", ".join(f"`{choice}`" for choice in typing.get_args(hints[name])) + "."
        lines.append(f"| `{name}` | {' | '.join(shown)} | {sentence.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    Path(__file__).with_name("settings.md").write_text(text())
