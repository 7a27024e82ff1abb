"""List the environments that can be trained by name."""

import argparse

from acer.commands.flags import Parser
from acer.console import say


def add_arguments(parser: Parser) -> None:
    """It takes none."""


def run(args: argparse.Namespace) -> int:
    from acer.envs import known_names

    print("\n".join(known_names()))
    say("Any other: module:Class of your own, from the current folder or installed.")
    return 0
