"""Writes lock*.txt anew: the packages of constraints.txt with the hashes of all their files.

`make lock` calls it after a change of pyproject.toml or constraints.txt. uv resolves for Python 3.11 to 3.13 and every
system at once.
"""

import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
# PyTorch's builds without CUDA have an index of their own, which uv is not asked to read, and a file of their own here:
# beside hashes of the other builds pip would pass over one that it finds in a folder, for that tells no hash.
CPU_BUILDS = [
    "torch==2.13.0+cpu --hash=sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b"  # cp311, x86-64
]
CUDA = re.compile(r"(nvidia|cuda|triton)\b")  # what only PyTorch's CUDA builds need: gigabytes
# The suite's models are wanted on every Python. dm_control asks for labmaze, which they do not need and which has no
# wheel for Python 3.13; Box2D has none for 3.14. The lock is installed without asking for more.
BESIDES = ["dm_control"]
OVERRIDES = ["labmaze; python_version < '3.13'", "box2d-py; python_version < '3.11'", "swig; python_version < '3.11'"]
HEADER = """\
# Made by `make lock` from constraints.txt: {what}
# pip install --require-hashes --no-deps -r {name}
"""


def resolved() -> list[str]:
    """Each package's lines: its version, its marker, its hashes."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as overrides:
        overrides.write("\n".join(OVERRIDES))
        overrides.flush()
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "-", "--extra", "dev"]
        command += ["--constraint", "constraints.txt", "--override", overrides.name]
        command += ["--universal", "--python-version", "3.11.5", "--generate-hashes", "--no-annotate", "--no-header"]
        more = "\n".join([*BESIDES, *project["build-system"]["requires"]])
        text = subprocess.run(
            [*command, "--quiet"], cwd=ROOT, input=more, text=True, stdout=subprocess.PIPE, check=True
        ).stdout
    return re.split(r"\n(?=\S)", text.strip())


def main() -> None:
    packages = resolved()
    for name, what, those in (
        ("lock.txt", "what `make` installs.", [package for package in packages if not CUDA.match(package)]),
        ("lock-cpu.txt", "PyTorch without CUDA, for those whose pip finds it.", CPU_BUILDS),
        ("lock-cuda.txt", "what PyTorch's CUDA builds need beside lock.txt.", list(filter(CUDA.match, packages))),
    ):
        (ROOT / name).write_text(HEADER.format(what=what, name=name) + "\n".join(those) + "\n")


if __name__ == "__main__":
    main()
