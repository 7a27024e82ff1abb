"""Parameters after short runs, as hashes: what a change of structure must leave as it is, bit for bit.

    python tests/bits.py    prints the hashes of the imported code and adds them to tests/fixtures/bits.json

Rounding depends on the processor's vector instructions and on PyTorch's build, so hashes are kept by kind of machine.
"""

import hashlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "fixtures" / "bits.json"

PONG = {"steps": 20_000, "replay_start": 5_000, "replay_ratio": 1.0, "precision": "float32"}
RUNS: dict[str, dict[str, Any]] = {
    "CartPole-v1": {"steps": 20_000},
    "Pendulum-v1": {"steps": 20_000},
    "cheetah": {"steps": 20_000, "environments": 8},
    "pong": PONG | {"reuse": "never"},
    "pong, distinct patches": PONG | {"reuse": "always"},
}
"""Of each run, named by its environment, the settings beyond the preset's."""


def machine() -> str:
    """What rounding depends on."""
    import torch

    with open("/proc/cpuinfo") as file:
        lines = dict(line.split(":", 1) for line in file.read().split("\n\n")[0].splitlines())
    cpu = {key.strip(): value.strip() for key, value in lines.items()}
    model = " ".join(cpu.get(key, "?") for key in ("vendor_id", "cpu family", "model"))
    return f"{platform.machine()} {model} {torch.backends.cpu.get_cpu_capability()} torch {torch.__version__}"


def parameters(name: str, steps: int, **settings: Any) -> str:
    """The hash of θ, θ_a and the optimiser's statistics after a run."""
    env = name.split(",")[0]
    import safetensors.numpy

    from acer import ACER

    model = ACER(env, threads=1, seed=0, steps=steps, eval_episodes=1, eval_limit=10, **settings).learn()
    with tempfile.TemporaryDirectory() as directory:
        model.save(Path(directory) / "model")
        tensors = safetensors.numpy.load_file(Path(directory) / "model" / "model.safetensors")
    model.close()
    digest = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        digest.update(name.encode())
        digest.update(tensor.tobytes())
    return digest.hexdigest()


def main(names: list[str]) -> None:
    known = json.loads(FILE.read_text()) if FILE.exists() else {}
    here = known.setdefault(machine(), {})
    for name in names or RUNS:
        here[name] = parameters(name, **RUNS[name])
        print(name, here[name], flush=True)
        FILE.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
