"""Directories from strangers: nothing outside is written, nothing outside is reached because a file says so."""

import contextlib
import json
import os
import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from acer import ACER
from acer.console import printable, warn
from acer.errors import AcerError, CheckpointError, SettingsError
from acer.report import write as write_report
from acer.run import checkpoint, files, opening, outputs, plots
from acer.run.files import Directory
from run_files import latest, read_state, rehash, rewrite_state

SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5, "threads": 1,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "eval_episodes": 1}  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    out = tmp_path_factory.mktemp("hostile") / "run"
    ACER("CartPole-v1", **SMALL).learn(150, out=out)
    return out


@pytest.fixture
def run(original, tmp_path):
    shutil.copytree(original, tmp_path / "run")
    return tmp_path / "run"


@pytest.fixture
def secret(tmp_path):
    """A file of the user's, outside."""
    (tmp_path / "outside").mkdir()
    path = tmp_path / "outside" / "secret"
    path.write_text("mine")
    yield path
    assert path.read_text() == "mine" and [p.name for p in path.parent.iterdir()] == ["secret"]


def go_on(run: Path, steps: int = 60) -> None:
    training = opening.resume(run, directory=run)
    training.extend(training.steps + steps)
    try:
        training.run()
    finally:
        training.close()


# ------------------------------------------------------------------ what a file may not decide


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"home": "ray", "ray_address": "10.0.0.1:6379"}, "--home ray --ray-address 10.0.0.1:6379"),
        ({"home": "ray", "ray_address": "ray://10.0.0.1:10001"}, "--ray-address"),
        ({"home": "ray", "ray_address": "harm://x"}, "--ray-address harm://x"),
        ({"ray_address": "harm://x"}, "--ray-address"),
        ({"home": "ray"}, "--home ray"),
        ({"home": "shared", "actors": 3000}, "--home shared --actors 3000"),
        ({"workers": True}, "--workers"),
        ({"device": "cuda:7"}, "--device cuda:7"),
        ({"threads": 100_000}, "--threads 100000"),
        ({"environments": 1_000_000}, "--environments 1000000"),
        ({"eval_episodes": 10**9}, "--eval-episodes 1000000000"),
        ({"replay_ratio": 1e9}, "--replay-ratio 1000000000.0"),
        ({"env": "os:abort"}, "--env os:abort"),
        ({"env_kwargs": {"xml_file": "/etc/passwd"}}, "--env-kwargs"),
    ],
)
def test_what_reaches_outside_is_the_users_to_say(settings, said, run, tmp_path, call):
    where = latest(run).path
    state = read_state(where)
    rewrite_state(where, state | {"config": state["config"] | settings})
    with pytest.raises(CheckpointError, match=r"(say|name) it yourself") as error:
        opening.resume(run, directory=run)
    assert said in str(error.value) and "\n" not in str(error.value)
    (tmp_path / "settings.json").write_text(json.dumps({"env": "CartPole-v1"} | settings))
    code, _, err = call("train", "--config", tmp_path / "settings.json", "--out", tmp_path / "new")
    assert code == 2 and "yourself" in err and not (tmp_path / "new").exists()


def test_a_file_of_settings_that_is_none_is_refused_in_one_line(tmp_path, call):
    for settings in ({"env_kwargs": [1]}, {"env": 5}, {"preset": []}, {"algo": {}}, {"home": 1}, {"threads": None}):
        (tmp_path / "settings.json").write_text(json.dumps({"env": "CartPole-v1"} | settings))
        code, _, err = call("train", "--config", tmp_path / "settings.json", "--out", tmp_path / "new")
        assert code == 2 and err.count("\n") == 1, err


def test_what_the_user_says_is_done(run):
    where = latest(run).path
    state = read_state(where)
    rewrite_state(where, state | {"config": state["config"] | {"workers": True}})
    training = opening.resume(run, given={"workers": True})
    assert training.config.workers
    training.close()


# ------------------------------------------------------------------ links

NAMES = ["config.json", "progress.csv", "episodes.csv", "eval.csv", "curve.png", "video.mp4", "checkpoints",
         "tensorboard",
         "checkpoints/LATEST", "checkpoints/BEST", "tensorboard/events.out.tfevents.1", ".progress.csv.partial",
         ".config.json.partial", "checkpoints/.LATEST.partial", "checkpoints/.BEST.partial", ".curve.png.partial",
         "checkpoints/.000000000210.partial", "report.html", ".report.html.partial", "progress.csv.old",
         "checkpoints/000000000210", "checkpoints/999999999999", "checkpoints/000000000210.undone"]  # fmt: skip


@pytest.mark.parametrize("to", ["file", "directory"])
@pytest.mark.parametrize("name", NAMES)
def test_a_link_under_any_name_leads_nowhere(name, to, run, secret):
    """It is refused in one line, or replaced; what it leads to stays as it was (see the fixture)."""
    target = secret if to == "file" else secret.parent
    path = run / name
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(target)
    for act in (
        lambda: go_on(run),
        lambda: plots.curves([run], run / "curve.png"),
        lambda: write_report([run], run / "report.html"),
        lambda: outputs.write_beside(run / "video.mp4", b"film"),
    ):
        with contextlib.suppress(AcerError):
            act()


def test_outputs_take_the_place_of_links(run, secret):
    for name in ("curve.png", "report.html"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(secret)
    plots.curves([run], run / "curve.png")
    write_report([run], run / "report.html")
    assert not any((run / name).is_symlink() for name in ("curve.png", "report.html"))


def test_a_device_is_not_replaced():
    with pytest.raises(SettingsError, match="not a regular file"):
        outputs.write_beside(Path("/dev/null"), b"x")


def test_a_link_to_a_checkpoint_of_another_run_does_not_make_it_that_run(run, original, tmp_path):
    """Else a stranger's directory could have one of yours trained on, and its newer checkpoints put aside."""
    own = tmp_path / "mine"
    shutil.copytree(original, own)
    link = run / "checkpoints" / "000000000001"
    link.symlink_to(latest(own).path)
    assert opening.store.run_of(link) == run
    assert opening.store.run_of(latest(run).path / ".." / latest(run).path.name) == run


def test_only_a_saved_model_is_replaced_by_one(run, tmp_path):
    model = ACER.load(run)
    model.save(tmp_path / "model")
    model.save(tmp_path / "model")
    (tmp_path / "model" / "notes.txt").write_text("mine")
    for path in (tmp_path / "model", latest(run).path, run):
        with pytest.raises(CheckpointError, match="not a saved model"):
            model.save(path)
    model.close()


# ------------------------------------------------------------------ special files and absurd counts


@pytest.mark.parametrize("name", ["config.json", "progress.csv", "episodes.csv", "eval.csv", "checkpoints/LATEST",
                                  "checkpoints/BEST", "STATE", "model.safetensors", "run.safetensors"])  # fmt: skip
def test_a_pipe_in_the_place_of_a_file_does_not_hang(name, run):
    where = latest(run).path
    path = where / "state.json" if name == "STATE" else where / name if name.endswith("safetensors") else run / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    done = threading.Event()

    def act():
        with contextlib.suppress(AcerError, OSError):
            go_on(run)
        done.set()

    threading.Thread(target=act, daemon=True).start()
    assert done.wait(120)


def test_a_directory_of_too_many_entries_is_refused(run, monkeypatch):
    monkeypatch.setattr(files, "MOST_ENTRIES", 50)
    for n in range(60):
        (run / "checkpoints" / f"x{n}").touch()
    with pytest.raises(CheckpointError, match="more than 50 entries"):
        opening.resume(run, directory=run)


@pytest.mark.parametrize(
    "settings", [{"trajectory_length": 10**9, "replay_capacity": 10**9}, {"replay_capacity": 10**13},
                 {"replay_capacity": 2**62}]
)  # fmt: skip
def test_settings_that_want_all_memory_are_refused_before_it_is_taken(settings, run):
    where = latest(run).path
    state = read_state(where)
    rewrite_state(where, state | {"config": state["config"] | settings})
    with pytest.raises(AcerError, match=r"memory|damaged") as error:
        opening.resume(run, directory=run)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["config.json", "progress.csv", "eval.csv"])
@pytest.mark.parametrize("kind", ["pipe", "link", "terabytes"])
def test_plots_and_reports_read_regular_files_only(name, kind, run, secret, tmp_path, call):
    path = run / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(secret)
    else:
        with path.open("wb") as file:
            file.truncate(8 << 40)
    done = []
    thread = threading.Thread(target=lambda: done.append(looked_at(run, tmp_path)), daemon=True)
    thread.start()
    thread.join(60)
    assert done


def looked_at(run, place):
    for act in (
        lambda: plots.by_agent([run]),
        lambda: plots.curves([run], place / "curve.png"),
        lambda: write_report([run], place / "report.html"),
    ):
        with contextlib.suppress(AcerError):
            act()
    return True


def test_a_state_of_terabytes_is_not_read_to_tell_one_version_of_a_run_from_another(run):
    with (latest(run).path / "state.json").open("wb") as file:
        file.truncate(8 << 40)
    with pytest.raises(CheckpointError, match="larger than any such file"):
        opening.resume(run, directory=run)


def test_a_table_of_tiny_rows_that_would_fill_memory_is_refused(run, monkeypatch, call):
    monkeypatch.setattr("acer.run.tables.free_memory", lambda: 1 << 20)
    (run / "progress.csv").write_text("steps,return_mean\n" + "1,2\n" * 10_000)
    assert call("plot", run, "--output", run / "curve.png")[0] == 2
    code, _, err = call("report", run, "--output", run / "report.html")
    assert code == 2 and "does not fit in memory: it has 10,001 rows" in err


@pytest.mark.parametrize("sizes", [{"recurrent": "gru", "memory_size": 10**9}, {"hidden": [300_000, 300_000]}])
def test_layers_beyond_memory_are_refused_before_memory_is_taken(sizes, run, tmp_path, call, monkeypatch):
    made = []
    monkeypatch.setattr("acer.run.state.Agent", lambda *args: made.append(args))
    (tmp_path / "settings.json").write_text(json.dumps({"env": "CartPole-v1"} | sizes))
    code, _, err = call("train", "--config", tmp_path / "settings.json", "--out", tmp_path / "new")
    assert code == 2 and "the networks do not fit in memory" in err and err.count("\n") == 1
    where = latest(run).path
    state = read_state(where)
    rewrite_state(where, state | {"config": state["config"] | sizes})
    with pytest.raises(AcerError) as error:
        opening.load(run)
    assert "\n" not in str(error.value) and not made


def test_a_library_for_which_there_is_no_memory_is_named_in_one_line(run, call, monkeypatch):
    def curves(*_):
        raise ImportError("/x/_agg.so: failed to map segment from shared object", name="_agg", path="/x/_agg.so")

    monkeypatch.setattr(plots, "curves", curves)
    code, _, err = call("plot", run, "--output", run / "curve.png")
    assert code == 2 and "failed to map segment" in err and err.count("\n") == 1


def test_without_memory_for_its_threads_no_run_begins(run, call, monkeypatch):
    def mmap(*_):
        raise OSError(12, "no")

    monkeypatch.setattr("mmap.mmap", mmap)
    code, _, err = call("resume", run, "--steps", 400, "--quiet")
    assert code == 2 and "not enough memory: the threads of a run" in err
    monkeypatch.undo()
    go_on(run)


def nest(where, first, levels):
    here = os.open(where, os.O_RDONLY)
    for level in range(levels):
        name = "a" if level else first
        os.mkdir(name, dir_fd=here)
        here, before = os.open(name, os.O_RDONLY, dir_fd=here), here
        os.close(before)
    os.close(here)


def test_directories_as_deep_as_the_sea(run, call):
    """To remove or to walk them all would use up the stack, or the file handles."""
    nest(run / "checkpoints", ".x.partial", 1_200)
    with pytest.raises(CheckpointError, match="too deep"):
        go_on(run)
    nest(run, "a", 1_200)
    code, _, err = call("report", run, "--output", run / "report.html")
    assert code == 2 and "deep" in err and err.count("\n") == 1
    subprocess.run(["rm", "-rf", str(run)], check=True)  # too deep for pytest, which removes it some runs later


def test_a_name_with_a_line_end_makes_no_second_line(run, call):
    (run / "tensorboard" / "a\nacer: all is well\x1b[2J").mkdir()
    code, _, err = call("resume", run, "--steps", 400, "--quiet")
    assert code == 2 and err.splitlines()[-1].startswith("acer: ") and "\x1b" not in err
    assert not any(line.startswith("acer: all is well") for line in err.splitlines())
    with pytest.raises(CheckpointError) as error:
        go_on(run)
    assert "\n" not in str(error.value)


def test_a_checkpoint_that_vanishes_while_it_is_read_gives_way_to_another(run, monkeypatch, capsys):
    """A run that goes on removes its older ones."""
    newest = latest(run).path
    shutil.copytree(newest, newest.with_name("000000000007"))
    digest = Directory.digest

    def vanish(self, name):
        if self.path == newest:
            shutil.rmtree(newest, ignore_errors=True)
        return digest(self, name)

    monkeypatch.setattr(Directory, "digest", vanish)
    opening.load(run).close()
    assert "instead" in capsys.readouterr().err


@pytest.mark.parametrize("again", [True, False])
def test_a_model_that_is_replaced_while_it_is_read_is_read_again(again, run, tmp_path, monkeypatch):
    """Its hashes were right, and then its files are gone. Where none takes its place, that is said."""
    own, model, happened = tmp_path / "own", ACER.load(run), []
    model.save(own)

    def check_late(self, expected):
        if not happened:
            happened.append(model.save(own) if again else shutil.rmtree(own))
        check(self, expected)

    check = checkpoint.Checkpoint.check_model
    monkeypatch.setattr(checkpoint.Checkpoint, "check_model", check_late)
    if again:
        opening.load(own).close()
    else:
        with pytest.raises(CheckpointError, match="own") as error:
            opening.load(own)
        assert "\n" not in str(error.value)
    assert happened
    model.close()


# ------------------------------------------------------------------ right hashes, wrong contents


def set_arrays(where: Path, file: str, **arrays: object) -> None:
    safetensors.numpy.save_file(safetensors.numpy.load_file(where / file) | arrays, where / file)
    rehash(where)


RUN, REPLAY = checkpoint.RUN, checkpoint.REPLAY
CONTENTS = [
    (RUN, "alive", lambda a: a.astype(np.float32)),
    (RUN, "alive", lambda a: ~a),
    (RUN, "returns", lambda a: a[:1]),
    (RUN, "returns", lambda a: np.full_like(a, np.nan)),
    (RUN, "lengths", lambda a: a - 1_000),
    (RUN, "lengths", lambda a: np.full_like(a, 2**62)),
    (RUN, "observations", lambda a: a[:, :2].copy()),
    (RUN, "observations", lambda a: np.full_like(a, np.inf)),
    (RUN, "unit", lambda a: a[:1]),
    (RUN, "unit", lambda a: a - 5),
    (RUN, "env.roots", lambda a: a * 0 - 1),
    (RUN, "env.episodes", lambda a: a[None]),
    (RUN, "env.lengths", lambda a: a + 10**6),
    (RUN, "env.actions", lambda a: a + 100),
    (RUN, "env.actions", lambda a: a.astype(np.float16)),
    (RUN, "env.dead", lambda a: a.astype(np.int8)),
    (REPLAY, "actions", lambda a: a + 100),
    (REPLAY, "actions", lambda a: a - 100),
    (REPLAY, "rewards", lambda a: np.full_like(a, np.nan)),
    (REPLAY, "mu", lambda a: np.full_like(a, -np.inf)),
    (REPLAY, "discounts", lambda a: a + 7),
    (REPLAY, "added", lambda a: a + 2**60),
    (REPLAY, "added", lambda a: a * 0),
    (REPLAY, "block_sizes", lambda a: a * 0 - 1),
    (REPLAY, "live", lambda a: a.astype(np.uint8)),
]


@pytest.mark.parametrize(("file", "name", "change"), CONTENTS)
def test_contents_that_make_no_sense_are_refused_before_they_are_used(file, name, change, run):
    where = latest(run).path
    set_arrays(where, file, **{name: np.ascontiguousarray(change(safetensors.numpy.load_file(where / file)[name]))})
    with pytest.raises(CheckpointError) as error:
        opening.resume(run, directory=run)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("meter.recent", [[1.0, 2]] * 200),
        ("meter.recent", [["x", 2]]),
        ("meter.recent", [[float("nan"), 2]]),
        ("meter.recent", [[1.0, -2]]),
        ("meter.updates", -1),
        ("meter.replays", 10**30),
        ("meter.since_row.steps", 1.5),
        ("meter.since_row.diagnostics", {"entropy": [1.0, 0]}),
        ("meter.since_row.diagnostics", {"\x1b[2J": [1.0, 1]}),
        ("meter.since_row.diagnostics", []),
        ("rows.progress", -1),
        ("rows", "many"),
        ("row_at", 10**9),
        ("best", "high"),
        ("seconds", -3),
        ("evaluation_due", 1),
        ("random_streams", [{}]),
        ("random_streams", "act"),
    ],
)
def test_counters_that_make_no_sense_are_refused(path, value, run):
    where = latest(run).path
    state = read_state(where)
    *parents, last = path.split(".")
    part = state
    for parent in parents:
        part = part[parent]
    part[last] = value
    rewrite_state(where, state)
    with pytest.raises(CheckpointError) as error:
        opening.resume(run, directory=run)
    assert "\n" not in str(error.value)


# ------------------------------------------------------------------ races


def test_a_run_is_locked_before_it_is_read(run, monkeypatch):
    locked = []

    def find(path, say, best=False):
        with Directory.open(run) as other:
            locked.append(not other.lock())
        return found(path, say, best)

    found = opening.store.find
    monkeypatch.setattr(opening.store, "find", find)
    go_on(run)
    assert locked == [True]


def test_one_that_was_loaded_before_another_trained_does_not_undo_it(run):
    early = ACER.load(run, resume=True)
    go_on(run)
    newest = latest(run).path.name
    with pytest.raises(SettingsError, match="has moved on"):
        early.learn(50)
    early.close()
    assert latest(run).path.name == newest


# ------------------------------------------------------------------ what is said


def test_names_and_messages_do_not_command_the_terminal(run, capsys):
    assert printable("a\x1b[2J\x9bb\u202ec\r") == "a\\x1b[2J\\x9bb\\u202ec\\r"
    assert printable("Grüße, δ = 1\n") == "Grüße, δ = 1\n"
    warn("x\x1b]0;title\x07")
    assert "\x1b]" not in capsys.readouterr().err
