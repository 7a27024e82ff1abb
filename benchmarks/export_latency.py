"""Exported policies beside `predict`: the same actions, and how long one takes; results/library/export.csv.

    python benchmarks/export_latency.py

Trains a little, then plays 1,000 observations with sampled actions. Every one of them goes through `predict`, through
onnxruntime and through PyTorch's exported program. Latencies are medians over rounds in which the three take turns, one
thread each; a batch's is of all its observations together. What is in the file is not measured again.
"""

import csv
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
import torch

from acer import ACER
from acer.learner.actor_learner import environments
from table import write

FILE = Path("results/library/export.csv")
MODELS: list[tuple[str, dict[str, Any], int]] = [
    ("CartPole-v1", {}, 20_000),
    ("Pendulum-v1", {}, 10_000),
    ("fish", {}, 10_000),
    ("pong", {"precision": "float32"}, 1_500),
    ("pong", {"precision": "bfloat16"}, 1_500),
]
OBSERVATIONS, ROUNDS = 1_000, 200
COLUMNS = ["env", "precision", "way", "observations", "same_actions", "largest_difference_of_actions",
           "largest_difference_of_statistics", "microseconds_of_one", "microseconds_of_16"]  # fmt: skip


def played(model: ACER) -> np.ndarray[Any, Any]:
    """Raw observations of ten episodes side by side."""
    batch = environments(model.config, model.config.env, 10)
    space, rng = batch.observation.space, np.random.default_rng(0)
    x, seen = batch.reset(list(range(10))), []
    while len(seen) < OBSERVATIONS // 10:
        seen.append(x.reshape(10, *space.shape).astype(space.dtype))
        x = batch.step(model.agent.act(x, model.agent.distribution.noise(rng, (10,)))[0]).observations
    batch.close()
    return np.concatenate(seen)


def ways(model: ACER, folder: Path) -> dict[str, Any]:
    """Each takes raw observations and gives actions and φ."""
    model.export(folder / "policy.onnx")
    model.export(folder / "policy.pt2", "torch")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(folder / "policy.onnx", options, ["CPUExecutionProvider"])
    module = torch.export.load(folder / "policy.pt2").module()

    def predict(x: Any) -> Any:
        return model.predict(x, deterministic=True)[0], None

    def exported(x: Any) -> Any:
        with torch.inference_mode():
            return [tensor.numpy() for tensor in module(torch.from_numpy(x))]

    return {
        "predict": predict,
        "onnxruntime": lambda x: session.run(None, {"observation": x}),
        "torch.export": exported,
    }


def latencies(functions: dict[str, Any], x: np.ndarray[Any, Any]) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            began = time.perf_counter()
            function(x)
            times[name].append(time.perf_counter() - began)
    return {name: round(1e6 * median(of), 1) for name, of in times.items()}


def main() -> None:
    rows: list[list[Any]] = []
    if FILE.exists():
        with FILE.open(newline="") as file:
            rows = list(csv.reader(file))[1:]
    known = {(row[0], row[1]) for row in rows}
    for env, settings, steps in MODELS:
        if (env, settings.get("precision", "float32")) in known:
            continue
        model = ACER(env, eval_episodes=1, eval_limit=50, **settings).learn(steps)
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as folder:
            functions, x = ways(model, Path(folder)), played(model)
            one, many = latencies(functions, x[:1]), latencies(functions, x[:16])
            expected, _ = functions["predict"](x)
            _, statistics = model.agent.act(model.agent.observation.encode(x, len(x)), None)
            for name, function in functions.items():
                actions, phi = function(x)
                close = np.isclose(actions, expected, 1e-5, 1e-5).reshape(len(x), -1).all(1)
                far = float(np.abs(actions - expected).max()) if model.agent.action.continuous else ""
                apart = "" if phi is None else float(np.abs(phi - statistics).max())
                rows.append([env, model.config.precision, name, len(x), int(close.sum()), far, apart, one[name],
                             many[name]])  # fmt: skip
                print(*rows[-1], sep="\t", flush=True)
        model.close()
        write(FILE, COLUMNS, rows)


if __name__ == "__main__":
    main()
