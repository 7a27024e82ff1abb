"""What several commands share: how they speak, how a run is driven, how a model is taken from a directory."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acer.commands.flags import Parser, add_setting, choice, reader
from acer.config import SETTINGS
from acer.console import say, tell
from acer.errors import INTERRUPTED, SettingsError

if TYPE_CHECKING:
    from acer.model import ACER
    from acer.run.training import Training


def whole_flag(parser: Parser, flag: str, default: int | None, text: str, **options: Any) -> None:
    parser.flag(flag, type=reader(flag, int), default=default, metavar="N", help=text, **options)


def check_least(flag: str, number: int, least: int) -> None:
    if number < least:
        raise SettingsError(f"{flag} must be at least {least}, not {number}")


# ------------------------------------------------------------------ runs


def drive(training: "Training", out: Path, quiet: bool) -> int:
    """Trains, then says what came of it."""
    from acer.run import trust
    from acer.run.plots import curves

    where = training.directory or out.absolute()  # an environment may change the directory
    try:
        training.run(shown=not quiet)
    finally:
        training.close()
    if training.state.meter.recent:
        curves([where], where / "curve.png")
    if training.steps < training.config.steps:
        flags = trust.outward_flags(vars(training.config))
        say(f"Stopped at {training.steps:,} steps, saved. To go on: acer resume {out}{' ' * bool(flags)}{flags}")
        return INTERRUPTED
    if training.interrupted:
        say(f"{out} is finished, but its last evaluation was interrupted: acer eval {out}")
        return INTERRUPTED
    result = "no episode ended"
    if training.state.meter.recent:
        result = f"return {training.state.meter.return_mean:,.1f} over the last episodes"
    tell(f"{out}: {training.steps:,} steps{_beyond(training)} in {training.state.progress.seconds:,.0f} s, {result}")
    return 0


def _beyond(training: "Training") -> str:
    """Why there are more steps than were asked for, if there are."""
    asked = training.config.steps
    return f" ({asked:,} and the rest of their trajectories)" if training.steps > asked else ""


# ------------------------------------------------------------------ models


def add_model_arguments(parser: Parser) -> None:
    """Which model it is."""
    parser.flag("directory", type=Path, help="directory of a run or of a saved model")
    parser.flag(
        "--best", action="store_true", help="take the checkpoint with the best evaluation instead of the latest"
    )
    add_env_flag(parser)
    add_setting(parser, SETTINGS["env_kwargs"], "what the environment is made with, if not as before")
    add_setting(parser, SETTINGS["torso"], "the network before the heads, if it is of your own (module:Class)")


def add_playing_arguments(parser: Parser) -> None:
    """Which model is played, and how."""
    add_model_arguments(parser)
    parser.flag(
        "--policy",
        type=choice("policy", ("mode", "sampled")),
        metavar="{mode,sampled}",
        help="take the policy's mode or sample from it; by default what the run's own evaluations did (eval_policy)",
    )
    whole_flag(parser, "--seed", 0, "seed of the episodes; not the training's, whatever its number [0]")
    parser.flag("--device", help="where the networks run, if not where they ran before")


def add_env_flag(parser: Parser) -> None:
    parser.flag(
        "--env", help="the environment, if it is code of your own (module:Class): a file's word is not enough to run it"
    )


def load(args: argparse.Namespace) -> "ACER":
    """The model that `add_model_arguments` names."""
    check_least("--seed", getattr(args, "seed", 0), 0)
    from acer.model import ACER
    from acer.run import opening

    outward: dict[str, Any] = {
        name: of for name in ("device", "env_kwargs", "torso") if (of := getattr(args, name, None))
    }
    return ACER.of(opening.load(args.directory, args.env, outward, args.best))
