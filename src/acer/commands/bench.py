"""Measure speed beside peers and beside the bare cost of the same work."""

import argparse
import json
from pathlib import Path
from typing import Any

from acer.commands.common import check_least, whole_flag
from acer.commands.flags import Parser, choice
from acer.console import say
from acer.errors import SettingsError

NAMES = ("classic", "atari", "control")


def add_arguments(parser: Parser) -> None:
    parser.flag(
        "name",
        type=choice("name", NAMES),
        metavar="{" + ",".join(NAMES) + "}",
        help="what to measure: training at replay ratio 4 on CartPole-v1, on Pong or on cheetah",
    )
    parser.flag("--game", metavar="NAME", help="which game, with atari [pong]")
    whole_flag(parser, "--processes", 0, "only with so many processes, with atari; 0 for one and for one a core [0]")
    whole_flag(
        parser,
        "--turns",
        5,
        "how often each contender is measured; speeds are medians, ratios medians of those within a turn [5]",
    )
    parser.flag(
        "--peers",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure peers too: PFRL in a virtual environment of its own in the user's cache, Stable-Baselines3 from "
        "this one [yes]",
    )
    parser.flag("--output", type=Path, metavar="FILE", help="write the result to this JSON file as well")
    parser.flag("--json", action="store_true", help="print one JSON object on standard output and nothing else there")


def run(args: argparse.Namespace) -> int:
    from acer.bench import BENCHMARKS
    from acer.envs.scores import GAMES
    from acer.run.outputs import check_writable, write_beside

    check_least("--turns", args.turns, 1)
    if args.output is not None:  # what cannot be written is better known before than after
        args.output.parent.mkdir(parents=True, exist_ok=True)
        check_writable(args.output)
    check_least("--processes", args.processes, 0)
    of_game = {name: getattr(args, name) for name in ("game", "processes") if getattr(args, name)}
    if of_game and args.name != "atari":
        raise SettingsError(f"--{next(iter(of_game))} is for acer bench atari; leave it out")
    if args.game is not None and args.game not in GAMES:
        raise SettingsError(f"--game {args.game} is none of the games that `acer envs` lists")
    say(f"Measuring {args.name}, {args.turns} turns; leave the machine to it")
    result = BENCHMARKS[args.name](args.turns, args.peers, say, **of_game)
    if args.output is not None:
        write_beside(args.output, f"{json.dumps(result, indent=2)}\n".encode())
    if args.json:
        print(json.dumps(result))
    else:
        _print(result)
    return 0


def _print(result: dict[str, Any]) -> None:
    print(f"acer {result['steps_per_second']:,.0f} steps/s, {result['roofline_fraction']:.2f} of the bare work's speed")
    for part, of in result["milliseconds_per_iteration"].items():
        print(f"  {part:<16} {of['acer']:>9,.1f} ms, bare {of['bare']:>9,.1f} ms")
    for peer, speed in result["peers"].items():
        print(f"{peer} {speed:,.0f} steps/s; acer is {result['times_the_peers'][peer]:.1f} times as fast")
    for where, of in (("one process", "by_precision"), (f"{result.get('shared_actors')} processes", "shared")):
        for precision, one in result.get(of, {}).items():
            peers = "".join(f", {times:.1f} times {peer}" for peer, times in one["times_the_peers"].items())
            print(f"  {precision}, {where}: {one['steps_per_second']:,.0f} steps/s, "
                  f"{one['roofline_fraction']:.2f} of the bare work's speed{peers}; "
                  f"{one['times_dense']:.2f} times as fast as with --reuse never")  # fmt: skip
