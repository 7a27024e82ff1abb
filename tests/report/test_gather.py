"""What `acer report` finds in directories, and what it refuses."""

import json

import pytest

from acer.errors import SettingsError
from acer.report import gather, page
from report_runs import made, write_picture, write_rows, write_run


def test_an_experiment_is_gathered_from_any_depth(experiment):
    shown = made(experiment)
    assert shown["environments"] == ["CartPole-v1", "fish"]
    assert shown["agents"] == ["acer", "a3c"]
    assert len(shown["runs"]) == 12
    assert shown["runs"][0]["name"] == "CartPole-v1-acer-0"
    assert shown["differing"] == ["env", "algo", "seed"]
    assert shown["shared"] == {"learning_rate": "0.0007", "hidden": "64, 64", "workers": "no"}
    assert "RMSProp" in shown["about"]["learning_rate"]
    assert [table["name"] for table in shown["tables"]] == ["study.csv"]
    assert [picture["name"] for picture in shown["media"]] == ["study.svg"], "one of PNG and SVG"
    names = [picture["name"].split("/")[-1] for picture in shown["runs"][0]["media"]]
    assert names == ["strip.png", "video.mp4"], "the curve is drawn by the page"
    assert [metric["name"] for metric in shown["metrics"]][:3] == ["return_mean", "trust_region_active", "entropy"]
    assert str(experiment.parent) not in json.dumps(shown), "no paths of this machine on the page"


def test_a_single_run(experiment):
    shown = made(experiment / "runs" / "fish-a3c-2")
    (run,) = shown["runs"]
    assert run["name"] == "fish-a3c-2" and run["env"] == "fish" and run["agent"] == "a3c"
    assert run["steps"] == 60_000 and run["evaluation"] == 482 and run["best"] >= run["final"] > 200
    assert run["evaluations"][0]["policy"] == "mode"
    assert shown["differing"] == []
    assert len(run["curves"]) == 1 and len(run["curves"][0]["steps"]) == 40
    assert run["curves"][0]["return_mean"][:2] == [None, None]


def test_pairs_of_csv_and_json_and_csv_files_alone(tmp_path):
    for algo in ("acer", "tis"):
        write_rows(tmp_path / f"walker-{algo}.csv")
        (tmp_path / f"walker-{algo}.json").write_text(json.dumps({"config": {"env": "walker", "algo": algo}}))
    write_rows(tmp_path / "pong.csv")
    (tmp_path / "pong.json").write_text(json.dumps({"env": "pong", "algo": "acer", "truncation": "inf"}))
    write_picture(tmp_path / "pong.png")
    for name in ("LunarLander-v3-a3c-7", "LunarLanderContinuous-v3-1", "trial-lr1e-4"):
        write_rows(tmp_path / f"{name}.csv")
    shown = {run["name"]: run for run in made(tmp_path)["runs"]}
    assert {name: run["env"] for name, run in shown.items()} == {
        "walker-acer": "walker", "walker-tis": "walker", "pong": "pong", "LunarLander-v3-a3c-7": "LunarLander-v3",
        "LunarLanderContinuous-v3-1": "LunarLanderContinuous-v3", "trial-lr1e-4": tmp_path.name,
    }  # fmt: skip
    assert shown["walker-tis"]["agent"] == "tis"
    assert shown["LunarLander-v3-a3c-7"]["agent"] == "a3c"
    assert shown["LunarLander-v3-a3c-7"]["settings"]["seed"] == "7"
    assert shown["trial-lr1e-4"]["agent"] == gather.UNKNOWN
    assert [picture["name"] for picture in shown["pong"]["media"]] == ["pong.png"]


def test_what_is_not_looked_at(experiment, tmp_path):
    write_run(tmp_path / "runs" / "one")
    write_run(tmp_path / "runs" / "one" / "checkpoints" / "inside")
    write_run(tmp_path / "runs" / ".two.partial")
    (tmp_path / "runs" / "three").symlink_to(experiment)
    (tmp_path / "runs" / "secret.png").symlink_to(experiment / "study.png")
    shown = made(tmp_path)
    assert [run["name"] for run in shown["runs"]] == ["one"]
    assert shown["media"] == []


def test_directories_named_twice_count_once(experiment):
    runs = experiment / "runs"
    assert len(made(experiment, runs, runs / "fish-acer-0", experiment)["runs"]) == 12
    names = [run["name"] for run in made(runs / "fish-acer-0", runs / "fish-acer-1")["runs"]]
    assert names == ["fish-acer-0", "fish-acer-1"]


def test_equal_names_are_with_unique_names(tmp_path):
    for folder in "ab":
        write_run(tmp_path / folder / "runs" / "one")
    names = [run["name"] for run in made(tmp_path / "a" / "runs", tmp_path / "b" / "runs")["runs"]]
    assert names == ["one", "one (2)"]


def test_numbers_in_names_sort_as_people_count(tmp_path):
    for seed in (10, 2, 1):
        write_run(tmp_path / f"fish-{seed}", "fish", seed=seed)
    assert [run["name"] for run in made(tmp_path)["runs"]] == ["fish-1", "fish-2", "fish-10"]


def test_agents_of_one_algorithm_are_with_unique_names_by_what_makes_them_others(tmp_path):
    for ratio in (0, 4):
        settings = {"replay_ratio": ratio, "on_policy": True, "learning_rate": 1e-4 * (1 + ratio)}
        write_run(tmp_path / f"ratio-{ratio}", "pong", settings=settings)
    write_run(tmp_path / "other", "Pendulum-v1", algo="tis", settings={"replay_ratio": 4.0, "on_policy": False})
    assert made(tmp_path)["agents"] == ["tis", "acer, replay ratio 0", "acer, replay ratio 4"]


def test_runs_with_other_settings_or_lengths_are_other_agents_and_seeds_are_not(tmp_path):
    for i, (rate, steps) in enumerate([(1e-3, 100), (1e-3, 100), (1e-4, 100), (1e-3, 200)]):
        write_run(tmp_path / f"run-{i}", seed=i, settings={"learning_rate": rate, "steps": steps, "log_every": i})
    assert [run["agent"] for run in made(tmp_path)["runs"]] == [
        "acer, steps 100, learning rate 0.001",
        "acer, steps 100, learning rate 0.001",
        "acer, steps 100, learning rate 0.0001",
        "acer, steps 200, learning rate 0.001",
    ]


def test_agents_that_differ_late_in_a_long_name_stay_apart(tmp_path):
    for i, kwargs in enumerate(("a" * 200, "a" * 199 + "b")):
        write_run(tmp_path / f"run-{i}", settings={"torso": kwargs})
    assert len(set(made(tmp_path)["agents"])) == 2


def test_an_experiments_agents_have_its_names(tmp_path):
    """Pong's agents differ in their ratios, which has nothing to do with the fish's."""
    for env, method, ratio in (("pong", "acer-0", 0), ("pong", "acer-4", 4), ("fish", "acer", 4)):
        run = write_run(tmp_path / f"{env}-{method}-0-0", env, settings={"replay_ratio": ratio})
        (run / "result.json").write_text(json.dumps({"method": method, "error": None}))
    assert made(tmp_path)["agents"] == ["acer", "acer-0", "acer-4"]


def test_an_experiments_runs_that_are_unfinished_runs_are_no_results(tmp_path):
    for where in ("runs/fish-acer-0-0", "work/fish-acer-0-0", "work/fish-acer-1-0"):
        write_run(tmp_path / where, "fish")
    shown = made(tmp_path)
    assert [run["name"] for run in shown["runs"]] == ["fish-acer-0-0"]
    assert shown["notes"] == ["left out: 1 run in work not at the end yet"]


def test_an_experiment_may_have_figures_and_tables_only(tmp_path):
    write_picture(tmp_path / "theory.png")
    (tmp_path / "theory.csv").write_text("x,y\n1,2\n")
    shown = made(tmp_path)
    assert shown["runs"] == [] and len(shown["media"]) == len(shown["tables"]) == 1
    assert page.render(shown)


def test_runs_that_have_just_begun_or_failed(tmp_path):
    write_run(tmp_path / "begun", count=0)
    write_run(tmp_path / "failed", "fish", count=3)
    (tmp_path / "failed" / "result.json").write_text(json.dumps({"error": "the physics exploded"}))
    with (tmp_path / "failed" / "progress.csv").open("a") as file:
        file.write("70000,12.")  # a row that is being written
    write_run(tmp_path / "lost", "fish", count=3)
    (tmp_path / "lost" / "result.json").write_text(json.dumps({"error": "not finite", "diverged": True}))
    shown = made(tmp_path)
    assert shown["runs"][0]["curves"] == [] and shown["runs"][0]["final"] is None
    assert shown["runs"][1]["steps"] == 60_000
    assert [run["failed"] for run in shown["runs"]] == [False, True, False]  # a run that diverged is a result
    assert [run["diverged"] for run in shown["runs"]] == [False, False, True]
    assert shown["notes"] == ["failed failed: the physics exploded", "lost diverged: not finite"]


def test_settings_are_shown_however_deep_they_are(tmp_path):
    deep = json.loads("[" * 900 + "]" * 900)
    write_run(tmp_path / "run", settings={"hidden": deep, "torso": {"a": deep}, "both": [1, [2], {"b": 3}]})
    shared = made(tmp_path)["shared"]
    assert (shared["hidden"], shared["torso"], shared["both"]) == ("[…]", "{…}", "1, […], {…}")


def test_what_acer_eval_printed_is_an_evaluation(tmp_path):
    run = write_run(tmp_path / "run")
    (run / "eval.json").write_text(json.dumps({"episodes": 2, "mean": 9.5, "std": 0.5, "returns": [9, 10]}))
    (shown,) = made(tmp_path)["runs"]
    assert shown["evaluation"] == 9.5
    assert shown["evaluations"][1]["return_max"] == 10


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("run/progress.csv", "steps,return_mean,kl\n1,2,3\n4,five,6\n", "row 3, return_mean: 'five' is not a number"),
        ("run/progress.csv", "a,b\n1,2\n", "no columns steps and return_mean"),
        ("run/progress.csv", "steps,return_mean\n1,2\n1,2,3\n1,2\n", "row 3 has 3 values for 2 columns"),
        ("run/progress.csv", b"\xff\xfe\0", "cannot be read"),
        ("run/progress.csv", 'steps,return_mean\n"1,2\n', "damaged"),
        ("run/config.json", "{", "damaged"),
        ("run/config.json", "[]", "must hold one JSON object"),
        ("run/config.json", "[" * 100_000, "damaged"),
        ("run/eval.csv", "steps,return_mean,policy\n1,x,mode\n", "'x' is not a number"),
        ("run/eval.json", '{"mean": 3}', "not what `acer eval --json` prints"),
        ("run/strip.png", b"\x89PNG\r\n\x1a\n cut off", "not a whole PNG file"),
        ("run/video.mp4", b"", "not a whole MP4 file"),
        ("figure.svg", "<svg", "not a whole SVG file"),
        ("pair.json", '{"config": 3}', "config must be an object"),
    ],
)
def test_damaged_files_are_named(tmp_path, file, text, said):
    write_run(tmp_path / "run")
    write_rows(tmp_path / "pair.csv")
    (tmp_path / file).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SettingsError) as error:
        made(tmp_path)
    assert said in str(error.value)
    assert str(tmp_path / file) in str(error.value)
    assert "\n" not in str(error.value)
