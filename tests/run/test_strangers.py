"""Files from strangers: damaged or hostile checkpoints are refused in one line or load identically; no code runs."""

import hashlib
import json
import random
import resource
import shutil
import struct
import warnings

import lz4.block
import numpy as np
import pytest
import safetensors.numpy

from acer import ACER
from acer.errors import AcerError
from acer.run import checkpoint, files, opening
from run_files import latest, read_state, rehash, rewrite_state

SMALL = {"environments": 2, "trajectories_per_update": 2, "hidden": (8,), "trajectory_length": 5,
         "replay_capacity": 100, "replay_start": 20, "checkpoint_minutes": 0.0, "eval_episodes": 1}  # fmt: skip

FILES = (checkpoint.MODEL, checkpoint.RUN, checkpoint.REPLAY, checkpoint.BLOCKS)


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    out = tmp_path_factory.mktemp("strangers") / "run"
    ACER("CartPole-v1", **SMALL).learn(150, out=out)
    return latest(out).path


@pytest.fixture(scope="module")
def contents(original):
    return what(opening.resume(original))


def what(training):
    """Everything that a load gives, as bytes."""
    arrays, blocks = training.learner.replay.state()
    state = json.dumps(training.state.describe() | {"versions": {}}, sort_keys=True)
    found = [
        *(t.numpy().tobytes() for t in training.state.tensors().values()),
        *(a.tobytes() for a in arrays.values()),
        *blocks,
        *(a.tobytes() for a in training.learner.state().run.values()),
        state.encode(),
    ]
    training.close()
    return found


def mutated_bytes(rng, content):
    content = bytearray(content)
    at = rng.randrange(len(content))
    kind = rng.randrange(6)
    if kind == 0:
        content[at] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del content[at:]
    elif kind == 2:
        content[at:at] = rng.randbytes(rng.randrange(1, 40))
    elif kind == 3:
        del content[at : at + rng.randrange(1, 40)]
    elif kind == 4:
        content[at : at + 8] = struct.pack("<Q", rng.choice([0, 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1]))
    else:
        content[: min(at, 64)] = rng.randbytes(min(at, 64))
    return bytes(content)


def mutated_json(rng, value):
    """One random part of a JSON value replaced by something that does not belong there."""
    odd = [None, -1, 0, 1e308, "", "x" * 10_000, [], {}, True, 10**30, "../../etc/passwd", "os:abort", 3.5, [[]] * 5,
           "inf", "nan", -(2**63)]  # fmt: skip
    if isinstance(value, dict) and value and rng.random() < 0.85:
        key = rng.choice(sorted(value))
        new = dict(value)
        if rng.random() < 0.1:
            del new[key]
        else:
            new[key] = mutated_json(rng, value[key])
        return new
    if isinstance(value, list) and value and rng.random() < 0.5:
        new = list(value)
        new[rng.randrange(len(new))] = mutated_json(rng, new[0])
        return new
    return rng.choice(odd)


def mutated_arrays(rng, path):
    """One array of a safetensors file with another shape, dtype or content."""
    arrays = safetensors.numpy.load_file(path)
    name = rng.choice(sorted(arrays))
    array = arrays[name]
    kind = rng.randrange(6)
    if kind == 0:
        del arrays[name]
    elif kind == 1:
        arrays[name] = np.concatenate((array, array)) if array.ndim else array
    elif kind == 2:
        arrays[name] = array.astype(rng.choice([np.float64, np.int8, np.int64, np.float32]))
    elif kind == 3:
        arrays[name] = array.reshape(-1)
    elif kind == 4 and array.size:
        flat = array.reshape(-1).copy()
        odd = [2**62, -(2**62)] if array.dtype.kind == "i" else [np.nan, np.inf] if array.dtype.kind == "f" else [True]
        flat[rng.randrange(flat.size)] = rng.choice(odd)
        arrays[name] = flat.reshape(array.shape)
    else:
        arrays[f"extra.{name}"] = array
    safetensors.numpy.save_file({key: np.ascontiguousarray(a) for key, a in arrays.items()}, path)


def attack(rng, where):
    """One mutation of a real checkpoint; mostly with hashes that are right, for otherwise they end it at once."""
    name = rng.choice([*FILES, checkpoint.STATE, checkpoint.STATE])
    path = where / name
    if name == checkpoint.STATE and rng.random() < 0.8:
        state = mutated_json(rng, json.loads(path.read_text()))
        if isinstance(state, dict):
            state["sha256"] = checkpoint.digest(state)
        path.write_text(json.dumps(state))
        return
    if name.endswith(".safetensors") and rng.random() < 0.5:
        mutated_arrays(rng, path)
    else:
        path.write_bytes(mutated_bytes(rng, path.read_bytes()))
    if rng.random() < 0.8 and name != checkpoint.STATE:
        rehash(where)


@pytest.mark.parametrize("count", [250, pytest.param(10_000, marks=pytest.mark.slow)])
def test_ten_thousand_mutations(count, original, contents, tmp_path, capsys):
    """Some change what is only a number (a count of steps, a parameter): those load, to exactly what the file says."""
    loaded, lines = 0, []
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(count):
        rng = random.Random(seed)
        where = tmp_path / "mutant"
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(original, where)
        attack(rng, where)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                training = opening.resume(where)
            except AcerError as error:
                lines.append(str(error))
                continue
        training.learner.replay.sample(np.random.default_rng(0), 8)
        training.close()
        loaded += 1
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / before
    assert len(lines) > count / 2 and loaded < count / 3
    assert not any("\n" in line or len(line) > 12_000 for line in lines)
    assert grown < 2
    capsys.readouterr()


def test_the_original_loads_identically(original, contents):
    assert what(opening.resume(original)) == contents


# ------------------------------------------------------------------ hand-made attacks


@pytest.fixture
def copy(original, tmp_path):
    shutil.copytree(original, tmp_path / "copy")
    return tmp_path / "copy"


def refused(where, match):
    with pytest.raises(AcerError, match=match) as error:
        opening.resume(where)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [checkpoint.MODEL, checkpoint.RUN])
def test_a_header_that_claims_ten_terabytes(name, copy):
    header = json.dumps({"theta": {"dtype": "F32", "shape": [2_500_000_000_000], "data_offsets": [0, 10**13]}}).encode()
    (copy / name).write_bytes(struct.pack("<Q", len(header)) + header + b"\0" * 64)
    rehash(copy)
    refused(copy, "cannot be read")
    (copy / name).write_bytes(struct.pack("<Q", 2**60) + header)
    rehash(copy)
    refused(copy, "cannot be read")


def test_a_network_larger_than_its_file_takes_no_memory(copy):
    state = read_state(copy)
    state["config"]["hidden"] = [1_000_000, 1_000_000]
    rewrite_state(copy, state)
    refused(copy, "the network needs|not of this network|is missing")


def test_a_replay_block_that_is_a_bomb(copy):
    arrays = safetensors.numpy.load_file(copy / checkpoint.REPLAY)
    blocks = (copy / checkpoint.BLOCKS).read_bytes()
    bomb = lz4.block.compress(b"\0" * (1 << 28), store_size=False)  # a megabyte that wants to be 256
    sizes = arrays["block_sizes"].copy()
    first, sizes[0] = int(sizes[0]), len(bomb)
    safetensors.numpy.save_file(arrays | {"block_sizes": sizes}, copy / checkpoint.REPLAY)
    (copy / checkpoint.BLOCKS).write_bytes(bomb + blocks[first:])
    rehash(copy)
    refused(copy, "block 0 is damaged")


def test_paths_in_names_lead_nowhere(copy, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("x")
    state = read_state(copy)
    state["files"]["../secret"] = {"bytes": 1, "sha256": hashlib.sha256(b"x").hexdigest()}
    rewrite_state(copy, state)
    refused(copy, "does not say which files")
    run = tmp_path / "run"
    shutil.copytree(copy, run / "checkpoints" / "000000000001")
    (run / "checkpoints" / "LATEST").write_text("../../copy\n")
    refused(run, "no usable checkpoint")


def test_a_link_is_not_followed(copy, tmp_path):
    (copy / checkpoint.BLOCKS).rename(tmp_path / "elsewhere")
    (copy / checkpoint.BLOCKS).symlink_to(tmp_path / "elsewhere")
    refused(copy, "is missing")


def test_json_as_deep_as_the_sea_or_as_large(copy):
    (copy / checkpoint.STATE).write_text("[" * 200_000)
    refused(copy, "cannot be read")
    with (copy / checkpoint.STATE).open("wb") as file:
        file.truncate(files.LARGEST_TEXT + 1)
    refused(copy, "larger than any such file")


def test_pickles_are_not_opened(copy, tmp_path):
    import pickle

    class Harm:
        def __reduce__(self):
            return open, (str(tmp_path / "harmed"), "w")

    for name in FILES:
        (copy / name).write_bytes(pickle.dumps(Harm()))
    rehash(copy)
    refused(copy, "cannot be read")
    assert not (tmp_path / "harmed").exists()


def test_an_environment_that_a_file_names_is_not_imported(copy, tmp_path, monkeypatch):
    (tmp_path / "harm.py").write_text("raise SystemExit('imported')")
    monkeypatch.chdir(tmp_path)
    for name in ("harm:Env", "os:abort", "harm:CartPole-v1"):
        state = read_state(copy)
        state["config"]["env"] = name
        rewrite_state(copy, state)
        refused(copy, "code of your own")
