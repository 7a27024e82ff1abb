"""What a search leaves: settings that `acer train` takes, a table, pictures, and a page of them."""

import json
import math
from pathlib import Path

from acer.commands.train import combined
from acer.config import read_file
from acer.report.gather import gather
from acer.run import trust
from acer.run.tables import read
from acer.tune import outputs
from tune_runs import a_search, tune

OUT = Path("x")
TEXTS = ("learning_rate=1e-4..1e-2:log", "hidden=[8],[8,8]", "replay_ratio=1,4")


def values(job, number):
    return -abs(math.log10(job.config.learning_rate) + 3) - job.config.replay_ratio


def test_the_best_settings_are_a_file_that_train_takes():
    study = tune(a_search(TEXTS), OUT, 6, values)
    best = study.best()
    file = read_file(OUT / "best.json")
    trust.admit_file(OUT / "best.json", file, {})
    config = combined(file, {})
    assert config.learning_rate == best.params["learning_rate"] and config.replay_ratio == 1.0
    assert config.hidden == tuple(json.loads(best.params["hidden"])) and config.steps == 400
    assert "eval_every" not in file  # the search's own, not the user's
    assert best.value == max(trial.value for trial in study.trials())


def test_what_a_file_may_not_decide_stays_out_of_it():
    study = tune(a_search(device="meta"), OUT, 1, values)
    given = {"device": "meta", "gamma": 0.99}
    assert "device" not in json.loads(outputs.best_settings(study, study.best(), given))


def test_table_pictures_and_page():
    study = tune(a_search(TEXTS), OUT, 6, values)
    rows = read(OUT / "trials.csv")
    assert [row["trial"] for row in rows] == list("012345")
    assert [float(row["value"]) for row in rows] == [float(f"{trial.value:.6g}") for trial in study.trials()]
    shares = outputs.importance(study)
    assert shares.keys() <= study.search.space.keys() and math.isclose(sum(shares.values()), 1)
    for name in ("history.png", "importance.png"):
        assert (OUT / name).read_bytes().startswith(b"\x89PNG")
    found = gather([OUT])
    assert {file.name for file in found.media} == {"history.png", "importance.png"}
    assert [table.name for table in found.tables] == ["trials.csv"]
    assert len(found.runs) == 6 and not found.notes


def test_a_search_without_a_value_leaves_a_table_only():
    study = tune(a_search(), OUT, 2, lambda job, number: math.nan)
    assert study.best() is None and outputs.importance(study) == {}
    assert len(read(OUT / "trials.csv")) == 2 and not (OUT / "best.json").exists()


def test_the_file_has_what_follows_from_a_preset_and_not_from_the_file():
    study = tune(a_search(("environments=2,8",)), OUT, 2, values)
    for trial in study.trials():
        best = combined(json.loads(outputs.best_settings(study, trial, {})), {})
        assert best.trajectories_per_update == study.search.config(study.values(trial), 0).trajectories_per_update
