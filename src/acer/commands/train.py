"""Train an agent: acer train ENV [flags]; every setting is a flag.

Defaults are shown in brackets. They are those of what is named beside --help, as in `acer train fish --help`.
"""

import argparse
import dataclasses
import json
from itertools import groupby
from pathlib import Path
from typing import Any

from acer.commands.common import drive
from acer.commands.flags import Parser, add_setting
from acer.config import (
    SETTINGS,
    Config,
    defaults,
    descriptions,
    flag_name,
    from_dict,
    options_for,
    read_file,
    to_json,
)
from acer.console import say
from acer.errors import SettingsError

USAGE = "ENV [--algo NAME] [--preset NAME] [--steps N] [--seed N] [--out DIR] [--any-setting VALUE …]"


def add_arguments(parser: Parser, shown: Config | None = None) -> None:
    """shown: the configuration whose values the help has as defaults."""
    sentences = descriptions()
    parser.usage = f"acer train {USAGE}"
    for heading, members in groupby(SETTINGS.values(), lambda of: of.group):
        group = parser.add_argument_group(heading)
        for of in members:
            if of.name == "env":
                parser.flag("env", nargs="?", metavar="ENV", group=group, help=sentences["env"])
                continue
            default = getattr(shown, of.name) if shown is not None else of.default
            add_setting(parser, of, sentences[of.name], group, default)
        if heading == SETTINGS["env"].group:
            _add_own(parser, group)


def _add_own(parser: Parser, group: Any) -> None:
    """What is not a setting of the run."""
    parser.flag(
        "--out",
        type=Path,
        metavar="DIR",
        group=group,
        help="Directory for the run: logs, checkpoints, curve; by default runs/ENV-ALGO-SEED, numbered if it is taken.",
    )
    parser.flag(
        "--config",
        type=Path,
        metavar="FILE",
        group=group,
        help="JSON file of settings, for example another run's config.json; flags given beside it win.",
    )
    parser.flag("--quiet", action="store_true", group=group, help="No progress display.")
    parser.flag("-h", "--help", action="store_true", group=group, help="Show this.")


def run(args: argparse.Namespace) -> int:
    if args.help:
        return _help(args)

    from acer.run import trust
    from acer.run.training import Training

    here = Path.cwd()  # an environment may change the directory as soon as it is made
    given = given_settings(args)
    file = read_file(args.config) if args.config else {}
    if args.config:
        trust.admit_file(args.config, file, given)
    config = combined(file, given)

    named = Path("runs") / f"{file_name(config.env)}-{config.algo}-{config.seed}"
    training = Training(config)
    taken = training.begin(here / (args.out or named), numbered=args.out is None)
    out = args.out or named.with_name(taken.name)
    say(
        f"Training {config.algo} on {config.env} for {config.steps:,} steps "
        f"(preset {config.preset}, seed {config.seed}) in {out}"
    )
    return drive(training, out, args.quiet)


def _help(args: argparse.Namespace) -> int:
    """Help with the defaults of the environment, preset and algorithm that are named beside it. Without an environment
    they are those for discrete actions, but for the preset that is made for continuous ones."""
    named = {name: value for name, value in given_settings(args).items() if name in ("env", "preset", "algo")}
    if "env" in named:
        shown = combined({}, named)
    else:
        shown = dataclasses.replace(defaults("ENV", named.get("preset") == "control", **named), env="")
    parser = Parser("train", __doc__)
    add_arguments(parser, shown)
    parser.print_help()
    return 0


def given_settings(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that were given."""
    return {name: value for name, value in vars(args).items() if name in SETTINGS and value is not None}


def combined(file: dict[str, Any], flags: dict[str, Any]) -> Config:
    """Preset and algorithm, then the file's settings, then the flags.

    With another algorithm or preset than the file's, what the file has only because of its own is left behind.
    """
    from acer.envs import canonical, preset_of, spaces_of

    env = flags.get("env") or file.get("env") or ""
    if not env or not isinstance(env, str):
        raise SettingsError("no environment given; name one, for example CartPole-v1 (`acer envs` lists all)")
    env = canonical(env)
    _, action = spaces_of(env, **options_for(env, file | flags))

    def base(source: dict[str, Any], **settings: Any) -> Config:
        names = {name: source[name] for name in ("preset", "algo") if name in source}
        return defaults(env, action.continuous, **{"preset": preset_of(env)} | names, **settings)

    chosen = {name: value for name, value in (file | flags).items() if name in ("preset", "algo")}
    if any(chosen[name] != file.get(name, chosen[name]) for name in chosen):
        from_dict({"env": env} | file)  # checked as it stands before it is taken apart
        old = json.loads(to_json(base(file)))
        file = {name: value for name, value in file.items() if value != old.get(name)}
    rest = {name: value for name, value in (file | flags).items() if name not in ("env", "preset", "algo")}
    config = base(chosen, **rest)
    for name in ("replay_capacity", "replay_start"):  # a file may have them, or a script, for another algorithm
        if name in flags and not config.replay_ratio:
            raise SettingsError(f"{flag_name(name)} has no meaning here: it is for replay; leave it out")
    return config


def file_name(env: str) -> str:
    """An environment's name as a directory's."""
    return env.replace("/", "-").replace(":", "-")
