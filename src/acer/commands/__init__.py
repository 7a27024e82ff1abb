"""The commands of the `acer` program, a module each.

A command's module has a docstring, whose first line is its help, `add_arguments(parser)`, and `run(args)`, which
returns the exit code. A new one is a module here and a name in `COMMANDS`. What takes long to import is imported when
a command runs.

May import: everything.
"""

from types import ModuleType

from acer.commands import bench, card, envs, evaluate, experiment, export, plot, record, report, resume, train, tune

COMMANDS: dict[str, ModuleType] = {
    "train": train,
    "resume": resume,
    "eval": evaluate,
    "record": record,
    "export": export,
    "card": card,
    "plot": plot,
    "experiment": experiment,
    "tune": tune,
    "report": report,
    "bench": bench,
    "envs": envs,
}
