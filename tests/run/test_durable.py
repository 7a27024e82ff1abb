"""A run is never lost: exact resume, kills anywhere, damage, full disks, faults of environments and of numbers."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import gymnasium as gym
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from acer import ACER, Callback
from acer.config import defaults
from acer.envs import EnvBatch, batch
from acer.envs.episodes import Replayable, seed_of
from acer.errors import CheckpointError, LearningFault
from acer.run import checkpoint, opening, store
from acer.run.training import Training
from run_files import latest, numbered

SMALL = {"environments": 4, "hidden": (8,), "trajectory_length": 5, "replay_capacity": 200, "replay_start": 60,
         "log_every": 100, "eval_episodes": 2, "eval_every": 300, "learning_rate_decay": "none", "eval_limit": 50,
         "checkpoint_minutes": 0.0, "threads": 1}  # fmt: skip
TIMES = ("seconds", "steps_per_second")


class StopAt(Callback):
    def __init__(self, steps):
        self.steps = steps

    def on_rollout(self, training, report):
        return training.steps < self.steps


def files(run):
    """What a run leaves, without what depends on the clock."""
    found = {}
    for name in ("progress.csv", "episodes.csv", "eval.csv"):
        lines = (run / name).read_text().splitlines()
        keep = [i for i, column in enumerate(lines[0].split(",")) if column not in TIMES]
        found[name] = [[line.split(",")[i] for i in keep] for line in lines]
    where, state = latest(run).path, latest(run).state
    found["tensors"] = load_file(where / checkpoint.MODEL)
    found["replay"] = load_file(where / checkpoint.REPLAY)
    found["blocks"] = (where / checkpoint.BLOCKS).read_bytes()
    found["run"] = load_file(where / checkpoint.RUN)
    found["state"] = {key: state[key] for key in ("steps", "random_streams", "meter", "evaluations", "best", "rows")}
    return found


def same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        if isinstance(value, dict) and value and isinstance(next(iter(value.values())), np.ndarray):
            assert value.keys() == other[name].keys()
            for key, array in value.items():
                assert array.dtype == other[name][key].dtype and np.array_equal(array, other[name][key]), (name, key)
        else:
            assert value == other[name], name


def train(env, out, stops=(), steps=1_200, **settings):
    """Trains to `steps`, in as many parts as there are stops; each part is a new process' worth of objects."""
    model = ACER(env, **{**SMALL, "steps": steps, **settings})
    directory = out
    for stop in [*stops, None]:
        if stop is None:
            model.learn(steps - model.steps, **({"out": directory} if directory else {}))
        else:
            model.learn(steps, **({"out": directory} if directory else {}), callbacks=[StopAt(stop)])
            model.close()
            training = opening.resume(
                out, env, out, {name: settings[name] for name in ("workers",) if name in settings}
            )
            model = ACER.__new__(ACER)
            model._adopt(training)
            directory = None
    model.close()


# ------------------------------------------------------------------ exact resume


@pytest.mark.parametrize(
    ("env", "settings"),
    [
        ("CartPole-v1", {}),
        ("CartPole-v1", {"workers": True}),
        ("CartPole-v1", {"target_rate": 0.05}),
        ("Pendulum-v1", {"normalize_observations": True}),
        ("reacher3", {}),
        ("walker", {"normalize_observations": True}),
    ],
)
def test_parts_are_the_whole_bit_for_bit(env, settings, tmp_path):
    train(env, tmp_path / "whole", **settings)
    train(env, tmp_path / "parts", stops=(310, 700), **settings)
    same(files(tmp_path / "whole"), files(tmp_path / "parts"))


def test_pong_in_parts_is_pong_in_one(tmp_path):
    pytest.importorskip("ale_py", reason="needs the extra atari")
    few = {"steps": 400, "eval_every": 0, "precision": "float32", "eval_episodes": 1, "eval_limit": 10}
    train("pong", tmp_path / "whole", **few)
    train("pong", tmp_path / "parts", stops=(200,), **few)
    same(files(tmp_path / "whole"), files(tmp_path / "parts"))


def test_atari_episodes_of_different_lengths_are_played_again():
    atari = pytest.importorskip("acer.envs.atari")
    pytest.importorskip("ale_py", reason="needs the extra atari")
    batch = atari.AtariBatch("breakout", 4, sticky_actions=0.25, life_loss=True)
    batch.reset([1, 2, 3, 4])
    rng = np.random.default_rng(0)
    step = None
    while step is None or not step.ends_episode.any() or batch._episodes.max() < 1:
        step = batch.step(rng.integers(4, size=4))
    saved = batch.state()
    assert len(set(saved["lengths"].tolist())) > 1 and saved["dead"].any()
    other = atari.AtariBatch("breakout", 4, sticky_actions=0.25, life_loss=True)
    other.reset([9, 9, 9, 9])
    assert np.array_equal(other.restore(saved), step.observations)
    for _ in range(300):
        actions = rng.integers(4, size=4)
        one, two = batch.step(actions), other.step(actions)
        for name in vars(one):
            assert np.array_equal(getattr(one, name), getattr(two, name)), name
    batch.close()
    other.close()


def test_each_episode_has_a_seed_of_its_own():
    env = Replayable(gym.make("CartPole-v1"))
    first, _ = env.reset(seed=7)
    plain, _ = gym.make("CartPole-v1").reset(seed=7)
    assert np.array_equal(first, plain)
    second, _ = env.reset()
    alone, _ = gym.make("CartPole-v1").reset(seed=seed_of(7, 1))
    assert np.array_equal(second, alone) and not np.array_equal(first, second)
    assert len({seed_of(7, n) for n in range(1_000)}) == 1_000


class Moody(gym.Env):
    """Its randomness does not come from its seed."""

    observation_space = gym.spaces.Box(-10, 10, (2,))
    action_space = gym.spaces.Discrete(2)
    noise = np.random.default_rng()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.noise.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        return self.noise.uniform(-1, 1, 2).astype(np.float32), 1.0, self.steps == 30, False, {}


def test_an_environment_that_cannot_be_played_again_begins_new_episodes_and_says_so(tmp_path, capsys):
    ACER(Moody, **SMALL).learn(300, out=tmp_path / "run")
    training = opening.resume(tmp_path / "run", Moody)
    assert "new ones begin" in " ".join(capsys.readouterr().err.split())
    assert training.learner.rollout.alive.all() and not training.learner.rollout.lengths.any()
    training.close()


class HalfMoody(gym.Env):
    """Random beyond its seed, if that is odd."""

    observation_space = gym.spaces.Box(-10, 10, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.source = Moody.noise if seed % 2 else self.np_random
        return self.source.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        return self.source.uniform(-1, 1, 2).astype(np.float32), 1.0, False, False, {}


def test_episodes_that_can_be_played_again_are_where_they_were():
    from acer.learner.rollout import Rollout

    def make(seeds):
        return Rollout(EnvBatch.of([HalfMoody] * 4, "half", workers=False), 7, 0.99, seeds)

    rollout = make([2, 3, 4, 5])
    rollout.collect(lambda x, masks: (np.zeros(4, np.int64), np.zeros((4, 2), np.float32)))
    saved = {name: array.copy() for name, array in rollout.state().items()}
    other = make([8, 8, 8, 8])
    assert other.restore(saved) == [1, 3]
    assert np.array_equal(other.observations[[0, 2]], saved["observations"][[0, 2]])
    assert other.lengths.tolist() == [7, 0, 7, 0]


def test_another_directory_gets_its_own_checkpoints(tmp_path):
    model = ACER("CartPole-v1", **SMALL).learn(200, out=tmp_path / "a")
    model.learn(200, out=tmp_path / "b")
    assert int(latest(tmp_path / "a").path.name) < 400
    assert int(latest(tmp_path / "b").path.name) >= 400


def test_ctrl_c_reaches_workers_too_and_the_run_is_saved(tmp_path):
    """A terminal sends it to the whole group of processes."""
    flags = ["--environments", "4", "--hidden", "8", "--workers", "--quiet", "--steps", "1000000"]
    command = [sys.executable, "-m", "acer", "train", "CartPole-v1", *flags, "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while (
        not (tmp_path / "run" / "progress.csv").exists() or len((tmp_path / "run" / "progress.csv").read_text()) < 400
    ):
        assert process.poll() is None
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and "acer resume" in " ".join(said.split())
    latest(tmp_path / "run")


# ------------------------------------------------------------------ killed anywhere


def acer(*args, **options):
    return subprocess.run([sys.executable, "-m", "acer", *map(str, args)], capture_output=True, text=True, **options)


@pytest.mark.parametrize("kills", [2, *(pytest.param(kills, marks=pytest.mark.slow) for kills in (4, 100))])
def test_killed_at_random_moments(kills, tmp_path):
    """Saves every 160 steps, so that many of the kills fall into one."""
    settings = ["--environments", 4, "--hidden", 8, "--trajectory-length", 10, "--replay-start", 100, "--quiet",
                "--log-every", 400, "--eval-episodes", 1, "--eval-limit", 5, "--checkpoint-every", 160,
                "--checkpoint-minutes", 0, "--steps", 40_000 if kills > 10 else 12_000]  # fmt: skip
    done = acer("train", "reacher3", *settings, "--out", tmp_path / "whole", check=True)
    rng = np.random.default_rng(0)
    run = tmp_path / "killed"
    command = [sys.executable, "-m", "acer", "train", "reacher3", *map(str, settings), "--out", str(run)]
    for _ in range(kills):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while not (run / "config.json").exists():
            time.sleep(0.05)
        time.sleep(rng.uniform(1.5, 4.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        command = [sys.executable, "-m", "acer", "resume", str(run), "--quiet"]
    end = subprocess.run(command, capture_output=True, text=True, check=False)
    assert end.returncode == 0, end.stderr
    assert "damaged" not in end.stderr and done.returncode == 0
    same(files(tmp_path / "whole"), files(run))


# ------------------------------------------------------------------ damage


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with two checkpoints."""
    out = tmp_path_factory.mktemp("runs") / "run"
    ACER("CartPole-v1", **{**SMALL, "checkpoint_every": 200, "eval_every": 0}).learn(500, out=out)
    assert len(numbered(out)) == 2
    return out


@pytest.fixture
def run(finished, tmp_path):
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize(
    "name", [checkpoint.MODEL, checkpoint.REPLAY, checkpoint.BLOCKS, checkpoint.RUN, checkpoint.STATE]
)
@pytest.mark.parametrize("damage", ["flip", "cut", "missing"])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(run, name, damage, capsys):
    newest, older = numbered(run)
    file = newest / name
    content = bytearray(file.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "cut":
        file.write_bytes(content[:-3])
    else:
        file.unlink()
    training = opening.resume(run)
    said = " ".join(capsys.readouterr().err.split())
    assert name in said and f"using {older} instead" in said.replace("- ", "-")
    assert training.steps == int(older.name)
    training.close()
    shutil.rmtree(older)
    with pytest.raises(CheckpointError, match="no usable checkpoint") as error:
        opening.resume(run)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_latest_that_names_nothing_good_is_not_silent(run, capsys):
    (run / "checkpoints" / "LATEST").write_text("999999999999\n")
    opening.resume(run).close()
    assert "999999999999 is missing" in " ".join(capsys.readouterr().err.split())


def test_the_best_by_evaluation_is_kept(tmp_path):
    class Falling(Callback):
        """Evaluations get worse: the first stays the best."""

        def on_evaluation(self, training, evaluation):
            evaluation.returns[:] = [100 - training.steps / 100] * len(evaluation.returns)

    settings = {**SMALL, "eval_every": 200, "checkpoint_every": 100, "keep_checkpoints": 1}
    model = ACER("CartPole-v1", **settings).learn(900, out=tmp_path / "run", callbacks=[Falling()])
    names = [path.name for path in numbered(tmp_path / "run")]
    assert len(names) == 2 and 200 <= int(names[1]) < 300
    assert ACER.load(tmp_path / "run", best=True)._training.config.env == "CartPole-v1"
    assert store.find(tmp_path / "run", print, best=True).path.name == names[1]
    model.learn(500, out=tmp_path / "other", callbacks=[Falling()])  # whose best is its own
    assert 900 < int(store.find(tmp_path / "other", print, best=True).path.name) < 1_200


def test_saving_by_time(tmp_path):
    ACER("CartPole-v1", **{**SMALL, "checkpoint_minutes": 1e-5, "keep_checkpoints": 100}).learn(
        300, out=tmp_path / "run"
    )
    assert len(numbered(tmp_path / "run")) > 5


# ------------------------------------------------------------------ disks


@pytest.fixture
def small_disk(tmp_path):
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("needs the right to mount a tmpfs")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_costs_the_checkpoint_and_not_the_run(small_disk, capsys):
    class Fill(Callback):
        def on_rollout(self, training, report):
            if training.steps >= 300 and not (small_disk / "ballast").exists():
                free = shutil.disk_usage(small_disk).free
                (small_disk / "ballast").write_bytes(b"x" * max(0, free - 20_000))

    settings = {**SMALL, "checkpoint_every": 200, "keep_checkpoints": 1}
    model = ACER("CartPole-v1", **settings)
    with pytest.raises(CheckpointError, match="could not be written"):
        model.learn(800, out=small_disk / "run", callbacks=[Fill()])
    assert model.steps >= 800  # it went on
    assert "No space left" in capsys.readouterr().err
    (small_disk / "ballast").unlink()
    training = opening.resume(small_disk / "run")
    assert 200 <= training.steps < 400
    assert not list((small_disk / "run" / "checkpoints").glob(".*partial"))
    training.close()


def test_a_directory_that_cannot_be_written_is_said_in_one_line(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    result = acer("train", "CartPole-v1", "--steps", 400, "--out", small_disk / "run", "--quiet", check=False)
    assert result.returncode == 2 and "Read-only" in result.stderr and "Traceback" not in result.stderr


# ------------------------------------------------------------------ faults of environments


FAULTY = """
import time, os
import gymnasium as gym, numpy as np

class Faulty(gym.Env):
    observation_space = gym.spaces.Box(-10, 10, (3,))
    action_space = gym.spaces.Discrete(2)
    fault = {fault!r}

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(3, np.float32), {{}}

    def step(self, action):
        self.steps += 1
        x, r = np.full(3, self.steps / 100, np.float32), 1.0
        if self.steps == 150:
            if self.fault == "nan": x[1] = np.nan
            if self.fault == "infinite reward": r = float("inf")
            if self.fault == "shape": x = np.zeros(4, np.float32)
            if self.fault == "dtype": x = np.array(["a", "b", "c"])
            if self.fault == "raise": raise ValueError("motor 7 is hot")
            if self.fault == "hang": time.sleep(60)
            if self.fault == "die": os._exit(1)
        return x, r, False, self.steps == 200, {{}}
"""


@pytest.mark.parametrize("workers", [False, True])
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("nan", "NaN or infinity"),
        ("infinite reward", "NaN or infinity"),
        ("shape", ""),
        ("dtype", ""),
        ("raise", "raised ValueError at step 150 of its episode: motor 7 is hot"),
        ("hang", "step-limit"),
        ("die", ""),
    ],
)
def test_a_faulty_environment_ends_the_run_with_a_checkpoint_and_exit_code_3(fault, said, workers, tmp_path):
    if fault == "die" and not workers:
        pytest.skip("in one process with its environments, the run dies with them; `acer resume` goes on")
    (tmp_path / "faulty.py").write_text(FAULTY.format(fault=fault))
    flags = ["--environments", 4, "--hidden", 8, "--trajectory-length", 10, "--replay-start", 100, "--quiet",
             "--checkpoint-every", 200, "--step-limit", 2, *(["--workers"] if workers else [])]  # fmt: skip
    result = acer(
        "train", "faulty:Faulty", *flags, "--steps", 4_000, "--out", "run", cwd=tmp_path, check=False, timeout=50
    )
    assert result.returncode == 3, result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith("acer: faulty:Faulty") and said in " ".join(result.stderr.split())
    state = latest(tmp_path / "run").state
    assert 400 <= state["steps"] <= 600


def test_code_that_a_file_names_is_run_only_if_the_user_names_it_too(tmp_path):
    (tmp_path / "mine.py").write_text(FAULTY.format(fault="") + "\nopen('imported', 'w').close()\n")
    flags = ["--environments", 4, "--hidden", 8, "--steps", 400, "--quiet", "--out", "run"]
    assert acer("train", "mine:Faulty", *flags, cwd=tmp_path, check=False).returncode == 0
    (tmp_path / "imported").unlink()
    for command in (["eval", "run"], ["resume", "run"], ["record", "run"]):
        result = acer(*command, cwd=tmp_path, check=False)
        assert result.returncode == 2 and "--env mine:Faulty" in " ".join(result.stderr.split())
    assert not (tmp_path / "imported").exists()
    result = acer("eval", "run", "--env", "mine:Faulty", "--episodes", 2, cwd=tmp_path, check=False)
    assert result.returncode == 0 and "return 200.0" in result.stdout


# ------------------------------------------------------------------ numbers


def learner(**settings):
    config = defaults("CartPole-v1", False, **{**SMALL, **settings})
    training = Training(config)
    return training, training.learner


def test_a_gradient_that_is_not_finite_never_reaches_the_parameters():
    training, learning = learner(most_skipped=1_000)
    learning.iterate()
    before = training.agent.home.theta.clone(), training.agent.home.theta_a.clone(), training.agent.home.square.clone()
    original = learning._batch

    def poisoned(trajectory):
        batch = original(trajectory)
        batch.rewards[2, 1] = float("nan")
        return batch

    learning._batch = poisoned
    learning.iterate()
    assert learning.agent.home.skipped > 0
    home = training.agent.home
    assert all(torch.equal(a, b) for a, b in zip(before, (home.theta, home.theta_a, home.square), strict=True))
    training.close()


def test_many_in_a_row_stop_the_run_with_a_diagnosis(tmp_path):
    training, learning = learner(most_skipped=3)
    training.begin(tmp_path)
    original = learning._batch

    def poisoned(trajectory):
        batch = original(trajectory)
        if learning.steps > 200:
            batch.rewards[2, 1] = float("nan")
        return batch

    learning._batch = poisoned
    with pytest.raises(LearningFault, match="3 updates in a row") as error:
        training.run()
    assert "rewards, at step 2 of trajectory 1" in str(error.value) and "policy.torso" in str(error.value)
    assert error.value.exit_code == 3
    state = latest(tmp_path).state
    assert state["skipped_updates"] >= 3
    training.close()


def test_parameters_that_are_not_finite_are_never_saved(tmp_path):
    training, _ = learner()
    training.begin(tmp_path)
    training.learner.iterate()
    training.agent.home.theta[3] = float("nan")
    with pytest.raises(LearningFault, match="not saved"):
        training.checkpoint()
    assert not (tmp_path / "checkpoints").exists()
    training.close()


def test_a_batch_that_nobody_can_replay_has_no_state():
    class Opaque(gym.vector.VectorEnv):
        num_envs = 2
        metadata = {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012
        single_observation_space = gym.spaces.Box(-1, 1, (1,))
        single_action_space = gym.spaces.Discrete(2)

    assert EnvBatch(Opaque(), "opaque").state() == {}


def test_states_are_json_and_arrays_only(run):
    where = latest(run).path
    assert {file.name for file in where.iterdir()} == {
        checkpoint.MODEL,
        checkpoint.RUN,
        checkpoint.REPLAY,
        checkpoint.BLOCKS,
        checkpoint.STATE,
    }
    json.loads((where / checkpoint.STATE).read_text())
    assert not any(b"pickle" in file.read_bytes() for file in where.iterdir())


def test_a_run_that_was_stopped_meanwhile_has_time_to_come_back():
    """After Ctrl-Z and fg the alarm of the step is overdue; only a second one means that it hangs."""
    with batch._alarm(60):
        os.kill(os.getpid(), signal.SIGALRM)
    with batch._alarm(60):
        os.kill(os.getpid(), signal.SIGALRM)
        with pytest.raises(TimeoutError, match="step-limit"):
            os.kill(os.getpid(), signal.SIGALRM)
