"""Which runs an experiment consists of: its name, a scale and a narrowing in, jobs out. Nothing is run here.

A job's name and configuration depend on nothing but what it is: setting i is the same for every task and method,
however many settings are asked for, so that experiments of one scale share the runs that they have in common.
"""

import difflib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from acer import config as configuration
from acer.config import ALGORITHMS, Config, defaults
from acer.envs.control import TASKS
from acer.envs.scores import GAMES
from acer.errors import SettingsError

Name = Literal["atari", "control", "ablation", "sensitivity", "theory"]
Scale = Literal["smoke", "small", "paper"]

LEARNING_RATES = (1e-4, 10**-3.3)  # log-uniform (Section 6)
DELTAS = (0.1, 2.0)  # uniform (Section 6)
SETTINGS_SEED = 2017  # the seed of the settings
SPREAD = (
    1.324717957244746  # x³ = x + 1: multiples of (1/x, 1/x²) modulo 1 fill the square evenly, however many there are
)
MOST_SETTINGS = 1_000
ROWS = 50  # of a run's progress.csv


@dataclass(frozen=True)
class Job:
    """One run: what its curve is called, and its configuration."""

    method: str
    setting: int
    seed: int
    config: Config

    @property
    def name(self) -> str:
        """Its directory's."""
        return f"{self.config.env}-{self.method}-{self.setting}-{self.seed}"

    def changed(self, **settings: Any) -> Self:
        """The same job with other settings."""
        return replace(self, config=configuration.from_dict(vars(self.config) | settings))


@dataclass(frozen=True)
class Setting:
    """What is drawn at random for a run."""

    learning_rate: float
    delta: float


@dataclass(frozen=True)
class Size:
    """How much of an experiment a scale does."""

    steps: int
    settings: int = 1
    longer: dict[str, int] = field(default_factory=dict)  # steps of environments that need more
    environments: tuple[str, ...] = ()  # those of the plan if none are named
    methods: tuple[str, ...] = ()  # likewise
    others: dict[str, Any] = field(default_factory=dict)  # settings of every run


@dataclass(frozen=True)
class Plan:
    """What can be chosen, and what each scale chooses."""

    kind: Literal["task", "game"]
    environments: tuple[str, ...]
    methods: tuple[str, ...]
    sizes: dict[Scale, Size]


@dataclass(frozen=True)
class Narrowing:
    """What is asked for instead of the scale's own; empty leaves it as it is."""

    tasks: tuple[str, ...] = ()
    games: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    settings: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    steps: int | None = None
    preset: str = ""
    changes: tuple[tuple[str, Any], ...] = ()  # settings by name, instead of the preset's and of those drawn


BASELINES = ("a3c", "trust-a3c", "tis", "trust-tis", "acer")
ABLATIONS = ("acer", "no-trust-region", "no-sdn", "no-retrace", "no-truncation")
# The paper's text does not say how many steps its control runs have: those of `paper` are ours.
CONTROL_SIZES: dict[Scale, Size] = {
    "smoke": Size(4_000, 2, others={"environments": 4, "eval_episodes": 2}),
    # At 500,000 steps the fish has hardly begun, and a walker's return is anything from 120 to 960 (results/control).
    "small": Size(500_000, 6, {"fish": 1_000_000, "walker": 1_000_000}, others={"eval_episodes": 32}),
    "paper": Size(5_000_000, 30, others={"eval_episodes": 32}),
}


def agents(*ratios: int) -> tuple[str, ...]:
    """Names of the Atari agents with these replay ratios, with a trust region and without (ratio 0 is ACER with r = 0,
    not A3C: its baseline is Q)."""
    return tuple(f"{algo}-{ratio}" for ratio in ratios for algo in ("acer", "no-trust-region"))


PLANS: dict[str, Plan] = {
    "control": Plan("task", tuple(TASKS), BASELINES, CONTROL_SIZES),
    "ablation": Plan("task", ("fish", "walker", "humanoid"), ABLATIONS, CONTROL_SIZES),
    "sensitivity": Plan("task", tuple(TASKS), ("acer",), CONTROL_SIZES),
    "atari": Plan(
        "game",
        GAMES,
        agents(0, 1, 4, 8),
        {
            # A game of Pong that is lost as fast as possible takes some 800 steps.
            "smoke": Size(3_200, environments=("pong",), methods=agents(0, 4),
                          others={"environments": 2, "trajectories_per_update": 2, "replay_start": 800,
                                  "eval_episodes": 1, "eval_limit": 500}),
            "small": Size(1_000_000, environments=("pong",), methods=agents(0, 1, 4), others={"eval_episodes": 16}),
            "paper": Size(50_000_000, others={"eval_episodes": 16}),  # 200 million frames, as DQN (Mnih et al. 2015)
        },
    ),
}  # fmt: skip


def to_json(job: Job) -> str:
    """A job as one line, for another process."""
    return json.dumps({**asdict(job), "config": json.loads(configuration.to_json(job.config))})


def from_json(line: str) -> Job:
    """The job that `to_json` wrote."""
    values = json.loads(line)
    return Job(**{**values, "config": configuration.from_dict(values["config"])})


def draw(setting: int) -> Setting:
    """Setting number `setting`, whatever else is drawn: of an evenly spread sequence with a random beginning, so that
    few settings cover the ranges, too. Six digits, so that it is the same on every machine."""
    first = np.random.default_rng(SETTINGS_SEED).random(2)
    rate, delta = (first + setting * SPREAD ** -np.array([1.0, 2.0])) % 1
    (low, high), (least, most) = np.log10(LEARNING_RATES), DELTAS
    return Setting(float(f"{10 ** (low + rate * (high - low)):.6g}"), float(f"{least + delta * (most - least):.6g}"))


def jobs(name: str, scale: Scale, narrowing: Narrowing, threads: int = 1) -> list[Job]:
    """The runs of an experiment. Settings are the outermost loop: when a part is done, it is a part of every panel."""
    plan, size = PLANS[name], PLANS[name].sizes[scale]
    _check(name, plan, narrowing)
    environments = (narrowing.games or narrowing.tasks) or size.environments or plan.environments
    methods = narrowing.methods or size.methods or plan.methods
    settings = narrowing.settings or tuple(range(size.settings))
    make = _agent if plan.kind == "game" else _method
    changes = dict(narrowing.changes)

    def others(env: str) -> dict[str, Any]:
        steps = narrowing.steps or size.longer.get(env, size.steps)
        return {"steps": steps, "log_every": max(1, steps // ROWS), "keep_checkpoints": 1, "threads": threads,
                **size.others, **changes}  # fmt: skip

    def job(env: str, method: str, setting: int, seed: int) -> Job:
        try:
            return Job(method, setting, seed, make(env, method, setting, seed, narrowing.preset, others(env)))
        except SettingsError as error:
            raise SettingsError(f"{method}: {error}") if changes else error from None

    return [
        job(env, method, setting, seed)
        for seed in narrowing.seeds or (0,)
        for setting in settings
        for env in environments
        for method in methods
    ]


def comparable(planned: Sequence[Job], present: Collection[str]) -> list[Job]:
    """The jobs of those settings and seeds with which every method of an environment has been run."""
    missing = {(job.config.env, job.setting, job.seed) for job in planned if job.name not in present}
    return [job for job in planned if (job.config.env, job.setting, job.seed) not in missing]


def _method(task: str, method: str, setting: int, seed: int, preset: str, others: dict[str, Any]) -> Config:
    """A method on a control task; each setting has a random stream of its own. The learning rate stays what was drawn:
    the paper names no annealing."""
    drawn = draw(setting)
    delta = {} if ALGORITHMS[method].trust_region is False else {"delta": drawn.delta}
    own = {"learning_rate": drawn.learning_rate, "learning_rate_decay": "none", "seed": MOST_SETTINGS * seed + setting,
           **delta}  # fmt: skip
    return defaults(task, True, preset or "control", method, **own | others)


def _agent(game: str, agent: str, setting: int, seed: int, preset: str, others: dict[str, Any]) -> Config:
    """An agent of the Atari figure. It has the preset's settings, but the paper's φ: in logits δ = 1 hardly ever binds,
    and agents with and without trust region would be the same."""
    algo, _, ratio = agent.rpartition("-")
    statistic = {"statistic": "probabilities"} if algo == "acer" else {}
    own = {"replay_ratio": float(ratio), "seed": seed, **statistic}
    return defaults(game, False, preset or "atari", algo, **own | others)


def _check(name: str, plan: Plan, narrowing: Narrowing) -> None:
    """Refuses what the experiment does not have."""
    if plan.kind == "game" and (narrowing.tasks or narrowing.settings):
        flag = "--tasks" if narrowing.tasks else "--settings"
        raise SettingsError(f"{flag} has no meaning for {name}: its runs are games × methods × seeds; leave it out")
    if plan.kind == "task" and narrowing.games:
        raise SettingsError(f"--games has no meaning for {name}: use --tasks")
    _check_names("--games" if plan.kind == "game" else "--tasks", narrowing.games or narrowing.tasks, plan.environments)
    _check_names("--methods", narrowing.methods, plan.methods)
    for flag, given in (("--settings", narrowing.settings), ("--seeds", narrowing.seeds)):
        _check_twice(flag, given)
    for setting, _ in narrowing.changes:
        if setting in GIVEN_OTHERWISE:
            raise SettingsError(f"--set {setting} is not possible here: {GIVEN_OTHERWISE[setting]}")
    _check_twice("--set", [setting for setting, _ in narrowing.changes])
    if narrowing.steps is not None and narrowing.steps < 1:
        raise SettingsError(f"--steps must be at least 1, not {narrowing.steps}")


def _check_names(flag: str, given: Sequence[str], known: Sequence[str]) -> None:
    _check_twice(flag, given)
    for one in given:
        if one not in known:
            near = difflib.get_close_matches(one, known, 3)
            choices = near or (known if len(known) < 12 else known[:3])
            hint = "did you mean" if near else "there are" if len(known) < 12 else "there are, for example,"
            raise SettingsError(f"{flag}: unknown {one!r}; {hint} {', '.join(choices)}")


def _check_twice(flag: str, given: Sequence[object]) -> None:
    if len(set(given)) < len(given):
        raise SettingsError(f"{flag} has something twice: {' '.join(map(str, given))}")


# Settings that `--set` leaves to other flags, and which.
GIVEN_OTHERWISE = {"env": "use --tasks or --games", "algo": "use --methods", "preset": "use --preset",
                   "steps": "use --steps", "threads": "use --threads", "seed": "use --seeds",
                   "log_every": "every run has as many rows", "keep_checkpoints": "one is kept"}  # fmt: skip


def changes(texts: Iterable[str]) -> tuple[tuple[str, Any], ...]:
    """Settings as `name=value`, with a value as config.json has it: `trajectories_per_update=1`, `hidden=[64, 64]`."""
    found = []
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign:
            raise SettingsError(f"--set takes settings as name=value, for example alpha=0.99, not {text!r}")
        name = name.strip().replace("-", "_")
        configuration.check_names({name: value})
        try:
            found.append((name, json.loads(value)))
        except ValueError:
            found.append((name, value))
    return tuple(found)


def numbers(flag: str, texts: Iterable[str]) -> tuple[int, ...]:
    """Whole numbers and ranges of them: `0 2 5-7` is 0, 2, 5, 6, 7."""
    found: list[int] = []
    for text in texts:
        first, dash, last = text.partition("-")
        if not (first.isascii() and first.isdigit() and (not dash or (last.isascii() and last.isdigit()))):
            raise SettingsError(f"{flag} takes whole numbers and ranges, for example 0 2 5-7, not {text!r}")
        low, high = (int(number) if len(number) < 10 else MOST_SETTINGS for number in (first, last or first))
        if high < low or high >= MOST_SETTINGS:
            raise SettingsError(f"{flag} takes numbers from 0 to {MOST_SETTINGS - 1}, not {text[:40]!r}")
        found.extend(range(low, high + 1))
    return tuple(found)
