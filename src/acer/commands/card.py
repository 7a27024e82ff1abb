"""Write a model card beside the model, in a folder as the Hugging Face Hub expects it.

Plays episodes for the card's scores. `huggingface_hub.upload_folder` takes the folder as it is; acer sends nothing.
"""

import argparse
from pathlib import Path

from acer.commands.common import add_playing_arguments, check_least, load, whole_flag
from acer.commands.flags import Parser
from acer.console import say, tell
from acer.errors import SettingsError

CARD = "README.md"


def add_arguments(parser: Parser) -> None:
    add_playing_arguments(parser)
    whole_flag(parser, "--episodes", 20, "episodes to play for the scores [20]")
    parser.flag(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="where model and card are written; by default the saved model's directory, or model/ in a run's",
    )


def run(args: argparse.Namespace) -> int:
    check_least("--episodes", args.episodes, 1)
    from acer.run.checkpoint import STATE
    from acer.run.outputs import write_beside
    from acer.run.store import CHECKPOINTS

    is_model = (args.directory / STATE).is_file() and args.directory.absolute().parent.name != CHECKPOINTS
    folder = args.output or (args.directory if is_model else args.directory / "model")
    where = folder.absolute()  # an environment may change the directory
    has_model = is_model and where == args.directory.absolute()
    if (where / CARD).exists():
        raise SettingsError(f"{folder / CARD} exists and may be yours: remove it, or choose another --output")
    model = load(args)
    policy, episodes = args.policy or model.config.eval_policy, args.episodes
    say(f"Playing {episodes} episodes of {args.env or model.config.env} with {policy} actions")
    result = model.evaluate(episodes, policy == "mode", args.seed)
    if not has_model:
        model.save(where)
    write_beside(where / CARD, model.card(result).encode())
    model.close()
    tell(f"{folder}: a model and its card, return {result.mean:,.1f} ± {result.std:,.1f}; choose a license in {CARD}")
    return 0
