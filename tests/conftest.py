"""What several test files ask for by name."""

import sys

import pytest

from acer.cli import main


@pytest.fixture
def call(monkeypatch, capsys):
    """Runs the command in this process: exit code, standard output, standard error."""

    def acer(*args):
        monkeypatch.setattr(sys, "argv", ["acer", *map(str, args)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return acer
