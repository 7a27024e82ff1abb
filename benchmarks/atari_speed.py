"""Speed on four games, with and without reuse of patches: results/bench/atari-GAME.json, atari.csv and atari.png

    python benchmarks/atari_speed.py

Runs `acer bench atari --game GAME --output results/bench/atari-GAME.json` for each game whose file is not there yet, so
that a run that was stopped goes on with the game it was at. Further arguments (--turns 1, --no-peers) are handed on.
Leave the machine to it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from table import write

GAMES = {"pong": ["--processes", "2"], "breakout": ["--processes", "2"], "seaquest": ["--processes", "2", "--no-peers"],
         "beam_rider": ["--processes", "2", "--no-peers"]}  # fmt: skip
RESULTS = Path("results/bench")
COLUMNS = ["game", "distinct", "precision", "processes", "steps_per_second", "dense_steps_per_second", "times_dense",
           "times_pfrl", "dense_times_pfrl", "roofline_fraction"]  # fmt: skip


def rows(result: dict[str, Any]) -> list[list[Any]]:
    """One row for each precision and number of processes."""
    found = []
    for processes, of in ((1, "by_precision"), (result["shared_actors"], "shared")):
        for precision, one in result[of].items():
            speeds = [one["steps_per_second"], one["dense"]["steps_per_second"]]
            ratios = [one["times_dense"], *(o["times_the_peers"].get("pfrl") for o in (one, one["dense"])),
                      one["roofline_fraction"]]  # fmt: skip
            numbers = [round(result["distinct"], 3), precision, processes, *(round(speed, 1) for speed in speeds)]
            found.append([result["game"], *numbers, *(ratio and round(ratio, 3) for ratio in ratios)])
    return found


def draw(table: list[list[Any]], file: Path) -> None:
    """Bars in steps per second: each game's most processes, in each precision."""
    most = max(row[3] for row in table)
    shown = [row for row in table if row[3] == most]
    figure, axes = plt.subplots(figsize=(7, 3.2), layout="constrained")
    places = range(len(shown))
    axes.bar([place - 0.2 for place in places], [row[5] for row in shown], 0.38, label="every patch", color="#b0b7c3")
    axes.bar(
        [place + 0.2 for place in places], [row[4] for row in shown], 0.38, label="distinct patches", color="#2a6fbb"
    )
    axes.set_xticks(list(places), [f"{row[0]}\n{row[2]}" for row in shown])
    axes.set_ylabel(f"steps per second, {most} processes")
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150)


def main() -> None:
    table = []
    for game in GAMES:
        file = RESULTS / f"atari-{game}.json"
        if not file.exists():
            unfinished = file.with_suffix(".part")
            command = [sys.executable, "-m", "acer", "bench", "atari", "--game", game, "--output", str(unfinished)]
            subprocess.run([*command, *GAMES[game], *sys.argv[1:]], check=True)
            unfinished.rename(file)
        table += rows(json.loads(file.read_text()))
    write(RESULTS / "atari.csv", COLUMNS, table)
    draw(table, RESULTS / "atari.png")


if __name__ == "__main__":
    main()
