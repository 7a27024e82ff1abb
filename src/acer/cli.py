"""The `acer` command.

Exit codes: 0 done; 2 something that you can mend (one line on standard error says what); 3 a run that had begun and
was stopped by its environment or by numbers that are not finite, after saving, or an experiment with runs that failed
so; 130 interrupted, after saving.
"""

import contextlib
import dataclasses
import functools
import io
import itertools
import json
import os
import re
import sys
import typing
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg

from acer import __version__
from acer.config import Config, defaults, flag_name, from_dict, read_file, to_json
from acer.console import complain, errors, warn
from acer.errors import FAILED, INTERRUPTED, MISTAKE, AcerError, SettingsError, in_one_line
from acer.experiments.plans import Name, Narrowing, Scale, changes, numbers
from acer.machine import check_writable, cores

if TYPE_CHECKING:
    from acer.model import ACER
    from acer.run.training import Training

WHOLE = re.compile(r"\d+(\.\d+)?[eE]\+?\d{1,2}")
TEXTS = ("--out", "--output", "--title", "--config", "--env", "--ray-address")  # flags of which 1e6 is a name
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
    """Train an agent: acer train ENV [flags]; every setting is a flag.

    Defaults are those of what is named beside --help, as in `acer train fish --help`.
    """
    if any(flag in args for flag in ("-h", "--help")):
        return _train_help(args)

    from acer.run import trust
    from acer.run.training import Training

    flags, given = _parse_given(args)
    file = read_file(flags.config) if flags.config else {}
    if flags.config:
        trust.admit_file(flags.config, file, given)
    config = _combined(file, given)

    out = flags.out or Path("runs") / f"{_file_name(config.env)}-{config.algo}-{config.seed}"
    training = Training(config)
    training.begin(out)
    _say(
        f"Training {config.algo} on {config.env} for {config.steps:,} steps "
        f"(preset {config.preset}, seed {config.seed}) in {out}"
    )
    return _run(training, out, flags.quiet)


def _parse_given(args: list[str]) -> tuple[TrainFlags, dict[str, Any]]:
    """The flags, and the settings that they give."""
    flags = _parse_train(args, Config())
    # A flag was given if its value does not depend on the default that it stands in for.
    other = _parse_train(args, _different(Config()))
    return flags, {
        name: value
        for name, value in vars(flags.settings).items()
        if value == getattr(other.settings, name) or value != value  # nan is given, too
    }


def _combined(file: dict[str, Any], flags: dict[str, Any]) -> Config:
    """Preset and algorithm, then the file's settings, then the flags.

    With another algorithm or preset than the file's, what the file has only because of its own is left behind.
    """
    from acer.envs import preset_of, spaces_of

    env = flags.get("env") or file.get("env") or ""
    if not env or not isinstance(env, str):
        raise SettingsError("no environment given; name one, for example CartPole-v1 (`acer envs` lists all)")
    _, action = spaces_of(env)

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


def _train_help(args: list[str]) -> int:
    """The help shows the defaults of the environment, preset and algorithm that are named beside it. Without an
    environment they are those for discrete actions, but for the preset that is made for continuous ones."""
    _, given = _parse_given([arg for arg in args if arg not in ("-h", "--help")])
    named = {name: given[name] for name in ("env", "preset", "algo") if given.get(name)}
    if "env" in named:
        shown = _combined({}, named)
    else:
        shown = dataclasses.replace(defaults("ENV", named.get("preset") == "control", **named), env="")
    _parse_train(["--help"], shown)
    return 0


def resume(
    directory: Positional[Path],
    /,
    steps: int | None = None,
    env: str | None = None,
    home: Literal["local", "shared", "ray"] | None = None,
    actors: int | None = None,
    environments: int | None = None,
    workers: bool | None = None,
    ray_address: str | None = None,
    cpus_per_actor: float | None = None,
    threads: int | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> int:
    """Go on with a run where its last checkpoint stands.

    What reaches outside this process, a file may not decide: say it again.

    Args:
        directory: Directory of the run, or of one of its checkpoints to go back to.
        env: The environment, if it is code of your own (module:Class): a file's word is not enough to run it.
        steps: Train to this many steps instead of the run's own number; a learning rate that falls to 0 then does so
            over all of them, and is what it would be there.
        home: Where the parameters live, if not in this process.
        actors: Actor-learners, with --home shared or ray.
        environments: Environments of each actor-learner, if they are very many.
        workers: Run each environment in a process of its own.
        ray_address: Ray cluster to run on.
        cpus_per_actor: CPUs that Ray sets aside for each actor-learner.
        threads: Threads of each actor-learner, if more than this machine has cores.
        device: Where the networks run, if not on the CPU.
        quiet: No progress display.
    """
    from acer.run import opening, store

    start, directory = directory, store.run_of(directory)
    said = {"home": home, "actors": actors, "workers": workers, "ray_address": ray_address, "threads": threads,
            "cpus_per_actor": cpus_per_actor, "environments": environments, "device": device}  # fmt: skip
    training = opening.resume(start, env, directory, {name: value for name, value in said.items() if value is not None})
    if steps is not None:
        if steps <= training.steps:
            raise SettingsError(f"{directory} is at {training.steps:,} steps already: --steps must be more")
        training.extend(steps)
    config = training.config
    if training.steps >= config.steps:
        _say(f"{directory} is finished at {training.steps:,} steps; --steps takes it further")
        return 0
    _say(f"Going on with {config.algo} on {config.env} from {training.steps:,} to {config.steps:,} steps")
    return _run(training, directory, quiet)


def eval_(
    directory: Positional[Path],
    /,
    episodes: int = 100,
    policy: Literal["mode", "sampled"] | None = None,
    best: bool = False,
    seed: int = 0,
    env: str | None = None,
    device: str | None = None,
    json_: Annotated[bool, arg(name="json")] = False,
) -> int:
    """Play a run's latest checkpoint, or a saved model, on new seeds.

    Args:
        directory: Directory of a run or of a saved model.
        episodes: Episodes to play.
        policy: Take the policy's mode or sample from it; by default what the run's own evaluations did (eval_policy).
        best: Take the checkpoint with the best evaluation instead of the latest.
        seed: Seed of the evaluation; not the training's, whatever its number.
        env: The environment, if it is code of your own (module:Class): a file's word is not enough to run it.
        device: Where the networks run, if not where they ran before.
        json_: Print one JSON object on standard output and nothing else there.
    """
    if episodes < 1:
        raise SettingsError(f"--episodes must be at least 1, not {episodes}")
    _check_seed(seed)
    model = _loaded(directory, env, best, device)
    policy = policy or model.config.eval_policy
    played = env or model.config.env
    _say(f"Playing {episodes} episodes of {played} with {policy} actions, {model.config.algo} from {directory}")
    result = model.evaluate(episodes, policy == "mode", seed)
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
    policy: Literal["mode", "sampled"] | None = None,
    best: bool = False,
    seed: int = 0,
    env: str | None = None,
    device: str | None = None,
) -> int:
    """Write a video or a film strip of a run's latest checkpoint, or of a saved model.

    Args:
        directory: Directory of a run or of a saved model.
        output: File to write, a video (.mp4) or a film strip (.png); by default video.mp4 in the directory.
        episodes: Episodes to play, one after the other.
        policy: Take the policy's mode or sample from it; by default what the run's own evaluations did (eval_policy).
        best: Take the checkpoint with the best evaluation instead of the latest.
        seed: Seed of the episodes.
        env: The environment, if it is code of your own (module:Class): a file's word is not enough to run it.
        device: Where the networks run, if not where they ran before.
    """
    from acer.run.video import record as write_video

    _check_seed(seed)
    model = _loaded(directory, env, best, device)
    output = output or directory / "video.mp4"
    played, policy = env or model.config.env, policy or model.config.eval_policy
    _say(f"Recording {episodes} episode{'s' * (episodes != 1)} of {played} with {policy} actions into {output}")
    returns = write_video(model.agent, played, output, episodes, seed, policy == "mode")
    model.close()
    print(f"{output}: return {', '.join(f'{r:,.1f}' for r in returns)}")
    return 0


def _loaded(directory: Path, env: str | None, best: bool, device: str | None) -> "ACER":
    from acer.model import ACER

    outward: dict[str, Any] = {"device": device} if device else {}
    return ACER.load(directory, env, best=best, **outward)


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise SettingsError(f"--seed must be at least 0, not {seed}")


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
    from acer.run.plots import curves

    if not directories:
        raise SettingsError("name at least one run, for example: acer plot runs/CartPole-v1-acer-0")
    curves(directories, output, x)
    print(output)
    return 0


def experiment(
    name: Positional[Name],
    /,
    scale: Scale = "smoke",
    out: Path | None = None,
    tasks: tuple[str, ...] | None = None,
    games: tuple[str, ...] | None = None,
    methods: tuple[str, ...] | None = None,
    settings: tuple[str, ...] | None = None,
    seeds: tuple[str, ...] | None = None,
    steps: int | None = None,
    preset: Literal["paper"] | None = None,
    set_: Annotated[tuple[str, ...] | None, arg(name="set")] = None,
    jobs: int = 0,
    threads: int = 1,
    ray_address: str | None = None,
    draw: bool = False,
) -> int:
    """Run one of the paper's experiments and draw its figure; started again, only what is missing runs.

    Args:
        name: Replay ratios on games, five methods on control tasks, ACER without its components, its sensitivity to
            learning rate and δ, or the theory on random MDPs.
        scale: How much of it: minutes (smoke), hours on two cores (small), or the paper's own sizes.
        out: Directory for runs, figure and table; by default runs/experiments/SCALE, where experiments share runs.
        tasks: Only these control tasks.
        games: Only these games.
        methods: Only these methods; of the games a name and a ratio, as acer-4 or no-trust-region-4.
        settings: Only these of the settings drawn at random, as numbers and ranges: 0 2 5-7.
        seeds: These seeds, each for all settings, as numbers and ranges.
        steps: Steps of each run instead of the scale's.
        preset: The paper's constants as printed instead of the presets made for games and control tasks; figures and
            tables have it in their names.
        set_: Settings of every run as name=value: trajectories_per_update=1 alpha=0.99.
        jobs: Runs at once; 0 for as many as the cores have room for.
        threads: Threads of each run.
        ray_address: Run on the Ray cluster at this address instead of here.
        draw: Run nothing: draw what has been run, those settings with which every method of a task has been.
    """
    from acer.experiments.experiment import run, run_theory
    from acer.experiments.jobs import here, on_ray

    for flag, number, least in (("--jobs", jobs, 0), ("--threads", threads, 1)):
        if number < least:
            raise SettingsError(f"{flag} must be at least {least}, not {number}")
    lists = {"--tasks": tasks, "--games": games, "--methods": methods, "--settings": settings, "--seeds": seeds,
             "--set": set_}  # fmt: skip
    for flag, names in lists.items():
        if names == ():
            raise SettingsError(f"{flag} names nothing; to have all of them, leave it out")
    if ray_address == "":
        raise SettingsError("--ray-address is empty; give HOST:PORT or auto, or leave it out to run on this machine")
    narrowing = Narrowing(tasks or (), games or (), methods or (), numbers("--settings", settings or ()),
                          numbers("--seeds", seeds or ()), steps, preset or "", changes(set_ or ()))  # fmt: skip
    out = out or Path("runs") / "experiments" / (f"{scale}-{preset}" if preset else scale)
    if name == "theory":
        for flag, given in (("--jobs", jobs), ("--threads", threads != 1), ("--ray-address", ray_address),
                            ("--draw", draw)):  # fmt: skip
            if given:
                raise SettingsError(f"{flag} has no meaning here: the theory has no runs; leave it out")
        result = run_theory(scale, narrowing, out, _say)
    else:
        if ray_address and jobs:
            raise SettingsError("--jobs is for runs on this machine; a Ray cluster starts what it has room for")
        if draw and (ray_address or jobs or threads != 1):
            raise SettingsError("--draw runs nothing: leave out --jobs, --threads and --ray-address")
        runner = on_ray(ray_address) if ray_address else here(jobs or max(1, cores() // threads))
        try:
            result = run(name, scale, narrowing, out, threads, None if draw else runner, _say)
        except KeyboardInterrupt:
            kept = "finished runs are kept" if ray_address else "the runs are saved"
            _say(f"Stopped; {kept}. To go on, give the same command again")
            return INTERRUPTED
    for file in result.files:
        print(file)
    for job, error in result.diverged.items():
        warn(f"{job} diverged, and counts with the return that it had last: {error}")
    for job, error in result.failures.items():
        complain(f"{job} failed: {error}")
    if result.failures:
        count = len(result.failures)
        again = "the same command without --draw" if draw else "the same command again"
        _say(f"{count} run{'s' * (count != 1)} failed; to try again, give {again}")
        return FAILED
    return 0


def report(
    directories: Positional[tuple[Path, ...]],
    /,
    output: Path = Path("report.html"),
    title: str | None = None,
) -> int:
    """Write one HTML page about runs or whole experiments, to look at in a browser.

    Args:
        directories: Directories of runs, or directories that hold runs at any depth.
        output: Page to write; everything is inside it, it needs no network.
        title: Title of the page; by default the directories' names.
    """
    from acer.report import write

    if not directories:
        raise SettingsError("name at least one directory with runs, for example: acer report runs")
    shown = write(directories, output, title)
    runs, environments = len(shown["runs"]), len(shown["environments"])
    for note in shown["notes"]:
        warn(note)
    print(f"{output}: {runs} run{'s' * (runs != 1)} on {environments} environment{'s' * (environments != 1)}")
    return 0


def bench(
    name: Positional[Literal["classic", "atari", "control"]],
    /,
    turns: int = 5,
    peers: bool = True,
    output: Path | None = None,
    json_: Annotated[bool, arg(name="json")] = False,
) -> int:
    """Measure speed beside peers and beside the bare cost of the same work.

    Args:
        name: What to measure: training at replay ratio 4 on CartPole-v1, on Pong or on cheetah.
        turns: How often each contender is measured; speeds are medians, ratios medians of those within a turn.
        peers: Measure peers too: PFRL in a virtual environment of its own in the user's cache, Stable-Baselines3 from
            this one.
        output: Write the result to this JSON file as well.
        json_: Print one JSON object on standard output and nothing else there.
    """
    from acer.bench import BENCHMARKS

    if turns < 1:
        raise SettingsError(f"--turns must be at least 1, not {turns}")
    if output is not None:  # what cannot be written is better known before than after
        output.parent.mkdir(parents=True, exist_ok=True)
        check_writable(output)
    _say(f"Measuring {name}, {turns} turns; leave the machine to it")
    result = BENCHMARKS[name](turns, peers, _say)
    if output is not None:
        output.write_text(json.dumps(result, indent=2) + "\n")
    if json_:
        print(json.dumps(result))
        return 0
    print(f"acer {result['steps_per_second']:,.0f} steps/s, {result['roofline_fraction']:.2f} of the bare work's speed")
    for part, of in result["milliseconds_per_iteration"].items():
        print(f"  {part:<16} {of['acer']:>9,.1f} ms, bare {of['bare']:>9,.1f} ms")
    for peer, speed in result["peers"].items():
        print(f"{peer} {speed:,.0f} steps/s; acer is {result['times_the_peers'][peer]:.1f} times as fast")
    for where, of in (("one process", "by_precision"), (f"{result.get('shared_actors')} processes", "shared")):
        for precision, one in result.get(of, {}).items():
            peers_of = "".join(f", {times:.1f} times {peer}" for peer, times in one["times_the_peers"].items())
            print(f"  {precision}, {where}: {one['steps_per_second']:,.0f} steps/s, "
                  f"{one['roofline_fraction']:.2f} of the bare work's speed{peers_of}")  # fmt: skip
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
    "experiment": experiment,
    "report": report,
    "bench": bench,
    "envs": envs,
}


def main() -> None:
    """Entry point of the command."""
    name, args = (sys.argv[1], sys.argv[2:]) if len(sys.argv) > 1 else ("--help", [])
    args = [
        _whole(arg) if before.startswith("--") and before not in TEXTS else arg
        for before, arg in zip(["", *args], args, strict=False)
    ]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
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
            code = _parse(_deferred(COMMANDS[name]), name, args)()
        sys.stdout.flush()
    except AcerError as error:
        complain(str(error))
        code = error.exit_code
    except MemoryError as error:
        complain(f"not enough memory: {error}")
        code = MISTAKE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:  # whoever read has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else in_one_line(error))
        code = MISTAKE
    sys.exit(code)


def _whole(number: str) -> str:
    """1e6, as people write it, for flags that want whole numbers; all else as it is."""
    return str(int(float(number))) if WHOLE.fullmatch(number) and float(number).is_integer() else number


def _run(training: "Training", out: Path, quiet: bool) -> int:
    """Trains, then says what came of it."""
    from acer.run import trust
    from acer.run.plots import curves

    where = out.absolute()  # an environment may change the directory
    try:
        training.run(shown=not quiet)
    finally:
        training.close()
    if training.state.meter.recent:
        curves([where], where / "curve.png")
    if training.steps < training.config.steps:
        flags = trust.outward_flags(vars(training.config))
        _say(f"Stopped at {training.steps:,} steps, saved. To go on: acer resume {out}{' ' * bool(flags)}{flags}")
        return INTERRUPTED
    if training.interrupted:
        _say(f"{out} is finished, but its last evaluation was interrupted: acer eval {out}")
        return INTERRUPTED
    result = "no episode ended"
    if training.state.meter.recent:
        result = f"return {training.state.meter.return_mean:,.1f} over the last episodes"
    print(f"{out}: {training.steps:,} steps in {training.state.progress.seconds:,.0f} s, {result}")
    return 0


def _usage() -> str:
    lines = ["acer: sample efficient actor-critic with experience replay", "", "usage: acer COMMAND …", ""]
    lines += [f"  {name:<10} {(function.__doc__ or '').splitlines()[0]}" for name, function in COMMANDS.items()]
    lines += ["", "`acer COMMAND --help` says more; `acer --version` tells the version."]
    return "\n".join(lines)


def _deferred(command: Callable[..., int]) -> Callable[..., Callable[[], int]]:
    """The command with its arguments bound but not yet run: parsing catches what is said, running must not."""

    @functools.wraps(command)
    def bind(*args: Any, **kwargs: Any) -> Callable[[], int]:
        return functools.partial(command, *args, **kwargs)

    return bind


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


def _parse_train(args: list[str], default: Config) -> TrainFlags:
    return _parse(TrainFlags, "train", args, default=TrainFlags(default), description=train.__doc__)


def _different(config: Config) -> Config:
    """A configuration that differs from this one in every field."""
    hints = typing.get_type_hints(Config)

    def other(name: str, value: Any) -> Any:
        if typing.get_origin(hints[name]) is Literal:
            return next(choice for choice in typing.get_args(hints[name]) if choice != value)
        if isinstance(value, bool):
            return not value
        return (*value, 1) if isinstance(value, tuple) else value + ("?" if isinstance(value, str) else 1)

    return Config(**{name: other(name, value) for name, value in vars(config).items()})


def _file_name(env: str) -> str:
    return env.replace("/", "-").replace(":", "-")


def _say(line: str) -> None:
    """What is about to happen, on standard error: standard output is for results."""
    errors.print(line, highlight=False, markup=False, soft_wrap=True)
