"""Search for better settings with Optuna: acer tune ENV --trials 50 [flags].

Every setting of `acer train` is a flag, for all trials. Started again, it goes on where it stopped.
"""

import argparse
from pathlib import Path
from typing import Any

from acer.commands.common import check_least, whole_flag
from acer.commands.flags import Parser, add_setting, choice
from acer.commands.train import combined, file_name, given_settings
from acer.config import SETTINGS, Config, descriptions, from_dict, options_for, read_file
from acer.console import complain, say, tell
from acer.errors import FAILED, INTERRUPTED, SettingsError, install
from acer.machine import cores

SAMPLERS = ("tpe", "gp", "random", "paper")
PRUNERS = ("median", "hyperband", "none")
OBJECTIVES = ("mean", "last")
EVALUATIONS, EPISODES, ROWS = 10, 10, 50  # of a run, unless the user says otherwise
OWN_PROCESSES = ("home", "ray_address")  # trials are processes already


def add_arguments(parser: Parser) -> None:
    parser.usage = "acer tune ENV [--trials N] [--search NAME=LOW..HIGH[:log] …] [--out DIR] [--any-setting VALUE …]"
    sentences = descriptions()
    parser.flag("env", nargs="?", metavar="ENV", help=sentences["env"])
    group = parser.add_argument_group("The search")
    whole_flag(parser, "--trials", 50, "trials in all, those counted that are done already [50]", group=group)
    parser.flag(
        "--search",
        nargs="*",
        metavar="NAME=…",
        group=group,
        help="what is searched, instead of the default space: ranges (learning_rate=1e-4..1e-2:log, sigma=0.1..1), "
        "choices (replay_ratio=1,4,8, hidden=[64,64],[256,256]), and the default space too (default)",
    )
    for name, choices, default, text in (
        ("sampler", SAMPLERS, "tpe", "how trials are drawn: tree-structured Parzen estimator, Gaussian process, at "
         "random, or the paper's random search over learning rate and δ [tpe]"),
        ("pruner", PRUNERS, "median", "which trials are ended early: those below the median of others, by "
         "hyperband, or none [median]"),
        ("objective", OBJECTIVES, "mean", "what a run is worth: the mean of its evaluations, which rewards learning "
         "early, or the last one [mean]"),
    ):  # fmt: skip
        metavar = "{" + ",".join(choices) + "}"
        parser.flag(f"--{name}", type=choice(name, choices), default=default, metavar=metavar, group=group, help=text)
    whole_flag(parser, "--seeds", 1, "runs of each trial, with seeds from --seed on; a trial is worth their mean [1]",
               group=group)  # fmt: skip
    whole_flag(parser, "--jobs", 0, "trials at once; 0 for as many as the cores have room for [0]", group=group)
    parser.flag("--ray-address", metavar="HOST:PORT", group=group, help="run on the Ray cluster at this address")
    parser.flag("--out", type=Path, metavar="DIR", group=group, help="directory of the search [runs/tune/ENV-ALGO]")
    parser.flag("--config", type=Path, metavar="FILE", group=group, help="JSON file of settings for all trials")
    group = parser.add_argument_group("Settings of all trials", "as `acer train --help` describes them")
    for of in SETTINGS.values():
        if of.name not in ("env", *OWN_PROCESSES):
            add_setting(parser, of, sentences[of.name], group)


def run(args: argparse.Namespace) -> int:
    for flag, least in (("trials", 1), ("seeds", 1), ("jobs", 0)):
        check_least(f"--{flag}", getattr(args, flag), least)
    try:
        import optuna  # noqa: F401
    except ImportError:
        raise SettingsError(f"acer tune needs Optuna: {install('tune')}") from None
    from acer.experiments.jobs import here, on_ray
    from acer.run import trust
    from acer.tune import outputs, search, space
    from acer.tune.study import Search

    address = args.ray_address
    given = {name: value for name, value in given_settings(args).items() if name != "ray_address"}
    file = read_file(args.config) if args.config else {}
    if file.get("home", "local") != "local":
        raise SettingsError(f"trials are processes of their own: leave home out of {args.config}; see --jobs")
    if args.config:
        trust.admit_file(args.config, file, given)
    base, continuous = _base(combined(file, given), file | given)
    fixed = {name: value for name, value in (file | given).items() if name not in ("env", "algo", "preset", "seed")}
    if args.search is not None and args.sampler == "paper":
        raise SettingsError("--sampler paper has a space of its own: leave out --search, or use --sampler random")
    if args.sampler == "paper":
        drawn = space.paper(base)
    elif args.search is not None:
        drawn = space.own(args.search, base, continuous, fixed)
    else:
        drawn = space.default(base, continuous, fixed)
    if not drawn:
        raise SettingsError("there is nothing to search; name it: --search learning_rate=1e-4..1e-2:log")
    if address and args.jobs == 0:
        raise SettingsError("say how many trials the cluster runs at once: --jobs N")
    at_once = args.jobs or max(1, cores() // (base.threads or cores()))
    runner = on_ray(address) if address else here(at_once)
    out = args.out or Path("runs") / "tune" / f"{file_name(base.env)}-{base.algo}"
    say(
        f"Tuning {base.algo} on {base.env} (preset {base.preset}), {args.trials} trials of {_count(args.seeds, 'run')} "
        f"of {base.steps:,} steps, {at_once} at once, in {out}"
    )
    for name, text in space.texts_of(drawn).items():
        say(f"  {name:<24} {text}")
    asked = Search(base, drawn, args.seeds, args.objective)
    try:
        study, files = search.run(asked, out, args.trials, args.sampler, args.pruner, runner, at_once, fixed, say)
    except KeyboardInterrupt:
        say("Stopped; what is done is kept. To go on, give the same command again")
        return INTERRUPTED
    return _tell(study, files, out / outputs.BEST)


def _base(config: Config, given: dict[str, Any]) -> tuple[Config, bool]:
    """The settings of all trials, and whether actions are continuous. Unless they were given, there are ten
    evaluations of ten episodes, and each run has one thread."""
    from acer.envs import spaces_of

    own = {"eval_every": max(1, config.steps // EVALUATIONS), "eval_episodes": EPISODES, "threads": 1,
           "log_every": max(1, config.steps // ROWS), "keep_checkpoints": 1}  # fmt: skip
    config = from_dict(vars(config) | {name: value for name, value in own.items() if name not in given})
    _, action = spaces_of(config.env, **options_for(config.env, vars(config)))
    return config, action.continuous


def _tell(study: Any, files: list[Path], best_file: Path) -> int:
    """What came of the search."""
    from acer.run import trust

    trials, best = study.trials(), study.best()
    states = [trial.state.name.lower() for trial in trials]
    counts = ", ".join(f"{states.count(state)} {state}" for state in ("complete", "pruned", "fail"))
    for trial in trials:
        if trial.state.name == "FAIL":
            complain(f"trial {trial.number} failed: {trial.user_attrs.get('why', '')}")
    for path in files:
        print(path)
    if best is None:
        say(f"{counts}; no trial came to its end")
        return FAILED
    tell(f"best of {len(trials)} trials ({counts}): trial {best.number}, {best.value:.6g}")
    for name, value in study.values(best).items():
        tell(f"  {name:<24} {value}")
    if trials[0].number == 0 and trials[0].value is not None and _is_preset(study, trials[0]):
        tell(f"the settings as they were, trial 0: {trials[0].value:.6g}")
    config = vars(study.search.base)
    outward = [name for name, harmless in trust.OUTWARD.items() if name != "env" and not harmless(config)]
    flags = "".join(f" {trust.flags_of(config, [name])}" for name in outward)
    say(f"To train with them: acer train {config['env']} --config {best_file}{flags}")
    return FAILED if "fail" in states else 0


def _is_preset(study: Any, trial: Any) -> bool:
    """Whether a trial had the settings that there were before the search."""
    return all(getattr(study.search.base, name) == value for name, value in study.values(trial).items())


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
