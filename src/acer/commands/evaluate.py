"""Play a run's latest checkpoint, or a saved model, on new seeds."""

import argparse
import contextlib
import json

from acer.commands.common import add_playing_arguments, check_least, load, whole_flag
from acer.commands.flags import Parser
from acer.console import output_to_errors, say, tell, warn


def add_arguments(parser: Parser) -> None:
    add_playing_arguments(parser)
    whole_flag(parser, "--episodes", 100, "episodes to play [100]")
    parser.flag("--json", action="store_true", help="print one JSON object on standard output and nothing else there")


def run(args: argparse.Namespace) -> int:
    check_least("--episodes", args.episodes, 1)
    with output_to_errors() if args.json else contextlib.nullcontext():
        model = load(args)
    policy, episodes = args.policy or model.config.eval_policy, args.episodes
    played = args.env or model.config.env
    say(f"Playing {episodes} episodes of {played} with {policy} actions, {model.config.algo} from {args.directory}")
    with output_to_errors() if args.json else contextlib.nullcontext():
        result = model.evaluate(episodes, policy == "mode", args.seed)
        model.close()
    if args.json:
        values = {"episodes": episodes, "mean": result.mean, "std": result.std, "returns": result.returns}
        tell(json.dumps(values))
    else:
        if result.cut:
            warn(f"the evaluation's figures are not of whole episodes{result.said_of_cut()}")
        tell(
            f"return {result.mean:,.1f} ± {result.std:,.1f}  "
            f"(least {min(result.returns):,.1f}, most {max(result.returns):,.1f})"
        )
    return 0
