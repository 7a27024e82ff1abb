"""Documents that are made from the code, and claims that point at files."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("page", ["settings", "metrics"])
def test_the_table_is_up_to_date(page):
    spec = importlib.util.spec_from_file_location(page, ROOT / "docs" / f"{page}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / "docs" / f"{page}.md").read_text() == module.text(), "run `make docs`"


PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    "tests/KNOWN_BUGS.md",
    *sorted(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md")),
]


def headings(page):
    """Names of a page's headings as links spell them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target, place in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", (ROOT / page).read_text()):
        file = (ROOT / page).parent.joinpath(target) if target else ROOT / page
        assert file.exists(), target
        assert not place or place in headings(file), f"{target}#{place}"


def test_every_known_bug_has_its_test():
    tests = (ROOT / "tests" / "test_known_bugs.py").read_text()
    named = re.findall(r"`(test_\w+)`", (ROOT / "tests" / "KNOWN_BUGS.md").read_text())
    assert len(named) >= 16
    for name in named:
        assert f"def {name}(" in tests
