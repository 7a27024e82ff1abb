"""Notebooks: whole, small, linked, and run from top to bottom with fewer steps."""

import json
import os
import re
from pathlib import Path

import pytest

from acer.config import SETTINGS
from acer.learner.metrics import PROGRESS

nbformat = pytest.importorskip("nbformat")
ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
SMALLER = 20
EACH = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, kind):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def test_there_are_those_that_the_pages_name():
    pages = [page.read_text() for page in (ROOT / "docs").rglob("*.md")]
    named = {name for page in pages for name in re.findall(r"\(\S*?([\w-]+\.ipynb)\)", page)}
    assert named == {path.name for path in NOTEBOOKS} and len(named) == 3


@EACH
def test_it_is_whole_and_without_output(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")
    assert path.stat().st_size < 20_000
    assert notebook.cells[0].source.split("\n")[2].startswith("After this notebook you ")


@EACH
def test_its_links_and_names_are_true(path):
    prose = "\n".join(cells(path, "markdown"))
    for target, place in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", prose):
        file = path.parent / target
        assert file.exists(), target
        headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE) if place else []
        assert not place or place in [heading.lower().replace(" ", "-") for heading in headings]
    known = {*SETTINGS, *PROGRESS}
    for word in re.findall(r"`([a-z]+(?:_[a-z]+)+)`", prose):
        assert word in known, word


@EACH
def test_its_code_is_python(path):
    for text in cells(path, "code"):
        compile(text, str(path), "exec")


def fewer(line):
    return f"STEPS = {int(line[1].replace('_', '')) // SMALLER}"


@pytest.mark.slow
@EACH
def test_it_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    client = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(path, as_version=4)
    steps = 0
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source, found = re.subn(r"^STEPS = ([\d_]+)$", fewer, cell.source, flags=re.MULTILINE)
            steps += found
    assert steps == 1
    client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert outputs and "Traceback" not in json.dumps(outputs)
