"""What is installed: the package as it is built, what it asks for, and what it loads only when that is used."""

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
TOOLS = {"dev", "docs", "box2d", "export", "wandb", "mlflow"}  # extras not tried in their oldest versions


def asked(without: set[str]) -> list[str]:
    """Requirements of the package and its extras but for those."""
    extras = [line for extra, lines in EXTRAS.items() if extra not in without for line in lines]
    return [line for line in (*PROJECT["dependencies"], *extras) if not line.startswith("acer-rl[")]


def name_of(requirement: str) -> str:
    return re.split(r"[\s\[<>=!;~]", requirement)[0].lower().replace("_", "-")


def pinned(file: str) -> dict[str, str]:
    """Versions of the packages in a file of requirements."""
    lines = (ROOT / file).read_text().splitlines()
    found = [re.match(r"([A-Za-z][\w.-]*)==([\w.]+)", line) for line in lines]
    return {name_of(one[1]): one[2] for one in found if one}


def ran(*command: object, **options) -> str:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ------------------------------------------------------------------ what it asks for


def test_nothing_is_pinned_to_one_version_and_everything_has_a_least_one():
    for requirement in asked(set()):
        assert "==" not in requirement and (">=" in requirement or "[" in requirement), requirement


@pytest.mark.parametrize("file", ["constraints.txt", "lock.txt", "constraints-oldest.txt"])
def test_every_package_that_is_asked_for_has_its_version(file):
    wanted = map(name_of, asked(TOOLS if file == "constraints-oldest.txt" else set()))
    missing = set(wanted) - pinned(file).keys()
    assert not missing, f"{file} lacks them; after a change of constraints.txt run `make lock`"


def test_the_oldest_versions_that_are_tested_are_the_least_ones_that_are_asked_for():
    oldest = pinned("constraints-oldest.txt")
    for requirement in asked(TOOLS):
        least = re.search(r">=([\w.]+)", requirement)
        if least:
            assert re.fullmatch(rf"{re.escape(least[1])}(\.0)*", oldest[name_of(requirement)]), requirement


def test_the_lock_has_the_versions_of_the_constraints_and_a_hash_of_each():
    lock, versions = pinned("lock.txt"), pinned("constraints.txt")
    build = pinned("lock.txt").get("setuptools")
    assert f'"setuptools=={build}"' in (ROOT / "pyproject.toml").read_text()
    assert {name: version for name, version in lock.items() if name != "setuptools"} == versions, "run `make lock`"
    for file in ("lock.txt", "lock-cpu.txt", "lock-cuda.txt"):
        for package in re.split(r"\n(?=\w)", (ROOT / file).read_text())[1:]:
            assert "--hash=sha256:" in package, package


def test_labmaze_is_not_asked_for_where_it_has_no_wheel():
    """dm_control asks for it; of that, Python 3.13 and newer have the models alone."""
    asking = [line for line in EXTRAS["control"] if name_of(line) in ("dm-control", "labmaze")]
    locked = [line for line in (ROOT / "lock.txt").read_text().splitlines() if line.startswith("labmaze==")]
    for line in (*asking, *locked):
        assert re.search(r"; python_(full_)?version < '3\.13'", line), line
    assert len(asking) == len(locked) == 1


# ------------------------------------------------------------------ what is loaded when


UNUSED = ["tensorboard", "torch.utils.tensorboard", "matplotlib", "imageio_ffmpeg", "ray", "mujoco", "ale_py",
          "onnx", "onnxruntime", "onnxscript", "wandb", "mlflow"]  # fmt: skip
WITHOUT = "import sys; sys.modules.update(dict.fromkeys({!r})); "


@pytest.mark.parametrize(
    "code",
    [
        "import acer",
        "from acer import ACER; m = ACER('CartPole-v1', hidden=(8,), eval_episodes=1).learn(320); m.predict([0.0] * 4);"
        "m.save('model'); ACER.load('model').evaluate(1)",
        "sys.argv = ['acer', '--help']; from acer.cli import main; main()",
        "sys.argv = ['acer', 'train', 'CartPole-v1', '--help']; from acer.cli import main; main()",
        "sys.argv = ['acer', 'envs']; from acer.cli import main; main()",
    ],
    ids=["import", "train without files", "help", "help of train", "envs"],
)
def test_what_only_a_command_needs_is_loaded_when_it_is_used(code, tmp_path):
    ran(sys.executable, "-c", WITHOUT.format(UNUSED) + code, cwd=tmp_path)


# ------------------------------------------------------------------ what is built


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The source archive, and the wheel that is built from it."""
    pytest.importorskip("build", reason="the package `build` is not installed")
    tree = tmp_path_factory.mktemp("tree")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    ran(sys.executable, "-m", "build", "--no-isolation", "--outdir", tree / "dist", tree)
    (source,), (wheel,) = (list((tree / "dist").glob(ending)) for ending in ("*.tar.gz", "*.whl"))
    return source, wheel


def test_archives_hold_the_whole_package_and_nothing_else(built):
    source, wheel = built
    files = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "acer").rglob("*") if path.is_file()}
    files = {name for name in files if "__pycache__" not in name}
    assert {"acer/py.typed", "acer/envs/data/reacher3.xml", "acer/report/page.html"} <= files
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if ".dist-info/" not in name} == files
    with tarfile.open(source) as archive:
        assert files <= {name.partition("/src/")[2] for name in archive.getnames()}
    assert wheel.name.startswith("acer_rl-") and wheel.name.endswith("-py3-none-any.whl")


OUTSIDE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # where there is no source


@pytest.fixture(scope="module")
def python(built, tmp_path_factory):
    """A fresh environment's Python with the wheel, and this one's packages behind it."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home)
    python = home / "bin" / "python"
    here = ["--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    ran(sys.executable, "-m", "pip", "--python", python, "install", *here, built[1], env=OUTSIDE)
    paths = {"platbase": str(home), "base": str(home)}
    behind = Path(sysconfig.get_path("purelib", vars=paths)) / "behind.pth"
    behind.write_text(sysconfig.get_path("purelib") + "\n")
    return python


def test_the_wheel_trains_evaluates_and_reports_in_a_fresh_environment(python, tmp_path):
    acer = python.parent / "acer"
    where = ran(python, "-c", "import acer; print(acer.__file__)", cwd=tmp_path, env=OUTSIDE).strip()
    assert Path(where).is_relative_to(python.parent.parent)
    ran(acer, "train", "CartPole-v1", "--steps", 320, "--eval-episodes", 1, "--out", "run", cwd=tmp_path, env=OUTSIDE)
    assert '"episodes": 2' in ran(acer, "eval", "run", "--episodes", 2, "--json", cwd=tmp_path, env=OUTSIDE)
    ran(acer, "report", "run", "--output", "report.html", cwd=tmp_path, env=OUTSIDE)
    assert (tmp_path / "report.html").stat().st_size > 10_000


def test_the_wheel_works_beside_stable_baselines(python, tmp_path):
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed")
    code = """
import gymnasium as gym
from stable_baselines3 import A2C
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor
from acer import ACER
env = Monitor(gym.make("CartPole-v1"))
other = A2C("MlpPolicy", env, device="cpu", n_steps=5).learn(20)
for model in (other, ACER("CartPole-v1", hidden=(8,), eval_episodes=1).learn(320)):
    assert evaluate_policy(model, env, n_eval_episodes=2)[0] > 0
"""
    ran(python, "-c", code, cwd=tmp_path, env=OUTSIDE)


def test_the_distribution_is_not_the_other_project_of_that_name():
    assert importlib.metadata.metadata("acer-rl")["Name"] == PROJECT["name"] == "acer-rl"
