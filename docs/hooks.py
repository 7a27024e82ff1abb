"""What the documentation site adds to the pages in docs/: a MkDocs hook, named in mkdocs.yml.

The repository's pages are written for a reader of its files. The site takes those outside docs/ too, makes a page of
docstrings for each room of the package, turns links to files into links within the site, and equations into MathML,
which browsers draw by themselves.
"""

import html
import posixpath
import re
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "acer"
PAGES = {  # files of the repository that are pages of the site
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "tests/KNOWN_BUGS.md": "known-bugs.md",
    "results/reliability/README.md": "reliability.md",
}
LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")
EQUATION = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: Any) -> Any:
    """Lists the rooms under Reference."""
    reference = next(section["Reference"] for section in config.nav if "Reference" in section)
    reference += [{f"acer.{room.name}": f"reference/{room.name}.md"} for room in _rooms()]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages from outside docs/, those made of docstrings, and the results and examples that pages link to."""
    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    for room in _rooms():
        files.append(File.generated(config, f"reference/{room.name}.md", content=_docstrings(room)))
    linked = {_target(page.src_uri, link["path"]) for page in files.documentation_pages() for link in _links(page)}
    for path in sorted(linked):
        if path.startswith(("results/", "examples/")) and path not in PAGES and (ROOT / path).is_file():
            files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Links between files of the repository become links between pages of the site."""

    def resolved(link: re.Match[str]) -> str:
        place = _place(_target(page.file.src_uri, link["path"]))
        if files.get_file_from_path(place.partition("#")[0]) is None:
            return link["text"]  # a folder, or a file that the site does not show
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"{link['image']}[{link['text']}]({posixpath.relpath(place, here)}{link['anchor'] or ''})"

    return LINK.sub(resolved, markdown)


def on_page_content(content: str, **_: Any) -> str:
    """LaTeX becomes MathML."""

    def drawn(equation: re.Match[str]) -> str:
        display = "inline" if equation[2] == "(" else "block"
        return convert(html.unescape(equation[3]).strip(), display=display)

    return EQUATION.sub(drawn, content)


def _rooms() -> list[Path]:
    return sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def _links(page: File) -> list[re.Match[str]]:
    return list(LINK.finditer(page.content_string))


def _target(page: str, path: str) -> str:
    """The file of the repository that a page of the site links to."""
    origin = next((path for path, copy in PAGES.items() if copy == page), f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))


def _place(path: str) -> str:
    """Where the site has a file of the repository."""
    if path in PAGES:
        return PAGES[path]
    if path.startswith("src/acer/") and path.count("/") == 3:
        _, _, room, module = path.split("/")
        return f"reference/{room}.md#acer.{room}.{module.removesuffix('.py')}"
    return path.removeprefix("docs/")


def _docstrings(room: Path) -> str:
    modules = sorted(path.stem for path in room.glob("*.py") if path.stem != "__init__")
    blocks = [
        f"::: acer.{room.name}",
        "    options: {members: false, show_root_heading: false, show_root_toc_entry: false}",
    ]
    for module in modules:
        blocks += ["", f"::: acer.{room.name}.{module}"]
    later = ["---", "search: {boost: 0.5}", "---", ""]  # what explains comes first in a search
    return "\n".join([*later, f"# acer.{room.name}", "", *blocks, ""])
