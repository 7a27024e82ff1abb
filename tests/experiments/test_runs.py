"""Runs on disk: what is kept, and when one is known again."""

import json
from pathlib import Path

from acer import config as configuration
from acer.experiments import plans, runs
from acer.experiments.plan import Selection


def test_a_run_is_known_again_by_what_was_learnt_in_it(tmp_path):
    (job,) = plans.jobs("control", "small", Selection(tasks=("fish",), methods=("acer",), settings=(0,)))
    file, settings = tmp_path / "config.json", json.loads(configuration.to_json(job.config))

    def known(**changes):
        file.write_text(json.dumps({name: of for name, of in (settings | changes).items() if of is not None}))
        return runs.same(file, job.config)

    assert known() and known(precision="float32")
    assert known(threads=2, keep_checkpoints=5, checkpoint_minutes=1.0)  # how, not what
    assert known(life_loss=None, setting_of_another_time=1)  # made before one setting, and after another
    assert not known(delta=2.0) and not known(steps=400_000) and not known(reward_scale=1.0)
    assert runs.same(tmp_path / "nothing.json", job.config)


def test_the_score_of_a_game_is_the_mean_over_the_past_million_frames():
    job = plans.jobs("atari", "smoke", Selection(methods=("acer-0",)))[0]
    Path("progress.csv").write_text("steps,seconds\n100,1\n250000,2\n600000,3\n")
    Path("episodes.csv").write_text("steps,return,length\n200,-21,800\n240000,-19,900\n500000,3,2000\n")
    files = runs.files_of(Path(), job)
    scores = [line.split(",")[-1] for line in files["progress.csv"].decode().splitlines()]
    assert scores == ["score", "", "-20", "3"]
