"""Run one of the paper's experiments and draw its figure; started again, only what is missing runs."""

import argparse
import typing
from pathlib import Path

from acer.commands.common import check_least, whole_flag
from acer.commands.flags import Parser, choice
from acer.console import complain, say, warn
from acer.errors import FAILED, INTERRUPTED, SettingsError
from acer.experiments import catalogue
from acer.experiments.plan import Scale, Selection
from acer.experiments.plans import changes, numbers
from acer.machine import cores

SCALES = typing.get_args(Scale)
LISTS = {
    "tasks": "only these control tasks",
    "games": "only these games",
    "methods": "only these methods; of the games a name and a ratio, as acer-4 or no-trust-region-4",
    "settings": "only these of the settings drawn at random, as numbers and ranges: 0 2 5-7",
    "seeds": "these seeds, each for all settings, as numbers and ranges",
    "set": "settings of every run as name=value: trajectories_per_update=1 alpha=0.99",
}


def add_arguments(parser: Parser) -> None:
    parser.flag(
        "name",
        type=choice("name", catalogue.NAMES),
        metavar="{" + ",".join(catalogue.NAMES) + "}",
        help=" ".join(f"{name}: {catalogue.about(name)}" for name in catalogue.NAMES),
    )
    parser.flag(
        "--scale",
        type=choice("scale", SCALES),
        default="smoke",
        metavar="{" + ",".join(SCALES) + "}",
        help="how much of it: minutes (smoke), hours on two cores (small), days (medium, of atari), or the paper's own "
        "sizes [smoke]",
    )
    parser.flag(
        "--out",
        type=Path,
        metavar="DIR",
        help="directory for runs, figure and table; by default runs/experiments/SCALE, where experiments share runs",
    )
    for name, text in LISTS.items():
        parser.flag(f"--{name}", nargs="*", metavar=name.upper(), help=text)
    whole_flag(parser, "--first", None, "only the first so many tasks or games, in the experiment's order")
    whole_flag(parser, "--steps", None, "steps of each run instead of the scale's")
    parser.flag(
        "--preset",
        type=choice("preset", ("paper",)),
        metavar="paper",
        help="the paper's constants as printed instead of the presets made for games and control tasks; figures and "
        "tables have it in their names",
    )
    whole_flag(parser, "--jobs", 0, "runs at once; 0 for as many as the cores have room for [0]")
    whole_flag(parser, "--threads", 1, "threads of each run [1]")
    parser.flag("--ray-address", metavar="HOST:PORT", help="run on the Ray cluster at this address instead of here")
    parser.flag(
        "--draw",
        action="store_true",
        help="run nothing: draw what has been run, those settings with which every method of a task has been",
    )


def run(args: argparse.Namespace) -> int:
    from acer.experiments import experiment
    from acer.experiments.jobs import here, on_ray

    selection = _selection(args)
    scale = f"{args.scale}-{args.preset}" if args.preset else args.scale
    out = args.out or Path("runs") / "experiments" / scale
    if not experiment.has_runs(args.name):
        for flag, given in (("--jobs", args.jobs), ("--threads", args.threads != 1),
                            ("--ray-address", args.ray_address), ("--draw", args.draw)):  # fmt: skip
            if given:
                raise SettingsError(f"{flag} has no meaning here: {args.name} has no runs; leave it out")
        result = experiment.compute(args.name, args.scale, selection, out, say)
    else:
        if args.ray_address and args.jobs:
            raise SettingsError("--jobs is for runs on this machine; a Ray cluster starts what it has room for")
        if args.draw and (args.ray_address or args.jobs or args.threads != 1):
            raise SettingsError("--draw runs nothing: leave out --jobs, --threads and --ray-address")
        runner = on_ray(args.ray_address) if args.ray_address else here(args.jobs or max(1, cores() // args.threads))
        try:
            result = experiment.run(
                args.name, args.scale, selection, out, args.threads, None if args.draw else runner, say
            )
        except KeyboardInterrupt:
            kept = "finished runs are kept" if args.ray_address else "the runs are saved"
            say(f"Stopped; {kept}. To go on, give the same command again")
            return INTERRUPTED
    for file in result.files:
        print(file)
    for job, error in result.diverged.items():
        warn(f"{job} diverged, and counts with the return that it had last: {error}")
    for job, error in result.failures.items():
        complain(f"{job} failed: {error}")
    if result.failures:
        count = len(result.failures)
        again = "the same command without --draw" if args.draw else "the same command again"
        say(f"{count} run{'s' * (count != 1)} failed; to try again, give {again}")
        return FAILED
    return 0


def _selection(args: argparse.Namespace) -> Selection:
    check_least("--jobs", args.jobs, 0)
    check_least("--threads", args.threads, 1)
    for name in LISTS:
        if getattr(args, name) == []:
            raise SettingsError(f"--{name} names nothing; to have all of them, leave it out")
    if args.ray_address == "":
        raise SettingsError("--ray-address is empty; give HOST:PORT or auto, or leave it out to run on this machine")
    tasks, games, methods, settings, seeds, changed = (tuple(getattr(args, name) or ()) for name in LISTS)
    return Selection(tasks, games, methods, numbers("--settings", settings), numbers("--seeds", seeds), args.steps,
                     args.first, args.preset or "", changes(changed))  # fmt: skip
