"""Our runs on games beside published scores of other agents."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acer import config as configuration
from acer.envs.scores import GAMES, human_normalized
from acer.experiments import catalogue, experiment, plans, published, runs, statistics
from acer.experiments.plan import Selection
from acer.experiments.runs import table
from experiment_runs import ALL, a_run

MEDIANS = {4: {"dqn": 0.036, "c51": 0.020, "rainbow": 0.100, "iqn": 0.305},
           8: {"dqn": 0.11, "c51": 0.12, "rainbow": 0.29, "iqn": 0.58}}  # fmt: skip


def a_game(game, final, method="acer-4", seed=0):
    run = a_run(final, env=game, method=method, seed=seed)
    return replace(run, job=run.job.changed(sticky_actions=0.25, steps=1_000_000))


@pytest.mark.parametrize("frames", MEDIANS)
def test_the_peers_table_has_their_medians(frames):
    at = {game: score for (game, steps), score in published.scores().items() if steps == 250_000 * frames}
    assert len(at) == 55 and set(GAMES) - set(at) == {"defender", "surround"}
    for peer, median in MEDIANS[frames].items():
        found = np.median([human_normalized(game, score[peer]) for game, score in at.items()])
        assert found == pytest.approx(median, abs=0.006 if median > 0.1 else 0.0006)


def test_medium_is_all_games_in_an_order_that_stays():
    planned = plans.jobs("atari", "medium", ALL)
    order = [job.config.env for job in planned]
    assert sorted(order) == sorted(GAMES) and order[:3] == ["kangaroo", "hero", "frostbite"]
    assert {(job.method, job.config.steps, job.config.sticky_actions) for job in planned} == {
        ("acer-4", 1_000_000, 0.25)
    }
    first = plans.jobs("atari", "medium", Selection(methods=("acer-0",), first=15))
    assert [job.config.env for job in first] == order[:15]
    assert {job.config.replay_ratio for job in first} == {0}


def test_games_and_summary_by_hand():
    """Pong at a human's score, Breakout at a random agent's with one seed and a human's with the other; Surround, which
    no peer has played, at random."""
    found = [a_game("pong", 14.6), a_game("breakout", 30.5), a_game("breakout", 1.7, seed=1), a_game("surround", -10.0)]
    assert published.can_be_compared(found)
    pong, breakout, surround = rows = published.games_table(found)
    assert (pong["normalised"], breakout["normalised"], breakout["seeds"]) == (1, pytest.approx(0.5), 2)
    theirs = published.scores()["pong", 1_000_000]["rainbow"]
    assert pong["rainbow"] == theirs and pong["rainbow_normalised"] == human_normalized("pong", theirs)
    assert "rainbow" not in surround
    summary = {row["agent"]: row for row in published.summary_table(rows)}
    every, shared = summary["acer-4, all games"], summary["acer-4, games of the peers"]
    assert (every["games"], shared["games"], shared["median"]) == (3, 2, pytest.approx(0.75))
    assert shared["ahead_of_rainbow"] == sum(row["score"] > row["rainbow"] for row in (pong, breakout))
    assert summary["dqn, games of acer-4"]["median"] == pytest.approx(
        np.mean([row["dqn_normalised"] for row in (pong, breakout)])
    )
    assert set().union(*summary.values()) <= set(published.SUMMARY_TABLE) and set(pong) <= set(published.GAMES_TABLE)


def test_only_the_peers_protocol_is_compared():
    run = a_game("pong", 1.0)
    for changed in ({"sticky_actions": 0.0}, {"steps": 900_000}, {"steps": 50_000_000}):
        assert not published.can_be_compared([replace(run, job=run.job.changed(**changed))])
    assert not published.can_be_compared([])


def test_bootstrap_of_the_median():
    """How many of n draws lie below a value is binomial: the bounds are the values at n/2 ± 1.96 √n / 2."""
    values = np.random.default_rng(0).normal(size=401)
    low, high = statistics.bootstrap_median(values)
    ranks = np.searchsorted(np.sort(values), [low, high])
    assert ranks.tolist() == pytest.approx([200 - 19.6, 200 + 19.6], abs=2)
    assert statistics.bootstrap_median(values) == (low, high)
    assert all(np.isnan(bound) for bound in statistics.bootstrap_median(values[:1]))


def test_games_done_so_far_are_drawn_beside_the_peers(monkeypatch):
    monkeypatch.setattr(experiment, "faster_precision", lambda device: "float32")
    planned = experiment.with_one_precision(plans.jobs("atari", "medium", ALL), Path("m"))
    for job, score in zip(planned[:3], (2_000.0, 9_000.0, 100.0), strict=True):
        curve = [
            {"steps": 980_000, "seconds": 8.0, "score": score},
            {"steps": 1_000_000, "seconds": 9.0, "score": score},
        ]
        result = {"method": job.method, "evaluation": {}, "error": None, "diverged": False, "versions": {}}
        files = {"config.json": configuration.to_json(job.config), "result.json": json.dumps(result),
                 "progress.csv": table([*runs.COLUMNS, "score"], curve),
                 "eval.csv": table(["return_mean"], [{"return_mean": score}])}  # fmt: skip
        runs.write(Path("m"), job, {name: text.encode() for name, text in files.items()})
    result = experiment.run("atari", "medium", ALL, Path("m"), 1, None, lambda line: None)
    assert [path.name for path in result.files] == [
        "atari.png", "atari.svg", "atari.csv", "atari-games.csv", "atari-peers.csv", "atari-acer-4-rainbow.png",
        "atari-acer-4-rainbow.svg",
    ]  # fmt: skip
    assert "3 of 57 runs" in Path("m/atari.svg").read_text()
    assert catalogue.load("atari").ORDER[0] in Path("m/atari-games.csv").read_text()


def test_the_first_figures_other_curves_are_drawn_only_over_all_games():
    curves = published.median_curves()
    assert list(curves) == ["DQN", "Prioritized Double DQN"]
    for steps, median in curves.values():
        assert steps[0] == 250_000 and (np.diff(median) >= 0).all()
    some = [a_game("pong", 1.0)]
    assert not published.are_all_games(some)
    assert published.are_all_games([a_game(game, 1.0) for game in GAMES])
