"""Trains the `atari` preset on games, as many at once as there are cores, and plays each result: results/atari/.

    python benchmarks/atari_learning.py                 every game below
    python benchmarks/atari_learning.py pong            only this one
    python benchmarks/atari_learning.py --collect       writes results/atari/ from the runs as they stand

Each run is `acer train GAME --steps N --threads 1`, then `acer eval RUN --episodes 30 --seed 1000` and `acer
record RUN --output GAME.png`. Runs live in runs/atari/ and go on where they stopped: hours each. What
results/atari/ holds of games that are not there stays.
"""

import csv
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from acer.machine import cores
from acer.run.tables import column_pairs
from runs import COMMAND, steps_of, train
from table import write

GAMES = {"pong": 2_000_000, "breakout": 2_000_000, "qbert": 2_000_000}
RUNS, RESULTS = Path("runs/atari"), Path("results/atari")
TABLE = RESULTS / "learning.csv"


def run(game: str) -> None:
    if steps_of(RUNS / game) < GAMES[game]:
        (RUNS / game / "eval.json").unlink(missing_ok=True)  # of the run before it goes on
    train(RUNS / game, game, GAMES[game], "--threads", "1")
    play(game)


def play(game: str) -> None:
    """Evaluates the run as it stands."""
    out = RUNS / game
    command = [*COMMAND, "eval", str(out), "--episodes", "30", "--policy", "sampled", "--seed", "1000", "--json"]
    (out / "eval.json").write_text(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
    RESULTS.mkdir(parents=True, exist_ok=True)
    strip = ["--policy", "sampled", "--output", str(RESULTS / f"{game}.png")]
    subprocess.run([*COMMAND, "record", str(out), *strip], check=True)


def collect() -> None:
    """Writes curves and table of every game, with the CSV files of the runs that have begun."""
    for game in GAMES:
        for theirs, ours in (("progress.csv", f"{game}.csv"), ("config.json", f"{game}.json")):
            if (RUNS / game / "progress.csv").exists():
                (RESULTS / ours).write_bytes((RUNS / game / theirs).read_bytes())
    with (RESULTS / "anchors.csv").open(newline="") as file:
        anchors = [row for row in csv.DictReader(file) if row["steps"]]
    rows = {}
    if TABLE.exists():
        with TABLE.open(newline="") as file:
            rows = {row[0]: row for row in list(csv.reader(file))[1:]}
    begun = [game for game in GAMES if (RESULTS / f"{game}.csv").exists()]
    if not begun:
        sys.exit("no game has been trained yet: leave out --collect")
    figure, panels = plt.subplots(1, len(begun), figsize=(4.6 * len(begun), 3.8), layout="constrained", squeeze=False)
    for game, panel in zip(begun, panels[0], strict=True):
        evaluation = RUNS / game / "eval.json"
        progress = column_pairs(RESULTS / f"{game}.csv", "steps")
        panel.plot(*zip(*progress, strict=True), linewidth=1.5, label="acer, this package")
        for agent, marker in (("acer", "o"), ("ppo2", "s"), ("dqn", "^"), ("a2c", "d")):
            points = [(float(a["steps"]), float(a["return"])) for a in anchors
                      if a["game"] == game and a["agent"] == agent]  # fmt: skip
            if points:
                panel.plot(
                    *zip(*points, strict=True), marker, markersize=5, alpha=0.7, label=f"{agent}, OpenAI Baselines"
                )
        panel.set_title(game, fontsize=10)
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=7)
        if evaluation.exists():
            result = json.loads(evaluation.read_text())
            seconds = column_pairs(RESULTS / f"{game}.csv", "seconds")[-1][0]
            numbers = [round(result[key], 1) for key in ("mean", "std")]
            rows[game] = [game, int(progress[-1][0]), round(seconds), result["episodes"], *numbers]
        elif (RUNS / game).exists():  # the row is of a run whose curve this one's has replaced
            rows.pop(game, None)
    figure.supxlabel("agent steps (four frames each)", fontsize=9)
    figure.supylabel("score while training, last 100 games", fontsize=9)
    figure.savefig(RESULTS / "learning.png", dpi=130)
    plt.close(figure)
    write(TABLE, ["game", "steps", "seconds", "eval_episodes", "eval_mean", "eval_std"], list(rows.values()))
    for row in rows.values():
        print(*row, sep="\t", flush=True)


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.startswith("-")] or list(GAMES)
    if "--collect" in sys.argv:
        collect()
        return
    with ThreadPoolExecutor(cores()) as pool:
        for done in as_completed([pool.submit(run, game) for game in names]):
            done.result()
            collect()


if __name__ == "__main__":
    main()
