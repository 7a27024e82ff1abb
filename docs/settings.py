"""Writes settings.md from the settings' declarations: `make docs`."""

from itertools import groupby
from pathlib import Path

from acer.config import PRESETS, SETTINGS, Config, Setting, defaults, descriptions

Column = tuple[str, bool]  # a preset, and whether actions are continuous
COLUMNS = [
    (preset, continuous)
    for preset in PRESETS
    for continuous in (False, True)
    if (preset, continuous) != ("atari", True)
]


def text() -> str:
    configs = {column: defaults("ENV", column[1], column[0]) for column in COLUMNS}
    lines = [
        "# Settings",
        "",
        "After this page you know every setting, its default and where it comes from.",
        "",
        "Every setting is a flag of `acer train` (`--learning-rate 1e-3`), a keyword of `ACER(…)`",
        "(`learning_rate=1e-3`) and a key of `config.json`. The defaults are those of `acer`, by preset and kind of",
        "action where they differ. The other algorithms change what their name says. A sentence ends with the",
        "setting's place in the paper, or with *ours*. On Atari a step is four frames of the game.",
    ]
    sentences = descriptions()
    for group, members in groupby(SETTINGS.values(), lambda of: of.group):
        lines += ["", f"## {group}", "", "| setting | default | what it is |", "|---|---|---|"]
        lines += [_row(of, sentences[of.name], configs) for of in members]
    return "\n".join(lines) + "\n"


def _row(of: Setting, sentence: str, configs: dict[Column, Config]) -> str:
    if of.choices is not None:
        sentence += " One of " + ", ".join(f"`{choice}`" for choice in of.choices) + "."
    if of.bound is not None:
        sentence += f" Must {of.bound.must}."
    if of.when is not None:
        sentence += f" For {of.when.said}."
    if of.alias is not None:
        sentence += f" `{of.alias}` is another name of the flag."
    shown = (
        {} if of.name in ("env", "preset") else {at: _shown(getattr(of_it, of.name)) for at, of_it in configs.items()}
    )
    return f"| `{of.name}` | {_by_preset(shown)} | {sentence.replace('|', chr(92) + '|')} |"


def _by_preset(shown: dict[Column, str]) -> str:
    """One value, or each with the presets that have it."""
    values = dict.fromkeys(shown.values())
    if len(values) < 2:
        return "".join(values)
    return "<br>".join(f"{value}: {_places([at for at in shown if shown[at] == value])}" for value in values)


def _places(columns: list[Column]) -> str:
    """Presets by name, with the kind of action where the other kind has another value."""
    places = []
    for preset, kinds in groupby(columns, lambda column: column[0]):
        here = list(kinds)
        whole = len(here) == sum(column[0] == preset for column in COLUMNS)
        places.append(preset if whole else f"{preset} {'continuous' if here[0][1] else 'discrete'}")
    return ", ".join(places)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


if __name__ == "__main__":
    Path(__file__).with_name("settings.md").write_text(text())
