"""Every test of searches runs in an empty folder, from which child processes find the tests' own environments."""

import os
from pathlib import Path

import pytest

TESTS = str(Path(__file__).parent.parent)


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([TESTS, os.environ.get("PYTHONPATH", "")]))
