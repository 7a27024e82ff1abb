"""Trains the `atari` preset on games, one after the other, and plays each result: the evidence under results/atari/.

    python benchmarks/atari_learning.py                 every game below
    python benchmarks/atari_learning.py pong            only this one
    python benchmarks/atari_learning.py --collect       writes results/atari/ from the runs as they stand

Each run is `acer train GAME --steps N`, then `acer eval RUN --episodes 30 --sampled --seed 1000` and `acer record RUN
--sampled --output GAME.png`. Runs live in runs/atari/ and go on where they stopped: hours each on two cores.
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from acer.logs import column_pairs
from table import write

GAMES = {"pong": 3_000_000, "breakout": 2_000_000, "qbert": 2_000_000}
RUNS, RESULTS = Path("runs/atari"), Path("results/atari")
ACER = [sys.executable, "-m", "acer"]


def run(game: str, steps: int) -> None:
    out = RUNS / game
    if (out / "config.json").exists():
        subprocess.run([*ACER, "resume", str(out), "--quiet"], check=True)
    else:
        subprocess.run([*ACER, "train", game, "--steps", str(steps), "--out", str(out), "--quiet"], check=True)


def play(game: str) -> None:
    """Evaluates the run as it stands."""
    out = RUNS / game
    command = [*ACER, "eval", str(out), "--episodes", "30", "--sampled", "--seed", "1000", "--json"]
    (out / "eval.json").write_text(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    RESULTS.mkdir(parents=True, exist_ok=True)
    subprocess.run([*ACER, "record", str(out), "--sampled", "--output", str(RESULTS / f"{game}.png")], check=True)


def collect() -> None:
    """Writes curves, CSV files and the table of every run that has begun."""
    with (RESULTS / "anchors.csv").open(newline="") as file:
        anchors = [row for row in csv.DictReader(file) if row["steps"]]
    begun = [game for game in GAMES if (RUNS / game / "progress.csv").exists()]
    if not begun:
        sys.exit(f"no run has begun in {RUNS}")
    figure, panels = plt.subplots(1, len(begun), figsize=(4.6 * len(begun), 3.8), layout="constrained", squeeze=False)
    rows = []
    for game, panel in zip(begun, panels[0], strict=True):
        out = RUNS / game
        progress = column_pairs(out / "progress.csv", "steps")
        panel.plot(*zip(*progress, strict=True), linewidth=1.5, label="acer, this package")
        for agent, marker in (("acer", "o"), ("ppo2", "s"), ("dqn", "^"), ("a2c", "d")):
            points = [(float(a["steps"]), float(a["return"])) for a in anchors
                      if a["game"] == game and a["agent"] == agent and float(a["steps"]) <= 5e6]  # fmt: skip
            if points:
                panel.plot(
                    *zip(*points, strict=True), marker, markersize=5, alpha=0.7, label=f"{agent}, OpenAI Baselines"
                )
        panel.set_title(game, fontsize=10)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=7)
        (RESULTS / f"{game}.csv").write_bytes((out / "progress.csv").read_bytes())
        (RESULTS / f"{game}.json").write_bytes((out / "config.json").read_bytes())
        if (out / "eval.json").exists():
            result = json.loads((out / "eval.json").read_text())
            seconds = column_pairs(out / "progress.csv", "seconds")[-1][0]
            numbers = [round(result[key], 1) for key in ("mean", "std")]
            rows.append([game, int(progress[-1][0]), round(seconds), result["episodes"], *numbers])
    figure.supxlabel("agent steps (four frames each)", fontsize=9)
    figure.supylabel("score while training, last 100 games", fontsize=9)
    figure.savefig(RESULTS / "learning.png", dpi=130)
    write(RESULTS / "learning.csv", ["game", "steps", "seconds", "eval_episodes", "eval_mean", "eval_std"], rows)
    for row in rows:
        print(*row, sep="\t")


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(GAMES)
    if "--collect" not in sys.argv:
        for game in names:
            run(game, GAMES[game])
            play(game)
    collect()


if __name__ == "__main__":
    main()
