"""The progress of many runs."""

import time

from acer.experiments.display import JobsDisplay


def test_the_time_left_counts_only_what_was_done_now(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with JobsDisplay(runs=4, runs_done=1, steps=4_000, steps_done=1_000) as display:
        display.begin("a", 1_000)
        display.show("a", 500)  # goes on from a checkpoint
        now = 60.0
        display.end("a", 1_000)
        assert "2/4 runs  a: done; 4 min left" in capsys.readouterr().err  # 500 steps a minute, 2,000 left
        display.begin("b", 1_000)
        display.end("b", 1_000, "no memory")
    assert "3/4 runs  b: no memory; 2 min left" in capsys.readouterr().err  # no step was done in no time
