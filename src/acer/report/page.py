"""The HTML file: a template, its style, its script and the runs' content in one, which asks the network for nothing.

The content comes from files that anyone may have written. It is JSON in an inert `<script>` element in which no `<` is
left; the script puts it on the page as text only; and the page's security policy lets nothing run or load but the style
and script whose hashes it names, and pictures and films that are in the file.
"""

import base64
import hashlib
import html
import json
import os
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from acer.errors import SettingsError
from acer.report.content import content
from acer.report.gather import gather
from acer.run.outputs import write_beside

# What style and script are put together from, in this order.
STYLE = ("layout", "charts", "tables")
SCRIPT = ("elements", "curves", "chart", "zoom", "controls", "environments", "results")


def write(directories: Sequence[Path], output: Path, title: str | None = None) -> dict[str, Any]:
    """Writes the page about everything in the directories, whole or not at all; gives back what is on it."""
    for wrong, problem in (
        (os.path.isdir(output), "it is a directory"),
        (not os.path.isdir(output.parent), f"{output.parent} is not a directory"),
    ):
        if wrong:
            raise SettingsError(f"cannot write {output}: {problem}")
    shown = content(gather(directories), title or ", ".join(path.resolve().name for path in directories))
    write_beside(output, render(shown).encode("utf-8", "replace"))
    return shown


def render(shown: dict[str, Any]) -> str:
    """The page's text."""
    template, style = _part("page.html"), "\n".join(_part(f"style/{name}.css") for name in STYLE)
    script = "".join(_part(f"script/{name}.js") for name in SCRIPT)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    policy = (
        f"default-src 'none'; img-src data:; media-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src {_hash(style)}; script-src {_hash(script)}"
    )
    parts = {
        "policy": policy,
        "title": html.escape(shown["title"]),
        "style": style,
        "script": script,
        "content": embedded(shown),
    }
    head, *pieces = template.split("{{")
    filled = [head]
    for piece in pieces:  # one pass: what is filled in is not looked at again
        name, _, rest = piece.partition("}}")
        filled += [parts[name.strip()], rest]
    return "".join(filled)


def embedded(value: Any) -> str:
    """JSON that can stand inside a `<script>` element: no `<` and `&`, and no line ends that only JavaScript knows."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _part(name: str) -> str:
    return resources.files("acer.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
