"""Trials: what they are worth, how they are ended, and that a search which was killed is the one that ran through."""

import contextlib
import json
import math
import sqlite3
from pathlib import Path

import pytest

from acer.errors import CheckpointError, LearningFault, SettingsError
from acer.experiments import runs
from acer.tune.study import Search, Study
from tune_runs import Killed, a_search, tune

OUT = Path("x")


def rises(job, number):
    """The better, the nearer the learning rate is to 1e-3."""
    return number - 10 * abs(math.log10(job.config.learning_rate) + 3)


def told_of(study):
    return [(t.number, t.state.name, t.params, t.value, t.intermediate_values) for t in study.trials()]


def test_a_trial_is_worth_the_mean_over_evaluations_and_seeds():
    def values(job, number):
        return 100.0 * job.seed + number

    (trial,) = tune(a_search(seeds=2), OUT, 1, values).trials()
    assert trial.value == pytest.approx((2.5 + 102.5) / 2)
    # Running means: of the first seed's evaluations, then of its mean and those of the second.
    reported = [1, 1.5, 2, 2.5, (2.5 + 101) / 2, (2.5 + 101.5) / 2, (2.5 + 102) / 2, (2.5 + 102.5) / 2]
    assert list(trial.intermediate_values.values()) == pytest.approx(reported)
    assert list(trial.intermediate_values) == list(range(1, 9))

    (trial,) = tune(a_search(seeds=2, objective="last"), Path("y"), 1, values).trials()
    assert trial.value == pytest.approx((4 + 104) / 2)


def test_runs_have_the_seeds_and_settings_that_their_trial_says():
    seen = []
    study = tune(a_search(seeds=2, seed=7), OUT, 2, lambda job, number: seen.append(job) or 0.0)
    by_trial = {trial.number: trial.params["learning_rate"] for trial in study.trials()}
    assert {(job.setting, job.config.seed) for job in seen} == {(0, 7), (0, 8), (1, 7), (1, 8)}
    assert all(job.config.learning_rate == by_trial[job.setting] for job in seen)
    assert len(set(by_trial.values())) == 2


def test_the_first_trial_is_the_preset_if_the_space_holds_it():
    first = tune(a_search(), OUT, 1, rises).trials()[0]
    assert first.params["learning_rate"] == a_search().base.learning_rate
    other = tune(a_search(("learning_rate=1e-2..1e-1",)), Path("y"), 1, rises).trials()[0]
    assert 1e-2 <= other.params["learning_rate"] <= 1e-1


@pytest.mark.parametrize("sampler", ["random", pytest.param("tpe", marks=pytest.mark.slow)])
def test_a_search_that_is_killed_goes_on_as_one_that_ran_through(sampler):
    whole = tune(a_search(seeds=2), OUT, 10, rises, sampler=sampler, pruner="median")
    assert len({trial.params["learning_rate"] for trial in whole.trials()}) == 10

    told: list[str] = []
    for deadly in ((1, 0, 1), (3, 1, 2), (3, 1, 4), (8, 0, 1)):  # trial, seed, evaluation

        def dies(job, number, deadly=deadly):
            if (job.setting, job.seed, number) == deadly:
                raise Killed
            return rises(job, number)

        with pytest.raises(Killed):
            tune(a_search(seeds=2), Path("y"), 10, dies, told, sampler, "median")
    parts = tune(a_search(seeds=2), Path("y"), 10, rises, told, sampler, "median")
    assert told_of(parts) == told_of(whole)
    assert (Path("y") / "trials.csv").read_text() == (OUT / "trials.csv").read_text()
    again = [name for name in told if told.count(name) > 1]  # those that were under way, once for each death
    assert sorted(set(again)) == ["CartPole-v1-acer-1-0", "CartPole-v1-acer-3-1", "CartPole-v1-acer-8-0"]
    assert not list((Path("y") / "runs").glob(".*"))

    more: list[str] = []
    tune(a_search(seeds=2), Path("y"), 10, rises, more, sampler, "median")
    assert more == []  # nothing is left to do
    longer = tune(a_search(seeds=2), Path("y"), 11, rises, more, sampler, "median")
    assert len(longer.trials()) == 11 and {name.split("-")[-2] for name in more} == {"10"}


def test_a_trial_that_was_killed_before_all_was_drawn_gets_the_rest():
    texts = ("learning_rate=1e-4..1e-2:log", "gamma=0.9..0.99")
    tune(a_search(texts), OUT, 2, rises)
    trial = Study(a_search(texts), OUT, "random")._next(3)
    with contextlib.closing(sqlite3.connect(OUT / "study.db")) as database, database:
        database.execute("DELETE FROM trial_params WHERE trial_id = ? AND param_name = 'gamma'", (trial._trial_id,))
    last = tune(a_search(texts), OUT, 3, rises).trials()[2]
    assert last.state.name == "COMPLETE" and last.params.keys() == {"learning_rate", "gamma"}
    assert last.params["learning_rate"] == trial.params["learning_rate"]


def test_a_trial_is_told_once_though_its_search_died_before_it_was_told(monkeypatch):
    def dies(*_, **__):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Study, "_tell", dies)
        with pytest.raises(Killed):
            tune(a_search(), OUT, 2, rises)
    told: list[str] = []
    study = tune(a_search(), OUT, 2, rises, told)
    assert told == ["CartPole-v1-acer-1-0"]  # the first one's run is there
    assert [trial.state.name for trial in study.trials()] == ["COMPLETE"] * 2


@pytest.mark.parametrize("pruner", ["median", "hyperband"])
def test_what_others_beat_is_ended_early(pruner):
    def values(job, number):
        return float(number if job.setting < 5 else -number)

    study = tune(a_search(seeds=2), OUT, 12, values, pruner=pruner)
    pruned = [trial for trial in study.trials() if trial.state.name == "PRUNED"]
    assert pruned and all(trial.number >= 5 for trial in pruned)
    if pruner == "median":
        assert len(pruned) == 7
    for trial in pruned:
        assert len(trial.intermediate_values) < 8
        assert not (OUT / "runs" / f"CartPole-v1-acer-{trial.number}-1").exists() or len(trial.intermediate_values) > 4
    last = OUT / "runs" / f"CartPole-v1-acer-{pruned[0].number}-0" / "result.json"
    assert json.loads(last.read_text())["error"] is None
    assert study.best().number < 5


def test_pruning_compares_with_what_has_been_heard_in_the_same_place():
    """A trial that begins low where all begin low is not ended; one that is low where others have risen is."""

    def values(job, number):
        return {1: -100.0, 2: -50.0, 3: 0.0, 4: 50.0}[number] + (-1e3 if job.setting == 8 and number > 2 else 0)

    states = [t.state.name for t in tune(a_search(objective="last"), OUT, 10, values, pruner="median").trials()]
    assert states == ["COMPLETE"] * 8 + ["PRUNED", "COMPLETE"]


def test_one_that_diverges_is_known_to_be_bad_and_one_that_fails_says_nothing():
    def values(job, number):
        if job.setting == 1:
            raise LearningFault("not finite")
        if job.setting == 2:
            raise RuntimeError("broken simulator")
        if job.setting == 3:
            return math.nan
        return 1.0

    study = tune(a_search(), OUT, 5, values)
    assert [trial.state.name for trial in study.trials()] == ["COMPLETE", "PRUNED", "FAIL", "FAIL", "COMPLETE"]
    assert "broken simulator" in study.trials()[2].user_attrs["why"]
    assert study.best().number == 0


def test_settings_that_contradict_each_other_fail_and_count():
    texts = ("trajectory_length=10,400", "replay_capacity=300,5000")
    study = tune(a_search(texts, replay_start=0), OUT, 12, lambda job, number: 1.0)
    states = [trial.state.name for trial in study.trials()]
    assert len(states) == 12 and 0 < states.count("FAIL") < 12
    for trial in study.trials():
        contradict = trial.params == {"trajectory_length": "400", "replay_capacity": "300"}
        assert contradict == (trial.state.name == "FAIL")
        assert not contradict or "holds no trajectory" in trial.user_attrs["why"]


def test_another_search_is_not_mixed_in():
    tune(a_search(), OUT, 1, rises)
    for other in (a_search(seeds=2), a_search(objective="last"), a_search(gamma=0.9), a_search(("gamma=0.9,0.99",))):
        with pytest.raises(SettingsError, match="x has a search with other settings"):
            tune(other, OUT, 1, rises)
    tune(a_search(threads=2), OUT, 1, rises)  # how runs are computed is no difference
    (OUT / "study.json").write_text("{")
    with pytest.raises(SettingsError, match="is damaged"):
        tune(a_search(), OUT, 1, rises)
    (OUT / "study.json").unlink()
    with pytest.raises(SettingsError, match=r"has a study, but no study\.json"):
        tune(a_search(), OUT, 1, rises)


def test_a_study_that_is_damaged_is_named():
    tune(a_search(), OUT, 1, rises)
    (OUT / "study.db").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(CheckpointError, match=r"x/study\.db cannot be used"):
        tune(a_search(), OUT, 2, rises)


def test_evaluations_have_their_place():
    search = a_search()
    assert [search.place(steps) for steps in (100, 199, 320, 399, 400, 560)] == [1, 1, 3, 3, 4, 4]
    alone = Search(a_search(eval_every=0).base, search.space)
    assert alone.evaluations == 1 and alone.place(400) == 1


def test_a_run_that_went_on_is_judged_with_what_it_had_said_before():
    """Its earlier evaluations are in its directory; the checkpoint may lie before the last of them."""
    search = a_search()
    with pytest.raises(Killed):
        tune(search, OUT, 1, lambda job, number: (_ for _ in ()).throw(Killed) if number == 3 else float(number))
    study = Study(search, OUT, "random")
    job = study._jobs(study._next(1))[0]
    assert study._evaluations(runs.work(OUT, job)) == {1: 1.0, 2: 2.0}
    study._heard[job.name] = study._evaluations(runs.work(OUT, job))
    assert study.hear(job, 200, 2.0) and study.hear(job, 300, 6.0)
    assert study._all()[0].intermediate_values == {1: 1.0, 2: 1.5, 3: 3.0}
