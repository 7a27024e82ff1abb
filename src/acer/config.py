"""Settings of a run: one frozen dataclass, three presets, and the names of the paper's comparison set.

Every field is a flag of `acer train`, a keyword of `ACER(…)` and a key of `config.json`. Its sentence ends with its
place in the paper, or with "ours".
"""

import ast
import contextlib
import dataclasses
import difflib
import inspect
import itertools
import json
import math
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from tyro.conf import Positional, arg

from acer.envs.control import TASKS
from acer.envs.scores import GAMES
from acer.errors import SettingsError
from acer.machine import cores

Algorithm = Literal[
    "acer", "a3c", "trust-a3c", "tis", "trust-tis", "no-trust-region", "no-sdn", "no-retrace", "no-truncation"
]
Preset = Literal["classic", "atari", "control"]


@dataclass(frozen=True)
class Config:
    """Settings of one run."""

    env: Positional[str] = ""
    """Environment: an Atari game (pong), a control task (fish), a Gymnasium id, or module:Class of your own."""
    algo: Algorithm = "acer"
    """Algorithm: ACER, a baseline of Section 6, or ACER with one component removed (Section 6.1)."""
    preset: Preset = "classic"
    """Where the other settings come from: the paper's Atari or control constants, or small environments."""
    steps: int = 100_000
    """Environment steps to train for, over all environments (ours)."""
    seed: int = 0
    """The one seed from which every random stream is spawned (ours)."""

    home: Literal["local", "shared", "ray"] = "local"
    """Where the parameters live: in this process, in memory shared by many processes (asynchronous actor-learners,
    Section 4), or on a Ray cluster (ours)."""
    actors: int = 0
    """Actor-learners, with --home shared or ray; 0 for one on each core (16, Section 4)."""
    environments: Annotated[int, arg(aliases=["--envs-per-actor"])] = 16
    """Environments that step together in each actor-learner (1 for each of 16 actors, Section 4)."""
    workers: bool = False
    """Run each environment in a process of its own: for simulators slower than about 0.1 ms a step (ours)."""
    sticky_actions: float = 0.0
    """Probability that a game's emulator repeats the last action instead (0 in Mnih et al. 2015; 0.25 in Machado et
    al. 2018)."""
    full_action_set: bool = False
    """All 18 actions of the joystick instead of those that the game knows (ours)."""
    life_loss: bool = False
    """Whether a lost life ends the return in a game; the game goes on and its whole score is reported (ours)."""
    trajectory_length: int = 20
    """k, steps between updates (20 on Atari, Section 4; 50 in control, Section 6)."""
    trajectories_per_update: int = 4
    """Trajectories whose mean makes one update: 1 in the paper, whose 16 actors update one by one; fewer than 4
    where --environments is no multiple of 4 (ours)."""
    gamma: float = 0.99
    """Discount γ (Section 4; Appendix E.1)."""

    on_policy: bool = True
    """Whether each new trajectory is learnt from at once (Algorithm 1); continuous ACER learns from replay only
    (Section 6)."""
    replay_ratio: float = 4.0
    """Mean of the Poisson number of replays after each new trajectory (0, 1, 4 or 8, Section 4; about 4, Section 6)."""
    replay_capacity: int = 50_000
    """Steps that each environment's replay memory holds (50,000 on Atari, Section 4; 5,000 in control, Section 6)."""
    replay_start: int = 1_000
    """Steps stored, over all environments, before replay begins (ours)."""

    returns: Literal["retrace", "tree-backup", "degris", "importance"] = "retrace"
    """Estimator of Q^π (Section 3.1; importance sampling is the ablation of Appendix E.4)."""
    trace_lambda: float = 1.0
    """λ of Retrace, tree backup and Degris' returns (1, footnote of Section 3.1)."""
    truncation: float = 10.0
    """c, where importance weights of the policy gradient are truncated (10 on Atari, Section 4; 5 in control, Section
    6)."""
    tis_bound: float = 5.0
    """Bound on the product of importance weights in TIS (5, Appendix E.2)."""

    trust_region: Literal["projection", "penalty", "none"] = "projection"
    """How the policy is kept near the average policy: projection, or a penalty on the KL divergence (Section 3.3)."""
    delta: float = 1.0
    """δ, bound of the linearised KL divergence for each step (1 on Atari, Section 4; 0.1 to 2 in control, Section 6).
"""
    delta_unit: Literal["rewards", "errors"] = "rewards"
    """What δ is counted in: rewards, as printed, or the running size of the critic's errors, so that it means the same
    however large rewards are (ours; measured in docs/trust-region.md)."""
    alpha: float = 0.99
    """α, decay of the average policy network (0.99 on Atari, Section 4; 0.995 in control, Section 6)."""
    kl_weight: float = 1.0
    """Weight of the KL penalty, with --trust-region penalty (ours)."""
    statistic: Literal["logits", "probabilities"] = "logits"
    """φ of the categorical policy: probabilities (Section 3.3), or logits (ours; measured in docs/trust-region.md)."""

    entropy_weight: float = 0.001
    """Weight of the entropy bonus; 0 for continuous actions, whose σ is fixed (0.001 on Atari, Section 4)."""
    critic_weight: float = 1.0
    """Factor on the critic's gradient (1, Algorithms 2 and 3)."""
    learning_rate: float = 7e-4
    """Step size of RMSProp (10^-4 to 10^-3.3 in control, Section 6; ours elsewhere)."""
    learning_rate_decay: Literal["none", "linear"] = "none"
    """Whether the learning rate falls to 0 over the run's steps, whatever their number is made later (not annealed,
    Section 4)."""
    rmsprop_decay: float = 0.99
    """Decay of RMSProp's mean of squares (A3C's; ours)."""
    rmsprop_epsilon: float = 1e-6
    """ε inside RMSProp's root (ours)."""
    rmsprop_start: float = 0.0
    """What RMSProp's mean of squares begins with: from 0 the first steps are the largest, from 1 they grow (ours)."""
    max_gradient_norm: float = 10.0
    """Norm to which each update's gradient is clipped (ours)."""

    sigma: float = 0.3
    """σ of the Gaussian policy, in units of half the action's range (0.3, Section 6)."""
    sdn_samples: int = 5
    """n, samples of the stochastic dueling network (5, Section 6)."""
    torso: Literal["auto", "mlp", "conv"] = "auto"
    """Network before the heads: the paper's convolutions for images (Section 4), fully connected for vectors (ours)."""
    hidden: tuple[int, ...] = (64, 64)
    """Sizes of the fully connected layers (512 on Atari, Section 4; ours elsewhere)."""
    advantage_hidden: int = 64
    """Size of the small network that computes the advantages of continuous actions (ours)."""
    activation: Literal["relu", "tanh"] = "relu"
    """Nonlinearity (rectifier, Section 4)."""
    initialization: Literal["uniform", "orthogonal"] = "uniform"
    """First weights of the torso: PyTorch's own, or orthogonal with a gain of √2, which keeps the size of the signal
    through the layers (ours)."""
    shared_torso: bool = True
    """Whether policy and critic share all but their heads (a single network, Section 2)."""
    layer_norm: bool = False
    """Layer normalisation after each fully connected layer (ours)."""
    normalize_observations: bool = False
    """Running normalisation of observations, saved with the model: by mean and deviation of each entry, or of images by
    their mean image and one deviation (ours)."""
    reward_scale: float = 1.0
    """Factor on the rewards that the learner sees; reported returns stay raw (ours)."""
    clip_rewards: bool = False
    """Clip the rewards that the learner sees to [-1, 1], as on Atari (Mnih et al. 2015)."""

    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """Arithmetic of the convolutional torso; auto tries both when a run begins and takes bfloat16 if it is clearly
    faster. All else is float32 (ours)."""
    device: str = "cpu"
    """Where the networks run (CPUs, Section 4, are what acer is tuned for)."""
    threads: int = 0
    """Threads of each actor-learner, for its network and for its emulators or physics; 0 takes its share of the cores,
    a network without convolutions 1 (ours)."""
    log_every: int = 2_000
    """Steps between rows of progress.csv (ours)."""
    eval_every: int = 0
    """Steps between evaluations during training; there is always one at the end; 0 for none before it (ours)."""
    eval_episodes: int = 20
    """Episodes of each evaluation (ours)."""
    eval_policy: Literal["mode", "sampled"] = "mode"
    """How a run's own evaluations act: the most likely action, or one drawn from the policy as in training (ours)."""
    eval_limit: int = 27_000
    """Steps after which an evaluation's episode is cut, for environments that need not end (ours; Atari's cap)."""
    checkpoint_every: int = 0
    """Steps between checkpoints, 0 for none by steps; there is always one at the end (ours)."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints, 0 for none by time (ours)."""
    keep_checkpoints: int = 2
    """Checkpoints kept in the run's directory, beside the best by evaluation if there is --eval-every (ours)."""
    step_limit: float = 300.0
    """Seconds after which a step or reset of the environments counts as hung, 0 for no limit (ours)."""
    most_skipped: int = 20
    """The run stops after this many updates in a row whose gradient is not finite (ours)."""
    most_deaths: int = 5
    """The run stops after this many deaths of one actor-learner in a row, without a trajectory between (ours)."""
    ray_address: str = ""
    """Ray cluster to run on, as host:port, or auto for this machine's; without it one is started here (ours)."""
    cpus_per_actor: float = 1.0
    """CPUs that Ray sets aside for each actor-learner; less for simulators that mostly wait (ours)."""
    overlap: bool = True
    """Whether an actor-learner on Ray computes its next update while its last one is on its way (ours)."""


# What each preset changes, for any kind of action and for each; `Config` says what the paper fixes.
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    "classic": {
        "any": {"learning_rate": 7e-4, "learning_rate_decay": "linear", "rmsprop_epsilon": 1e-5, "hidden": (64, 64),
                "shared_torso": False, "replay_capacity": 5_000, "replay_start": 1_000, "trajectory_length": 20,
                "trajectories_per_update": 4, "max_gradient_norm": 10.0},
        "discrete": {"reward_scale": 0.03, "entropy_weight": 0.001, "truncation": 10.0, "alpha": 0.99, "delta": 1.0},
        "continuous": {"reward_scale": 0.01, "entropy_weight": 0.0, "truncation": 5.0, "alpha": 0.995, "delta": 0.1,
                       "sigma": 0.3, "normalize_observations": True, "on_policy": False},
    },
    "atari": {
        "any": {"replay_capacity": 50_000, "trajectory_length": 20, "truncation": 10.0, "delta": 1.0, "alpha": 0.99,
                "hidden": (512,), "clip_rewards": True, "steps": 10_000_000, "replay_start": 20_000,
                "learning_rate": 2.5e-4, "rmsprop_start": 1.0, "initialization": "orthogonal",
                "normalize_observations": True, "log_every": 20_000, "eval_policy": "sampled"},
        "discrete": {"entropy_weight": 0.001},
        "continuous": {"entropy_weight": 0.0},
    },
    "control": {
        "any": {"replay_capacity": 5_000, "trajectory_length": 50, "truncation": 5.0, "delta": 1.0, "alpha": 0.995,
                "hidden": (256, 256), "advantage_hidden": 128, "sigma": 0.3, "sdn_samples": 5, "steps": 2_000_000,
                "learning_rate": 5e-4, "learning_rate_decay": "linear", "delta_unit": "errors", "reward_scale": 0.1,
                "normalize_observations": True, "on_policy": False, "shared_torso": False},
        "discrete": {"entropy_weight": 0.001},
        "continuous": {"entropy_weight": 0.0},
    },
}  # fmt: skip

# What each name changes beyond the functions that `algorithms.method` chooses for it.
ALGORITHMS: dict[str, dict[str, Any]] = {
    "acer": {},
    "a3c": {"trust_region": "none", "replay_ratio": 0.0, "on_policy": True},
    "trust-a3c": {"replay_ratio": 0.0, "on_policy": True},
    "tis": {"trust_region": "none"},
    "trust-tis": {},
    "no-trust-region": {"trust_region": "none"},
    "no-sdn": {},
    "no-retrace": {"returns": "importance"},
    "no-truncation": {"truncation": math.inf},
}


def defaults(env: str, continuous: bool, preset: str = "classic", algo: str = "acer", **overrides: Any) -> Config:
    """The configuration of a preset and an algorithm for a kind of action, with some settings given by hand."""
    _check_choice("preset", preset, PRESETS)
    _check_choice("algo", algo, ALGORITHMS)
    kind = "continuous" if continuous else "discrete"
    settings = {**PRESETS[preset]["any"], **PRESETS[preset][kind], **ALGORITHMS[algo], "preset": preset, "algo": algo}
    base = from_dict({"env": env, **settings})
    together = overrides.get("environments")
    if type(together) is int and together > 0:  # the preset's number, or what of it divides the environments
        settings["trajectories_per_update"] = math.gcd(base.trajectories_per_update, together)
    config = from_dict({"env": env, **settings, **overrides})
    for name, (meant, when) in MEANINGS.items():
        if getattr(config, name) != getattr(base, name) and not meant(config, continuous):
            raise SettingsError(f"{flag_name(name)} has no meaning here: it is for {when}; leave it out")
    return config


def _has_q(config: Config, continuous: bool) -> bool:
    return config.algo not in ("a3c", "trust-a3c", "tis", "trust-tis")


# When a setting has a meaning, for those that do not always have one, and how to say it.
MEANINGS: dict[str, tuple[Callable[[Config, bool], bool], str]] = {
    "returns": (_has_q, "algorithms with a Q"),
    "trace_lambda": (lambda c, _: _has_q(c, _) and c.returns != "importance", "retrace, tree-backup and degris"),
    "truncation": (_has_q, "algorithms with a Q"),
    "tis_bound": (lambda c, _: c.algo in ("tis", "trust-tis"), "tis and trust-tis"),
    "delta": (lambda c, _: c.trust_region == "projection", "--trust-region projection"),
    "delta_unit": (lambda c, _: c.trust_region == "projection", "--trust-region projection"),
    "alpha": (lambda c, _: c.trust_region != "none", "a trust region"),
    "kl_weight": (lambda c, _: c.trust_region == "penalty", "--trust-region penalty"),
    "statistic": (lambda c, continuous: not continuous and c.trust_region != "none", "discrete actions, trust region"),
    "sigma": (lambda _, continuous: continuous, "continuous actions"),
    "sdn_samples": (lambda c, continuous: continuous and _has_q(c, True) and c.algo != "no-sdn", "continuous ACER"),
    "advantage_hidden": (lambda c, continuous: continuous and _has_q(c, True), "continuous ACER"),
    "actors": (lambda c, _: c.home != "local", "--home shared and --home ray"),
    "most_deaths": (lambda c, _: c.home != "local", "--home shared and --home ray"),
    "ray_address": (lambda c, _: c.home == "ray", "--home ray"),
    "cpus_per_actor": (lambda c, _: c.home == "ray", "--home ray"),
    "overlap": (lambda c, _: c.home == "ray", "--home ray"),
    "workers": (
        lambda c, _: c.env not in (*GAMES, *TASKS),
        "environments other than the games and control tasks, which have threads of their own",
    ),
    "sticky_actions": (lambda c, _: c.env in GAMES, "Atari games by their plain names"),
    "full_action_set": (lambda c, _: c.env in GAMES, "Atari games by their plain names"),
    "life_loss": (lambda c, _: c.env in GAMES, "Atari games by their plain names"),
}


def team_size(config: Config) -> int:
    """How many actor-learners there are."""
    return 1 if config.home == "local" else config.actors or cores()


def threads_of(config: Config) -> int:
    """Threads of each actor-learner for what is worth more than one: a share of the machine, on Ray of what it sets
    aside."""
    if config.home == "ray":
        return config.threads or max(1, int(config.cpus_per_actor))
    return config.threads or max(1, cores() // team_size(config))


def environment_options(config: Config) -> dict[str, Any]:
    """What an Atari game's emulators need to know; nothing for other environments."""
    if config.env not in GAMES:
        return {}
    return {name: getattr(config, name) for name in ("sticky_actions", "full_action_set", "life_loss")}


def validate(config: Config) -> Config:
    """Refuses what cannot be meant, each with a line that says what to change."""

    def need(holds: bool, message: str) -> None:
        if not holds:
            raise SettingsError(message)

    c = config
    need(bool(c.env), "no environment given; name one, for example CartPole-v1 (`acer envs` lists all)")
    for name in ("steps", "environments", "trajectory_length", "trajectories_per_update", "replay_capacity",
                 "sdn_samples", "advantage_hidden", "log_every", "eval_episodes", "eval_limit", "keep_checkpoints",
                 "most_skipped", "most_deaths"):  # fmt: skip
        need(getattr(c, name) >= 1, f"{flag_name(name)} must be at least 1, not {getattr(c, name)}")
    for name in ("seed", "replay_ratio", "replay_start", "truncation", "delta", "kl_weight", "entropy_weight",
                 "critic_weight", "threads", "eval_every", "rmsprop_start", "actors", "cpus_per_actor",
                 "checkpoint_every", "checkpoint_minutes", "step_limit"):  # fmt: skip
        need(getattr(c, name) >= 0, f"{flag_name(name)} must not be negative, but is {getattr(c, name)}")
    for name in ("learning_rate", "rmsprop_epsilon", "max_gradient_norm", "sigma", "tis_bound", "reward_scale"):
        need(getattr(c, name) > 0, f"{flag_name(name)} must be positive, not {getattr(c, name)}")
    for name in ("gamma", "alpha", "trace_lambda", "rmsprop_decay", "sticky_actions"):
        need(0 <= getattr(c, name) <= 1, f"{flag_name(name)} must lie between 0 and 1, not {getattr(c, name)}")
    for field in dataclasses.fields(c):
        value = getattr(c, field.name)
        infinite_allowed = field.name in ("truncation", "delta", "max_gradient_norm")
        if isinstance(value, float) and not (math.isfinite(value) or (infinite_allowed and value == math.inf)):
            raise SettingsError(f"{flag_name(field.name)} must be a finite number, not {value}")
    need(all(size >= 1 for size in c.hidden), f"--hidden must be positive sizes, not {c.hidden}")

    need(c.environments % c.trajectories_per_update == 0,
         f"--environments {c.environments} must be a multiple of "
         f"--trajectories-per-update {c.trajectories_per_update}")  # fmt: skip
    need(c.replay_capacity >= c.trajectory_length,
         f"--replay-capacity {c.replay_capacity} holds no trajectory of "
         f"--trajectory-length {c.trajectory_length}")  # fmt: skip
    need(c.home == "local" or c.device == "cpu", f"--home {c.home} is for CPUs: leave out --device")
    need(c.on_policy or c.replay_ratio > 0, "nothing would be learnt with --no-on-policy and --replay-ratio 0")
    capacity = team_size(c) * c.environments * (c.replay_capacity // c.trajectory_length) * c.trajectory_length
    need(c.replay_ratio == 0 or c.replay_start <= capacity,
         f"--replay-start {c.replay_start} is never reached: the memory holds {capacity} steps")  # fmt: skip
    if c.algo in ("a3c", "trust-a3c"):
        need(c.replay_ratio == 0, f"{c.algo} has no replay: leave out --replay-ratio, or use tis or acer")
        need(c.on_policy, f"{c.algo} learns on-policy: leave out --no-on-policy")
    if c.algo in ("a3c", "tis", "no-trust-region"):
        need(c.trust_region == "none", f"{c.algo} has no trust region: leave out --trust-region, or use another --algo")
    if c.algo in ("trust-a3c", "trust-tis"):
        need(c.trust_region != "none", f"{c.algo} has a trust region: use {c.algo.removeprefix('trust-')} for none")
    if c.algo == "no-truncation":
        need(c.truncation == math.inf, "no-truncation means --truncation inf: leave it out, or use --algo acer")
    if c.algo == "no-retrace":
        need(c.returns == "importance", "no-retrace means --returns importance: leave it out, or use --algo acer")
    return config


def to_json(config: Config) -> str:
    """The text of config.json; infinities as strings, for JSON has none."""
    values = {
        key: str(v) if isinstance(v, float) and math.isinf(v) else v for key, v in dataclasses.asdict(config).items()
    }
    return json.dumps(values, indent=2) + "\n"


def read_file(path: Path) -> dict[str, Any]:
    """Settings from a JSON file, not yet checked."""
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise SettingsError(f"{path}: no such file") from None
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsError(f"{path} is not a JSON file of settings: {error}") from None
    if not isinstance(values, dict):
        raise SettingsError(f"{path} is not a JSON file of settings: it must hold one object")
    check_names(values)
    return values


def from_dict(values: dict[str, Any]) -> Config:
    """A checked configuration; every name and every type is looked at."""
    check_names(values)
    hints = typing.get_type_hints(Config)
    return validate(Config(**{name: _coerce(name, value, hints[name]) for name, value in values.items()}))


def check_names(values: dict[str, Any]) -> None:
    """Refuses names that are not settings."""
    names = [field.name for field in dataclasses.fields(Config)]
    for name in values:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SettingsError(f"unknown setting {name!r}{hint}")


def _coerce(name: str, value: Any, hint: Any) -> Any:
    """`value` as a field of type `hint`: int for float and list for tuple are taken, nothing else is bent."""
    origin = typing.get_origin(hint)
    if origin is Literal:
        _check_choice(name, value, typing.get_args(hint))
        return value
    if hint is float and isinstance(value, str) and value in ("inf", "Infinity"):
        return math.inf
    if hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):
            return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():  # people write 1e6
        return int(value)
    if origin is tuple and isinstance(value, list | tuple) and all(type(item) is int for item in value):
        return tuple(value)
    if not isinstance(hint, types.GenericAlias) and type(value) is hint:
        return value
    raise SettingsError(f"{flag_name(name)} must be {_type_name(hint)}, not {value!r}")


def _check_choice(name: str, value: Any, choices: Any) -> None:
    if not isinstance(value, str) or value not in choices:
        raise SettingsError(f"{flag_name(name)} must be one of {', '.join(choices)}, not {value!r}")


def _type_name(hint: Any) -> str:
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    return names.get(hint, "a list of whole numbers")


def flag_name(name: str) -> str:
    """A setting as the command line has it."""
    return "--" + name.replace("_", "-")


def descriptions() -> dict[str, str]:
    """Each field's sentence, from the source: the text below the field."""
    tree = ast.parse(inspect.getsource(Config)).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for field, text in itertools.pairwise(tree.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            texts[field.target.id] = " ".join(str(text.value.value).split())
    return texts
