"""`acer bench`: what is compared and how; not how fast anything is."""

import json
import sys
from dataclasses import replace

import pytest

from acer.bench import measure
from acer.bench.contenders import Pair, bare_work, pair, pairs
from acer.cli import main
from acer.config import defaults
from acer.errors import AcerError
from acer.learner import actor_learner

CONFIG = defaults("CartPole-v1", False, replay_ratio=2.0, replay_start=100, environments=4, hidden=(16,), threads=1)


def test_training_is_compared_with_its_own_bare_work_part_by_part():
    update = actor_learner.update
    found = pair(CONFIG, 200, 2)
    assert actor_learner.update is update  # the stopwatch is taken off again
    assert set(found.bare) == {"acting", "environments", "learning", "optimiser"}
    assert set(found.own) == {*found.bare, "replay memory", "normalisation", "everything else"}
    assert found.speed == pytest.approx(found.steps / sum(found.own.values()))
    assert 60 < found.steps <= 80  # 4 environments, 20 steps, but for dead ones


def test_actor_learners_that_share_parameters_are_measured_all_at_once():
    found = pairs(replace(CONFIG, home="shared", actors=2), 200, 2)
    assert len(found) == 2
    for one in found:
        assert set(one.own) == {*one.bare, "replay memory", "normalisation", "everything else"}
        assert 60 < one.steps <= 80  # its own, not the other's too


def meet_or_fail(fails):
    if fails:
        raise ValueError("no such game")
    return measure.meet()


def test_processes_meet_and_one_that_fails_keeps_nobody_waiting():
    assert measure.at_once(meet_or_fail, [(False,), (False,)]) == [True, True]
    with pytest.raises(ValueError, match="no such game"):
        measure.at_once(meet_or_fail, [(False,), (True,)])


def test_the_bare_work_is_as_often_done_as_in_an_iteration():
    work = bare_work(CONFIG)
    work.env.close()
    assert {part: times for part, (_, times) in work.parts.items()} == {
        "acting": 20, "environments": 20, "learning": 3, "optimiser": 3
    }  # fmt: skip


def test_contenders_take_turns_and_ratios_are_medians_within_them():
    called, speeds = [], iter([(10.0, 5.0), (40.0, 10.0), (90.0, 30.0)])

    def own():
        called.append("own")
        return dict(zip(("acer", "roofline"), next(speeds), strict=True))

    def peer():
        called.append("peer")
        return {"pfrl": 2.0}

    said = []
    results = measure.alternate([own, peer], 3, said.append)
    assert called == ["own", "peer"] * 3 and len(said) == 9
    assert results["acer"] == [10, 40, 90]
    assert measure.ratio(results, "acer", "roofline") == 3  # of 2, 4 and 3
    parts = [({"learning": 0.002, "rest": 0.001}, {"learning": 0.001})] * 3
    report = measure.report("classic", CONFIG, results, parts, ["pfrl"])
    assert report["times_the_peers"] == {"pfrl": 20}
    assert report["milliseconds_per_iteration"] == {
        "learning": {"acer": 2.0, "bare": 1.0}, "rest": {"acer": 1.0, "bare": 0.0}
    }  # fmt: skip
    json.dumps(report)


def test_a_peer_that_fails_is_one_clear_line(tmp_path, monkeypatch):
    monkeypatch.setattr(measure, "__file__", str(tmp_path / "measure.py"))
    script = tmp_path / "peer.py"
    script.write_text("print('4.5')")
    assert measure.peer_speed(measure.sys.executable, "peer.py", [], "The peer") == 4.5
    script.write_text("import sys; print('4.5'); sys.exit('its memory was empty')")
    with pytest.raises(AcerError, match="The peer failed: its memory was empty; --no-peers measures without it"):
        measure.peer_speed(measure.sys.executable, "peer.py", [], "The peer")
    script.write_text("print('fast')")
    with pytest.raises(AcerError, match="it printed no speed"):
        measure.peer_speed(measure.sys.executable, "peer.py", [], "The peer")
    monkeypatch.setattr(measure, "PATIENCE", 0.2)
    script.write_text("import time; time.sleep(60)")
    with pytest.raises(AcerError, match="not done after 0 seconds"):
        measure.peer_speed(measure.sys.executable, "peer.py", [], "The peer")


def test_reuse_is_compared_with_every_patch_in_each_precision_and_number_of_processes(monkeypatch):
    atari = sys.modules["acer.bench.atari"]  # the package has a function of that name
    asked = []

    def one(config):
        asked.append((config.env, config.precision, config.home, config.reuse))
        dense = config.reuse == "never"
        seconds = {"learning": 2.0 if dense else 1.0}
        return Pair(100, seconds, {"learning": 0.5}, None if dense else 0.25)

    monkeypatch.setattr(atari, "at_once", lambda work, jobs: [one(jobs[0][0])])
    monkeypatch.setattr(atari, "pairs", lambda config, *_: [one(config)] * 2)
    monkeypatch.setattr(atari, "faster_precision", lambda device: "bfloat16")
    monkeypatch.setattr(atari, "cores", lambda: 2)
    result = atari.atari(1, False, lambda line: None, "breakout")
    assert asked == [
        ("breakout", precision, home, reuse)
        for precision in ("bfloat16", "float32")
        for home in ("local", "shared")
        for reuse in ("auto", "never")
    ]
    assert result["game"] == "breakout" and result["distinct"] == 0.25
    for precision in ("bfloat16", "float32"):
        assert result["by_precision"][precision]["times_dense"] == 2
        assert result["by_precision"][precision]["roofline_fraction"] == 0.5
        assert result["shared"][precision]["steps_per_second"] == 200
        assert result["shared"][precision]["dense"]["steps_per_second"] == 100
    json.dumps(result)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["classic", "--game", "pong"], "--game is for acer bench atari"), (["atari", "--game", "ping"], "is none of")],
)
def test_a_game_that_cannot_be_meant_is_refused(arguments, said, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["acer", "bench", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert said in capsys.readouterr().err
