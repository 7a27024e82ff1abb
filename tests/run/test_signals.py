"""Signals of a run: one asks it to stop, the same one twice at once is one, a second one ends it."""

import signal

import pytest

from acer.errors import SecondSignal
from acer.run import signals


class Run:
    stopping = interrupted = False


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(signals.time, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_comes_twice_within_a_millisecond_is_one(number, clock):
    """`timeout -s INT` and terminals send one to a process and to its group."""
    run, before = Run(), signal.getsignal(number)
    with signals.stop_on_signals(run):
        signal.raise_signal(number)
        clock[0] += 0.001
        signal.raise_signal(number)
    assert run.stopping and run.interrupted
    assert signal.getsignal(number) is before


def test_a_second_signal_ends_the_run_at_once(clock):
    run = Run()
    with signals.stop_on_signals(run):
        signal.raise_signal(signal.SIGINT)
        assert run.stopping
        clock[0] += 1
        with pytest.raises(SecondSignal):
            signal.raise_signal(signal.SIGINT)
