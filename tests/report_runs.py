"""Runs to report on."""

import csv
import json

import imageio_ffmpeg
import numpy as np
from PIL import Image

from acer.learner.metrics import PROGRESS
from acer.report import content, gather
from acer.run.logs import EVALUATIONS

HOSTILE = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"


def rows(count=40, end=60_000, level=1.0, seed=0):
    """A curve that rises, with some noise, and diagnostics beside it."""
    noise = np.random.default_rng(seed)
    for i in range(count):
        share = (i + 1) / count
        row = dict.fromkeys(PROGRESS, 0.0)
        row |= {"steps": int(end * share), "seconds": 30.5 * share, "episodes": i}
        row |= {"return_mean": 500 * level * share + noise.normal(0, 8) if i > 1 else ""}
        row |= {"entropy": 0.69 - 0.4 * share, "kl": 0.1 * share, "trust_region_active": abs(noise.normal(0, 0.02))}
        row |= {"explained_variance": -300.0 if i == 0 else share, "trace": 1 - 0.3 * share, "rho_above_c": 0.004}
        yield row


def write_table(file, columns, table):
    with file.open("w", newline="") as text:
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(table)


def write_rows(file, **options):
    write_table(file, PROGRESS, rows(**options))


def write_run(directory, env="CartPole-v1", algo="acer", seed=0, settings=None, **options):
    directory.mkdir(parents=True)
    config = {"env": env, "algo": algo, "seed": seed, "learning_rate": 0.0007, "hidden": [64, 64], "workers": False}
    (directory / "config.json").write_text(json.dumps(config | (settings or {})))
    write_rows(directory / "progress.csv", seed=seed, **options)
    evaluation = {"steps": 60_000, "seconds": 31.0, "episodes": 20, "return_mean": 480.0 + seed, "return_std": 3.0,
                  "return_min": 470.0, "return_max": 500.0, "length_mean": 480.0, "policy": "mode"}  # fmt: skip
    write_table(directory / "eval.csv", EVALUATIONS, [evaluation])
    return directory


def write_picture(file, width=240):
    Image.new("RGB", (width, 60), (40, 120, 200)).save(file)


def write_film(file):
    writer = imageio_ffmpeg.write_frames(str(file), (64, 64), fps=8, codec="libx264", macro_block_size=1)
    writer.send(None)
    for shade in range(8):
        writer.send(np.full((64, 64, 3), 25 * shade, np.uint8))
    writer.close()


def made(*directories, title="A title"):
    return content.content(gather.gather(directories), title)
