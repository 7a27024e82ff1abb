"""Write a policy for programs without acer, as ONNX or as PyTorch's exported program.

The file takes raw observations, gives the mode action and the statistics of the policy's distribution, and is compared
with `predict` when it is written.
"""

import argparse
from pathlib import Path

from acer.commands.common import add_model_arguments, load
from acer.commands.flags import Parser, choice
from acer.console import say, tell

FORMATS = ("onnx", "torch")


def add_arguments(parser: Parser) -> None:
    add_model_arguments(parser)
    parser.flag(
        "--to",
        type=choice("to", FORMATS),
        default="onnx",
        metavar="{onnx,torch}",
        help="ONNX, or the .pt2 file that torch.export.load reads [onnx]",
    )
    parser.flag(
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write; by default policy.onnx or policy.pt2 in the directory",
    )


def run(args: argparse.Namespace) -> int:
    from acer.run.export import SUFFIX

    output = args.output or args.directory / f"policy{SUFFIX[args.to]}"
    where = output.absolute()  # an environment may change the directory
    model = load(args)
    say(f"Exporting {model.config.algo} on {model.config.env} to {output}")
    check = model.export(where, args.to)
    model.close()
    rounded = " (predict computes in bfloat16, the file in float32)" if check.same < check.observations else ""
    tell(f"{output}: the same action as predict on {check.same} of {check.observations} observations{rounded}")
    return 0
