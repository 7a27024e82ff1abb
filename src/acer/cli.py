"""The `acer` program.

Exit codes: 0 done; 2 something that you can mend (one line on standard error says what); 3 a run that had begun and
was stopped by its environment or by numbers that are not finite, after saving, or an experiment or a search with runs
that failed so; 130 interrupted, after saving.
"""

import difflib
import io
import sys

from acer import __version__
from acer.commands import COMMANDS
from acer.commands.flags import Parser
from acer.console import complain, leave_standard_output
from acer.errors import INTERRUPTED, MISTAKE, AcerError, SettingsError, in_one_line
from acer.machine import keep_standard_streams


def main() -> None:
    """Entry point of the command."""
    keep_standard_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        code = _run(sys.argv[1:])
        if sys.stdout is not None and not sys.stdout.closed:
            sys.stdout.flush()
    except AcerError as error:
        complain(str(error))
        code = error.exit_code
    except MemoryError as error:
        complain(f"not enough memory: {error}")
        code = MISTAKE
    except ImportError as error:  # a library that the system cannot load: no memory, no file handle
        if isinstance(error, ModuleNotFoundError) or not error.path or not error.path.endswith((".so", ".pyd")):
            raise
        complain(f"a library cannot be loaded: {in_one_line(error)}")
        code = MISTAKE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # whoever read has had enough
        leave_standard_output()
        code = 0
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else in_one_line(error))
        leave_standard_output()
        code = MISTAKE
    sys.exit(code)


def _run(args: list[str]) -> int:
    """Runs the command that the arguments name."""
    name, rest = (args[0], args[1:]) if args else ("--help", [])
    if name in ("-h", "--help"):
        print(_usage())
        return 0
    if name == "--version":
        print(f"acer {__version__}")
        return 0
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}"
        raise SettingsError(f"unknown command {name!r}; {hint}")
    command = COMMANDS[name]
    parser = Parser(name, command.__doc__)
    command.add_arguments(parser)
    code: int = command.run(parser.read(rest))
    return code


def _usage() -> str:
    lines = ["acer: sample efficient actor-critic with experience replay", "", "usage: acer COMMAND …", ""]
    lines += [f"  {name:<11} {(module.__doc__ or '').splitlines()[0]}" for name, module in COMMANDS.items()]
    lines += ["", "`acer COMMAND --help` says more; `acer --version` tells the version."]
    return "\n".join(lines)
