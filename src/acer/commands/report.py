"""Write one HTML page about runs or whole experiments, to look at in a browser."""

import argparse
from pathlib import Path

from acer.commands.flags import Parser
from acer.console import warn
from acer.errors import SettingsError


def add_arguments(parser: Parser) -> None:
    parser.flag(
        "directories",
        type=Path,
        nargs="*",
        help="directories of runs, or directories that hold runs at any depth",
    )
    parser.flag(
        "--output",
        type=Path,
        default=Path("report.html"),
        metavar="FILE",
        help="page to write; everything is inside it, it needs no network [report.html]",
    )
    parser.flag("--title", help="title of the page; by default the directories' names")


def run(args: argparse.Namespace) -> int:
    from acer.report import write

    if not args.directories:
        raise SettingsError("name at least one directory with runs, for example: acer report runs")
    shown = write(tuple(args.directories), args.output, args.title)
    runs, environments = len(shown["runs"]), len(shown["environments"])
    for note in shown["notes"]:
        warn(note)
    print(f"{args.output}: {runs} run{'s' * (runs != 1)} on {environments} environment{'s' * (environments != 1)}")
    return 0
