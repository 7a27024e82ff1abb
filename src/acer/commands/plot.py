"""Draw the learning curves of one or several runs."""

import argparse
from pathlib import Path

from acer.commands.flags import Parser, choice
from acer.errors import SettingsError


def add_arguments(parser: Parser) -> None:
    parser.flag("directories", type=Path, nargs="*", help="directories of runs")
    parser.flag(
        "--output",
        type=Path,
        default=Path("curve.png"),
        metavar="FILE",
        help="picture to write, PNG, SVG or PDF, by its ending [curve.png]",
    )
    parser.flag(
        "--x",
        type=choice("x", ("steps", "seconds")),
        default="steps",
        metavar="{steps,seconds}",
        help="what to draw the return against [steps]",
    )


def run(args: argparse.Namespace) -> int:
    from acer.run.plots import curves

    if not args.directories:
        raise SettingsError("name at least one run, for example: acer plot runs/CartPole-v1-acer-0")
    curves(args.directories, args.output, args.x)
    print(args.output)
    return 0
