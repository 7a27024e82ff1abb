"""Writes settings.md from the settings' declarations: `make docs`."""

from itertools import groupby
from pathlib import Path

from acer.config import PRESETS, SETTINGS, Config, Setting, defaults, descriptions

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
        "After this page you know every setting, its default and where it comes from.",
        "",
        "Every setting is a flag of `acer train` (`--learning-rate 1e-3`), a keyword of `ACER(…)`",
        "(`learning_rate=1e-3`) and a key of `config.json`. The columns are the presets' defaults for `acer`; the",
        "other algorithms change what their name says. A sentence ends with the setting's place in the paper, or with",
        "*ours*; on Atari a step is four frames of the game.",
    ]
    sentences = descriptions()
    for group, members in groupby(SETTINGS.values(), lambda of: of.group):
        lines += ["", f"## {group}", "", f"| setting | {' | '.join(heads)} | what it is |"]
        lines.append(f"|---|{'---|' * (len(heads) + 1)}")
        lines += [_row(of, sentences[of.name], configs) for of in members]
    return "\n".join(lines) + "\n"


def _row(of: Setting, sentence: str, configs: list[Config]) -> str:
    values = ["" if of.name in ("env", "preset") else _shown(getattr(config, of.name)) for config in configs]
    if of.choices is not None:
        sentence += " One of " + ", ".join(f"`{choice}`" for choice in of.choices) + "."
    if of.bound is not None:
        sentence += f" Must {of.bound.must}."
    if of.when is not None:
        sentence += f" For {of.when.said}."
    if of.alias is not None:
        sentence += f" `{of.alias}` is another name of the flag."
    return f"| `{of.name}` | {' | '.join(values)} | {sentence.replace('|', chr(92) + '|')} |"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    Path(__file__).with_name("settings.md").write_text(text())
