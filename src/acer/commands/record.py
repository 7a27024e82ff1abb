"""Write a video or a film strip of a run's latest checkpoint, or of a saved model."""

import argparse
from pathlib import Path

from acer.commands.common import add_playing_arguments, load, whole_flag
from acer.commands.flags import Parser
from acer.console import say, tell


def add_arguments(parser: Parser) -> None:
    add_playing_arguments(parser)
    whole_flag(parser, "--episodes", 1, "episodes to play, one after the other [1]")
    parser.flag(
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write, a video (.mp4) or a film strip (.png); by default video.mp4 in the directory",
    )


def run(args: argparse.Namespace) -> int:
    from acer.run.video import record

    output, episodes = args.output or args.directory / "video.mp4", args.episodes
    where = output.absolute()  # an environment may change the directory
    model = load(args)
    played, policy = args.env or model.config.env, args.policy or model.config.eval_policy
    say(f"Recording {episodes} episode{'s' * (episodes != 1)} of {played} with {policy} actions into {output}")
    returns = record(model.agent, played, where, episodes, args.seed, policy == "mode")
    model.close()
    tell(f"{output}: return {', '.join(f'{r:,.1f}' for r in returns)}")
    return 0
