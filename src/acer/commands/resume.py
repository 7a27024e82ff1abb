"""Go on with a run where its last checkpoint stands.

What reaches outside this process, a file may not decide: say it again.
"""

import argparse
from pathlib import Path

from acer.commands.common import add_env_flag, drive, whole_flag
from acer.commands.flags import Parser, add_setting
from acer.config import SETTINGS, descriptions
from acer.console import say
from acer.errors import SettingsError

OUTWARD = [of for of in SETTINGS.values() if of.from_file is not None and of.name != "env"]


def add_arguments(parser: Parser) -> None:
    parser.flag("directory", type=Path, help="directory of the run, or of one of its checkpoints to go back to")
    whole_flag(
        parser,
        "--steps",
        None,
        "train to this many steps instead of the run's own number; a learning rate that falls to 0 then does so over "
        "all of them, and is what it would be there",
    )
    add_env_flag(parser)
    sentences = descriptions()
    for of in OUTWARD:
        add_setting(parser, of, sentences[of.name])
    parser.flag("--quiet", action="store_true", help="no progress display")


def run(args: argparse.Namespace) -> int:
    from acer.run import opening, store

    directory = store.run_of(args.directory)
    said = {of.name: getattr(args, of.name) for of in OUTWARD if hasattr(args, of.name)}
    training = opening.resume(args.directory, args.env, directory, said)
    if args.steps is not None:
        if args.steps <= training.steps:
            raise SettingsError(f"{directory} is at {training.steps:,} steps already: --steps must be more")
        training.extend(args.steps)
    config = training.config
    if training.steps >= config.steps:
        say(f"{directory} is finished at {training.steps:,} steps; --steps takes it further")
        return 0
    say(f"Going on with {config.algo} on {config.env} from {training.steps:,} to {config.steps:,} steps")
    return drive(training, directory, args.quiet)
