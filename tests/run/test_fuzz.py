"""Inputs of the fuzzer (`benchmarks/fuzz_checkpoints.py`): those that reach most lines."""

from pathlib import Path

import pytest

from fuzzing import Attacked

INPUTS = Path(__file__).parent.parent / "fuzz"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    return Attacked(tmp_path_factory.mktemp("fuzz"))


def test_what_the_fuzzer_kept_is_refused_or_goes_on(attacked, capsys):
    outcomes = [attacked(bytes.fromhex(line)) for line in (INPUTS / "corpus.txt").read_text().split()]
    assert {"refused", "went on"} == set(outcomes)
    capsys.readouterr()


def test_an_exception_of_ours_would_be_seen(attacked, monkeypatch):
    monkeypatch.setattr("acer.run.contents.check_meter", lambda state: 1 / 0)
    monkeypatch.setattr("acer.run.state.RunState.load", lambda self, loaded: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        attacked(b"\0\0\0\7\0\0\0")
