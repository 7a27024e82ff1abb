"""The `acer` command.

Exit codes: 0 done; 2 something that you can mend (one line on standard error says what); 130 interrupted, after saving.
"""

import contextlib
import dataclasses
import io
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg

from acer import __version__
from acer.config import Config, defaults, read_file, validate
from acer.display import errors
from acer.errors import AcerError, SettingsError

INTERRUPTED = 130
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class TrainFlags:
    settings: OmitArgPrefixes[Config]
    out: Path | None = None
    """Directory for the run: logs, checkpoints, curve; by default runs/ENV-ALGO-SEED."""
    config: Path | None = None
    """JSON file of settings, for example another run's config.json; flags given beside it win."""
    quiet: bool = False
    """No progress display."""


def train(args: list[str]) -> int:
    """Train an agent: acer train ENV [flags]; every setting is a flag."""
    wants_help = any(flag in args for flag in ("-h", "--help"))
    # Once for what decides the defaults (environment, preset, algorithm, file), once more with those defaults.
    first = _parse_train([a for a in args if a not in ("-h", "--help")], TrainFlags(Config()))
    given = read_file(first.config) if first.config else {}
    for name in ("env", "preset", "algo"):
        value = getattr(first.settings, name)
        if value != getattr(Config(), name) or name not in given:
            given[name] = value
    if wants_help and not given["env"]:
        _parse_train(args, TrainFlags(Config()))
    if not given["env"]:
        raise SettingsError(
            "no environment given; name one, for example: acer train CartPole-v1 (`acer envs` lists all)"
        )

    from acer.envs import spaces_of
    from acer.model import claim
    from acer.training import Training

    _, action = spaces_of(given["env"])
    default = defaults(given.pop("env"), action.continuous, **given)
    flags = _parse_train(args, dataclasses.replace(first, settings=default))
    config = validate(flags.settings)
    out = flags.out or Path("runs") / f"{_file_name(config.env)}-{config.algo}-{config.seed}"
    training = Training(config, directory=out)
    _ = training.learner  # its environments start before the directory is made: a mistake leaves nothing behind
    claim(out, config)
    _say(
        f"Training {config.algo} on {config.env} for {config.steps:,} steps "
        f"(preset {config.preset}, seed {config.seed}) in {out}"
    )
    return _run(training, out, flags.quiet)


def resume(
    directory: Positional[Path],
    /,
    steps: int | None = None,
    quiet: bool = False,
) -> int:
    """Go on with a run where its last checkpoint stands.

    Args:
        directory: Directory of the run.
        steps: Train to this many steps instead of the run's own number.
        quiet: No progress display.
    """
    from acer import config as configuration
    from acer.training import Training, extend

    training = Training.resume(directory, directory=directory)
    if steps is not None:
        training.set_config(extend(training.config, steps))
        (directory / "config.json").write_text(configuration.to_json(training.config))
    if training.steps >= training.config.steps:
        _say(f"{directory} is finished at {training.steps:,} steps; --steps takes it further")
        return 0
    _say(
        f"Going on with {training.config.algo} on {training.config.env} "
        f"from {training.steps:,} to {training.config.steps:,} steps"
    )
    return _run(training, directory, quiet)


def eval_(
    directory: Positional[Path],
    /,
    episodes: int = 100,
    sampled: bool = False,
    seed: int = 0,
    json_: Annotated[bool, arg(name="json")] = False,
) -> int:
    """Play a run's latest checkpoint, or a saved model, on new seeds.

    Args:
        directory: Directory of a run or of a saved model.
        episodes: Episodes to play.
        sampled: Sample actions from the policy instead of taking its mode.
        seed: Seed of the evaluation; not the training's, whatever its number.
        json_: Print one JSON object on standard output and nothing else there.
    """
    from acer.model import ACER

    if episodes < 1:
        raise SettingsError(f"--episodes must be at least 1, not {episodes}")
    model = ACER.load(directory)
    policy = "sampled actions" if sampled else "mode actions"
    _say(f"Playing {episodes} episodes of {model.config.env} with {policy}, {model.config.algo} from {directory}")
    result = model.evaluate(episodes, not sampled, seed)
    model.close()
    if json_:
        values = {"episodes": episodes, "mean": result.mean, "std": result.std, "returns": result.returns}
        print(json.dumps(values))
    else:
        print(
            f"return {result.mean:,.1f} ± {result.std:,.1f}  "
            f"(least {min(result.returns):,.1f}, most {max(result.returns):,.1f})"
        )
    return 0


def record(
    directory: Positional[Path],
    /,
    output: Path | None = None,
    episodes: int = 1,
    sampled: bool = False,
    seed: int = 0,
) -> int:
    """Write a video of a run's latest checkpoint, or of a saved model.

    Args:
        directory: Directory of a run or of a saved model.
        output: MP4 file to write; by default video.mp4 in the directory.
        episodes: Episodes to play, one after the other.
        sampled: Sample actions from the policy instead of taking its mode.
        seed: Seed of the episodes.
    """
    from acer.model import ACER
    from acer.video import record as write_video

    model = ACER.load(directory)
    output = output or directory / "video.mp4"
    _say(f"Recording {episodes} episode{'s' * (episodes != 1)} of {model.config.env} into {output}")
    returns = write_video(model.agent, model.config.env, output, episodes, seed, not sampled)
    model.close()
    print(f"{output}: return {', '.join(f'{r:,.1f}' for r in returns)}")
    return 0


def plot(
    directories: Positional[tuple[Path, ...]],
    /,
    output: Path = Path("curve.png"),
    x: Literal["steps", "seconds"] = "steps",
) -> int:
    """Draw the learning curves of one or several runs.

    Args:
        directories: Directories of runs.
        output: Picture to write (PNG, SVG or PDF, by its ending).
        x: What to draw the return against.
    """
    from acer.plots import curves

    if not directories:
        raise SettingsError("name at least one run, for example: acer plot runs/CartPole-v1-acer-0")
    curves(directories, output, x)
    print(output)
    return 0


def bench(
    name: Positional[Literal["classic"]],
    /,
    turns: int = 5,
    peers: bool = True,
    output: Path | None = None,
    json_: Annotated[bool, arg(name="json")] = False,
) -> int:
    """Measure speed beside peers and beside the bare cost of the same work.

    Args:
        name: What to measure: training on CartPole-v1 at replay ratio 4.
        turns: How often each contender is measured; the median counts.
        peers: Measure peers too, each in a virtual environment of its own in the user's cache.
        output: Write the result to this JSON file as well.
        json_: Print one JSON object on standard output and nothing else there.
    """
    from acer.bench import BENCHMARKS

    if turns < 1:
        raise SettingsError(f"--turns must be at least 1, not {turns}")
    _say(f"Measuring {name}, {turns} turns; leave the machine to it")
    result = BENCHMARKS[name](turns, peers, _say)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=2) + "\n")
    if json_:
        print(json.dumps(result))
        return 0
    print(f"acer {result['steps_per_second']:,.0f} steps/s, {result['roofline_fraction']:.2f} of the roofline")
    for peer, speed in result["peers"].items():
        print(f"{peer} {speed:,.0f} steps/s; acer is {result['steps_per_second'] / speed:.1f} times as fast")
    return 0


def envs() -> int:
    """List the environments that can be trained by name."""
    from acer.envs import known_names

    print("\n".join(known_names()))
    _say("Any other: module:Class of your own, from the current folder or installed.")
    return 0


COMMANDS: dict[str, Callable[..., int]] = {
    "train": train,
    "resume": resume,
    "eval": eval_,
    "record": record,
    "plot": plot,
    "bench": bench,
    "envs": envs,
}


def main() -> None:
    """Entry point of the command."""
    name, args = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    try:
        if name in ("-h", "--help"):
            print(_usage())
            code = 0
        elif name == "--version":
            print(f"acer {__version__}")
            code = 0
        elif name not in COMMANDS:
            raise SettingsError(f"unknown command {name!r}; there are {', '.join(COMMANDS)}")
        elif name == "train":
            code = train(args)
        else:
            code = _parse(COMMANDS[name], name, args)
    except AcerError as error:
        errors.print(f"acer: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        code = error.exit_code
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 0
    sys.exit(code)


def _run(training: "Training", out: Path, quiet: bool) -> int:  # type: ignore[name-defined]  # noqa: F821
    """Trains, then says what came of it."""
    from acer.plots import curves

    try:
        training.run(shown=not quiet)
    finally:
        training.close()
    if training.meter.recent:
        curves([out], out / "curve.png")
    if training.steps < training.config.steps:
        _say(f"Stopped at {training.steps:,} steps, saved. To go on: acer resume {out}")
        return INTERRUPTED
    print(
        f"{out}: {training.steps:,} steps in {training.seconds:,.0f} s, "
        f"return {training.meter.return_mean:,.1f} over the last episodes"
    )
    return 0


def _usage() -> str:
    lines = ["acer: sample efficient actor-critic with experience replay", "", "usage: acer COMMAND …", ""]
    lines += [f"  {name:<8} {(function.__doc__ or '').splitlines()[0]}" for name, function in COMMANDS.items()]
    lines += ["", "`acer COMMAND --help` says more; `acer --version` tells the version."]
    return "\n".join(lines)


def _parse(what: Callable[..., T], name: str, args: list[str], **options: Any) -> T:
    """tyro's parser, whose framed messages become one line."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            parsed: T = tyro.cli(what, prog=f"acer {name}", args=args, **options)
            return parsed
    except SystemExit as end:
        if end.code in (0, None):
            raise
        lines = [line.strip("╭╮╰╯│─ ") for line in said.getvalue().splitlines()[1:]]
        wrong = " ".join(itertools.takewhile(bool, lines))
        meant = lines.index("Perhaps you meant:") if "Perhaps you meant:" in lines else len(lines)
        near = [line.split()[0] for line in lines[meant:] if line.startswith("--")]
        hint = f"; did you mean {' or '.join(near[:2])}?" if near else ""
        raise SettingsError(f"{wrong}{hint} (acer {name} --help)") from None


def _parse_train(args: list[str], default: TrainFlags) -> TrainFlags:
    return _parse(TrainFlags, "train", args, default=default, description=train.__doc__)


def _file_name(env: str) -> str:
    return env.replace("/", "-").replace(":", "-")


def _say(line: str) -> None:
    """What is about to happen, on standard error: standard output is for results."""
    errors.print(line, highlight=False, markup=False, soft_wrap=True)
