"""The settings of a run, each declared once.

Every field is a flag of `acer train`, a keyword of `ACER(…)` and a key of `config.json`. Below it stands its sentence,
which ends with its place in the paper, or with "ours". Defaults that a preset or an algorithm changes are in `presets`
and `algorithms`; what several settings must be together, in `checks`.
"""

import ast
import inspect
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from acer.config.algorithms import ALGORITHMS
from acer.config.presets import PRESETS
from acer.config.setting import (
    AT_LEAST_1,
    FRACTION,
    NOT_NEGATIVE,
    POSITIVE,
    SIZES,
    FromFile,
    When,
    declared,
    setting,
)
from acer.envs.registry import options_of, steps_natively
from acer.machine import cores

# Headings of `acer train --help`, in its order.
COMMON = "What is trained"
SCALE = "Where it runs"
ENVIRONMENT = "Environment"
EXPERIENCE = "Experience and replay"
RETURNS = "Returns and importance weights"
TRUST_REGION = "Trust region"
GRADIENT = "Gradient steps"
NETWORK = "Policy and networks"
SCALING = "Observations and rewards"
RECORDS = "Logs, evaluations, checkpoints"
FAULTS = "When something goes wrong"

GAMES = "Atari games"
MADE_BY_PYTHON = "environments that Gymnasium or your own code makes"
TRACKERS = ("tensorboard", "wandb", "mlflow")  # run.trackers makes them
# What a file may ask for: with more, a single iteration or evaluation would never end.
MOST_ENVIRONMENTS = 1_024
MOST_REPLAYS = 1_000
MOST_EVALUATED = 10_000


def _has_q(config: "Config") -> bool:
    return ALGORITHMS[config.algo].q


def _option(name: str, said: str) -> When:
    return When(lambda c, _: name in options_of(c.env), said)


WITH_Q = When(lambda c, _: _has_q(c), "algorithms with a Q")
TRACED = When(lambda c, _: _has_q(c) and c.returns != "importance", "retrace, tree-backup and degris")
RETRACE = When(lambda c, _: _has_q(c) and c.returns == "retrace", "--returns retrace")
TIS = When(lambda c, _: ALGORITHMS[c.algo].product_of_weights, "tis and trust-tis")
PROJECTION = When(lambda c, _: c.trust_region == "projection", "--trust-region projection")
PENALTY = When(lambda c, _: c.trust_region == "penalty", "--trust-region penalty")
AVERAGED = When(
    lambda c, _: c.trust_region != "none" or c.act_with == "average", "a trust region, or --act-with average"
)
DISCRETE_TRUST_REGION = When(lambda c, cont: not cont and c.trust_region != "none", "discrete actions, trust region")
CONTINUOUS = When(lambda _, continuous: continuous, "continuous actions")
CONTINUOUS_Q = When(lambda c, continuous: continuous and _has_q(c), "continuous ACER")
DUELING_Q = When(lambda c, cont: cont and _has_q(c) and ALGORITHMS[c.algo].dueling, "continuous ACER")
RECURRENT = When(lambda c, _: c.recurrent != "no", "--recurrent gru")
RECURRENT_REPLAY = When(lambda c, _: c.recurrent != "no" and c.replay_ratio > 0, "--recurrent gru with replay")
OUR_TORSO = When(lambda c, _: ":" not in c.torso, "torsos that are not of your own")
SEVERAL_PROCESSES = When(lambda c, _: c.home != "local", "--home shared and --home ray")
RAY = When(lambda c, _: c.home == "ray", "--home ray")
OVERLAP = When(lambda c, _: c.home == "ray" and c.overlap, "--home ray with --overlap")
PYTHON_STEPS = When(
    lambda c, _: not steps_natively(c.env),
    "environments other than the games and control tasks, which have threads of their own",
)


def _at_most(name: str, default: float, most: float) -> FromFile:
    """A file may give `name` up to `most`; a value of another type is refused elsewhere."""

    def may(config: Mapping[str, Any]) -> bool:
        value = config.get(name, default)
        return not isinstance(value, int | float) or value <= most

    return may


def _tracks_here(config: Mapping[str, Any]) -> bool:
    """Whether nothing is sent anywhere."""
    track = config.get("track", ())
    return not isinstance(track, list | tuple) or not set(map(str, track)) & {"wandb", "mlflow"}


def _is_plain(value: Any) -> bool:
    """Whether it is a number or one word: no path, no address, no code."""
    return re.fullmatch(r"[\w-]*", value) is not None if isinstance(value, str) else not isinstance(value, list | dict)


def _are_plain(kwargs: Any) -> bool:
    """Whether a file may give them; what is no table is refused elsewhere."""
    return not isinstance(kwargs, dict) or all(map(_is_plain, kwargs.values()))


@dataclass(frozen=True)
class Config:
    """Settings of one run."""

    env: str = setting(COMMON, "", from_file=lambda c: ":" not in str(c.get("env", "")))
    """Environment: an Atari game (pong), a control task (fish), a Gymnasium id, or module:Class of your own."""
    algo: str = setting(COMMON, "acer", choices=ALGORITHMS)
    """Algorithm: ACER, a baseline of Section 6, or ACER with one component removed (Section 6.1)."""
    preset: str = setting(COMMON, "classic", choices=PRESETS)
    """Where the other settings come from: classic (small environments), atari (games), control (control tasks) and
    efficient (where steps cost more than updates; docs/efficiency.md) with our departures from the paper, or paper, as
    printed (docs/deviations.md)."""
    steps: int = setting(COMMON, 100_000, AT_LEAST_1)
    """Environment steps to train for, over all environments; the run ends with the trajectories that reach them
    (ours)."""
    seed: int = setting(COMMON, 0, NOT_NEGATIVE)
    """The one seed from which every random stream is spawned (ours)."""

    home: Literal["local", "shared", "ray"] = setting(
        SCALE, "local", from_file=lambda c: c.get("home", "local") == "local"
    )
    """Where the parameters live: in this process, in memory shared by many processes (asynchronous actor-learners,
    Section 4), or on a Ray cluster (ours)."""
    actors: int = setting(
        SCALE,
        0,
        NOT_NEGATIVE,
        when=SEVERAL_PROCESSES,
        from_file=lambda c: c.get("home", "local") == "local" or not c.get("actors", 0),
    )
    """Actor-learners, with --home shared or ray; 0 for one on each core (16, Section 4)."""
    environments: int = setting(
        SCALE,
        16,
        AT_LEAST_1,
        alias="--envs-per-actor",
        from_file=_at_most("environments", 16, MOST_ENVIRONMENTS),
    )
    """Environments that step together in each actor-learner (1 for each of 16 actors, Section 4)."""
    workers: bool = setting(SCALE, False, when=PYTHON_STEPS, from_file=lambda c: not c.get("workers", False))
    """Run each environment in a process of its own: for simulators slower than about 0.1 ms a step (ours)."""
    threads: int = setting(SCALE, 0, NOT_NEGATIVE, from_file=_at_most("threads", 0, cores()))
    """Threads of each actor-learner, for its network and for its emulators or physics; 0 takes its share of the cores,
    a network without convolutions 1 (ours)."""
    device: str = setting(SCALE, "cpu", from_file=lambda c: c.get("device", "cpu") == "cpu")
    """Where the networks run (CPUs, Section 4, are what acer is tuned for)."""
    precision: Literal["auto", "float32", "bfloat16"] = setting(SCALE, "auto")
    """Arithmetic of the convolutional torso; auto tries both when a run begins and takes bfloat16 if it is clearly
    faster. All else is float32 (ours)."""
    reuse: Literal["auto", "always", "never"] = setting(SCALE, "auto")
    """Whether the convolutions compute a patch of a trajectory's images that stays as it was a step before only once;
    auto does where few patches are distinct (ours)."""
    ray_address: str = setting(SCALE, "", when=RAY, from_file=lambda c: not c.get("ray_address", ""))
    """Ray cluster to run on, as host:port, or auto for this machine's; without it one is started here (ours)."""
    cpus_per_actor: float = setting(
        SCALE,
        1.0,
        NOT_NEGATIVE,
        when=RAY,
        from_file=lambda c: c.get("home", "local") != "ray" or c.get("cpus_per_actor", 1.0) == 1.0,
    )
    """CPUs that Ray sets aside for each actor-learner; less for simulators that mostly wait (ours)."""
    processes_per_actor: int = setting(
        SCALE, 1, AT_LEAST_1, when=RAY, from_file=lambda c: c.get("processes_per_actor", 1) == 1
    )
    """Processes of each of --actors on Ray, which share the memory of their node and send the mean of their gradients
    as one client of the parameter servers; each is an actor-learner with environments of its own (ours)."""
    shards: int = setting(SCALE, 1, AT_LEAST_1, when=RAY, from_file=lambda c: c.get("shards", 1) == 1)
    """Parameter servers on Ray, each with a part of the parameters (ours)."""
    publish_interval: float = setting(SCALE, 50.0, NOT_NEGATIVE, when=OVERLAP)
    """Milliseconds between two versions of the parameters on Ray at least; those of small networks come with every
    answer (ours)."""
    gradient_precision: Literal["float32", "bfloat16"] = setting(SCALE, "float32", when=RAY)
    """Numbers of a gradient on its way on Ray; what bfloat16 rounds away is sent with the next gradient (ours)."""
    overlap: bool = setting(SCALE, True, when=RAY)
    """Whether an actor-learner on Ray computes its next update while its last one is on its way (ours)."""

    env_kwargs: dict[str, Any] = setting(
        ENVIRONMENT,
        {},
        when=_option("env_kwargs", MADE_BY_PYTHON),
        from_file=lambda c: _are_plain(c.get("env_kwargs", {})),
    )
    """What the environment is made with: name=value, where a value is read as JSON if it can be (ours)."""
    sticky_actions: float = setting(ENVIRONMENT, 0.0, FRACTION, when=_option("sticky_actions", GAMES))
    """Probability that a game's emulator repeats the last action instead (0 in Mnih et al. 2015; 0.25 in Machado et
    al. 2018)."""
    full_action_set: bool = setting(ENVIRONMENT, False, when=_option("full_action_set", GAMES))
    """All 18 actions of the joystick instead of those that the game knows (ours)."""
    life_loss: bool = setting(ENVIRONMENT, False, when=_option("life_loss", GAMES))
    """Whether a lost life ends the return in a game; the game goes on and its whole score is reported (ours)."""

    trajectory_length: int = setting(EXPERIENCE, 20, AT_LEAST_1)
    """k, steps between updates (20 on Atari, Section 4; 50 in control, Section 6)."""
    trajectories_per_update: int = setting(EXPERIENCE, 4, AT_LEAST_1)
    """Trajectories whose mean makes one update: 1 in the paper, whose 16 actors update one by one; fewer than 4
    where --environments is no multiple of 4. Of replayed ones it may be a multiple of --environments: then an
    iteration makes Poisson(--replay-ratio x --environments / this) updates (ours)."""
    gamma: float = setting(EXPERIENCE, 0.99, FRACTION)
    """Discount γ (Section 4; Appendix E.1)."""
    on_policy: bool = setting(EXPERIENCE, True)
    """Whether each new trajectory is learnt from at once (Algorithm 1); continuous ACER learns from replay only
    (Section 6)."""
    replay_ratio: float = setting(EXPERIENCE, 4.0, NOT_NEGATIVE, from_file=_at_most("replay_ratio", 4.0, MOST_REPLAYS))
    """Mean of the Poisson number of replays after each new trajectory (0, 1, 4 or 8, Section 4; about 4, Section 6)."""
    replay_capacity: int = setting(EXPERIENCE, 50_000, AT_LEAST_1)
    """Steps that each environment's replay memory holds (50,000 on Atari, Section 4; 5,000 in control, Section 6)."""
    replay_per_environment: bool = setting(EXPERIENCE, False)
    """Whether each environment has a Poisson draw and a replay memory of its own, as each of the paper's threads has
    (Section 4), instead of one draw and one memory for all that step together (ours)."""
    replay_start: int = setting(EXPERIENCE, 1_000, NOT_NEGATIVE)
    """Steps stored, over all environments, before replay begins (ours)."""

    burn_in: int = setting(EXPERIENCE, 0, NOT_NEGATIVE, when=RECURRENT_REPLAY)
    """First steps of a replayed trajectory that only bring memories up to date, and from which nothing is learnt; they
    begin with what the memory held when the trajectory was acted (ours)."""

    returns: Literal["retrace", "tree-backup", "degris", "importance"] = setting(RETURNS, "retrace", when=WITH_Q)
    """Estimator of Q^π (Section 3.1; importance sampling is the ablation of Appendix E.4)."""
    trace_lambda: float = setting(RETURNS, 1.0, FRACTION, when=TRACED)
    """λ of Retrace, tree backup and Degris' returns (1, footnote of Section 3.1)."""
    target_rate: float = setting(RETURNS, 0.0, FRACTION, when=WITH_Q)
    """τ, share of the way that a slow copy of the network goes towards θ after each update; returns then bootstrap
    from the copy's critic, and with 0 from θ's own (Algorithms 2 and 3). Measured in docs/efficiency.md (ours)."""
    policy_returns: Literal["auto", "retrace", "off-policy-corrected"] = setting(RETURNS, "auto", when=RETRACE)
    """What the policy gradient takes for Q^π beside a critic that learns from Retrace: Q^ret with discrete actions and
    Q^opc with continuous ones (auto; Algorithms 2 and 3), or one of them (footnote of Section 3.1, Appendix B)."""
    trace_weight: Literal["root", "plain"] = setting(RETURNS, "root", when=CONTINUOUS_Q)
    """Importance weight in Retrace's trace for d-dimensional actions: the root ρ^{1/d} (Section 5.1), or ρ itself as in
    Equation 5."""
    correction_gradient: Literal["score", "reparametrised"] = setting(RETURNS, "score", when=DUELING_Q)
    """Gradient of the bias correction's expectation: of log f (Equation 16), or, at --truncation 0, through a sampled
    action into the critic, which is Stochastic Value Gradients (Section 3.2)."""
    truncation: float = setting(RETURNS, 10.0, NOT_NEGATIVE, when=WITH_Q, may_be_infinite=True)
    """c, where importance weights of the policy gradient are truncated (10 on Atari, Section 4; 5 in control, Section
    6)."""
    tis_bound: float = setting(RETURNS, 5.0, POSITIVE, when=TIS)
    """Bound on the product of importance weights in TIS (5, Appendix E.2)."""

    trust_region: Literal["projection", "penalty", "none"] = setting(TRUST_REGION, "projection")
    """How the policy is kept near the average policy: projection, or a penalty on the KL divergence (Section 3.3)."""
    delta: float = setting(TRUST_REGION, 1.0, NOT_NEGATIVE, when=PROJECTION, may_be_infinite=True)
    """δ, bound of the linearised KL divergence for each step (1 on Atari, Section 4; 0.1 to 2 in control, Section 6).
    """
    delta_unit: Literal["rewards", "errors"] = setting(TRUST_REGION, "rewards", when=PROJECTION)
    """What δ is counted in: rewards, as printed, or the running size of the critic's errors, so that it means the same
    however large rewards are (ours; measured in docs/trust-region.md)."""
    alpha: float = setting(TRUST_REGION, 0.99, FRACTION, when=AVERAGED)
    """α, decay of the average policy network (0.99 on Atari, Section 4; 0.995 in control, Section 6)."""
    kl_weight: float = setting(TRUST_REGION, 1.0, NOT_NEGATIVE, when=PENALTY)
    """Weight of the KL penalty, with --trust-region penalty (ours)."""
    statistic: Literal["logits", "probabilities"] = setting(TRUST_REGION, "logits", when=DISCRETE_TRUST_REGION)
    """φ of the categorical policy: probabilities (Section 3.3), or logits (ours; measured in docs/trust-region.md)."""

    learning_rate: float = setting(GRADIENT, 7e-4, POSITIVE)
    """Step size of RMSProp (10^-4 to 10^-3.3 in control, Section 6; ours elsewhere)."""
    policy_rate: float = setting(GRADIENT, 1.0, POSITIVE)
    """Factor on the learning rate of the policy's parameters, the torso's too where it is shared (ours; measured in
    docs/efficiency.md)."""
    learning_rate_decay: Literal["none", "linear"] = setting(GRADIENT, "none")
    """Whether the learning rate falls to 0 over the run's steps, whatever their number is made later (not annealed,
    Section 4)."""
    entropy_weight: float = setting(GRADIENT, 0.001, NOT_NEGATIVE)
    """Weight of the entropy bonus; 0 for continuous actions with a fixed σ that are not squashed (0.001 on Atari,
    Section 4)."""
    entropy_unit: Literal["rewards", "errors"] = setting(GRADIENT, "rewards")
    """What the entropy's weight is counted in: rewards, or as δ is in the running size of the critic's errors, so that
    it means the same however large rewards are (ours; measured in docs/efficiency.md)."""
    critic_weight: float = setting(GRADIENT, 1.0, NOT_NEGATIVE)
    """Factor on the critic's gradient (1, Section 3.1 and Algorithm 3; Algorithm 2 prints 2)."""
    rmsprop_decay: float = setting(GRADIENT, 0.99, FRACTION)
    """Decay of RMSProp's mean of squares (A3C's; ours)."""
    rmsprop_epsilon: float = setting(GRADIENT, 1e-6, POSITIVE)
    """ε inside RMSProp's root (ours)."""
    rmsprop_start: float = setting(GRADIENT, 0.0, NOT_NEGATIVE)
    """What RMSProp's mean of squares begins with: from 0 the first steps are the largest, from 1 they grow (ours)."""
    max_gradient_norm: float = setting(GRADIENT, 10.0, POSITIVE, may_be_infinite=True)
    """Norm to which each update's gradient is clipped (ours)."""

    sigma: float = setting(NETWORK, 0.3, POSITIVE, when=CONTINUOUS)
    """σ of the Gaussian policy, in units of half the action's range (0.3, Section 6)."""
    learn_sigma: Literal["no", "free", "state"] = setting(NETWORK, "no", when=CONTINUOUS)
    """Whether σ is learnt, from --sigma on and at most tenfold to either side: as a parameter of each dimension that is
    free of the state, or by state as the mean is (ours; the paper's is fixed)."""
    bounded_mean: bool = setting(NETWORK, False, when=CONTINUOUS)
    """Whether the Gaussian's mean is the tanh of its output, within the action's range (ours)."""
    squashed: bool = setting(NETWORK, False, when=CONTINUOUS)
    """Whether an action is the tanh of the Gaussian's sample: the environment and the critic see what is within the
    range, f and the trust region what comes before tanh (ours; measured in docs/efficiency.md)."""
    sdn_samples: int = setting(NETWORK, 5, AT_LEAST_1, when=DUELING_Q)
    """n, samples of the stochastic dueling network (5, Section 6)."""
    torso: str = setting(
        NETWORK,
        "auto",
        choices=("auto", "mlp", "conv"),
        own=True,
        from_file=lambda c: ":" not in str(c.get("torso", "")),
    )
    """Network before the heads: the paper's convolutions for images (Section 4), smaller ones below 36 pixels a side,
    fully connected for vectors, or module:Class of your own (ours)."""
    hidden: tuple[int, ...] = setting(NETWORK, (64, 64), SIZES, when=OUR_TORSO)
    """Sizes of the fully connected layers (512 on Atari, Section 4; ours elsewhere)."""
    advantage_hidden: int = setting(NETWORK, 64, AT_LEAST_1, when=CONTINUOUS_Q)
    """Size of the small network that computes the advantages of continuous actions (ours)."""
    activation: Literal["relu", "tanh"] = setting(NETWORK, "relu")
    """Nonlinearity (rectifier, Section 4)."""
    initialization: Literal["uniform", "orthogonal"] = setting(NETWORK, "uniform", when=OUR_TORSO)
    """First weights of the torso: PyTorch's own, or orthogonal with a gain of √2, which keeps the size of the signal
    through the layers (ours)."""
    recurrent: Literal["no", "gru"] = setting(NETWORK, "no")
    """Whether a memory lies between torso and heads, of policy and critic: a gated recurrent unit, for what a single
    observation does not show (ours)."""
    memory_size: int = setting(NETWORK, 64, AT_LEAST_1, when=RECURRENT)
    """Units of each memory (ours)."""
    shared_torso: bool = setting(NETWORK, True)
    """Whether policy and critic share all but their heads (a single network, Section 2)."""
    layer_norm: bool = setting(NETWORK, False, when=OUR_TORSO)
    """Layer normalisation after each fully connected layer (ours)."""
    act_with: Literal["live", "average"] = setting(NETWORK, "live")
    """Which network acts, in training, in evaluations and when a saved model plays: the live one (Algorithm 1), or the
    average policy network of the trust region (ours; measured in docs/efficiency.md)."""

    normalize_observations: bool = setting(SCALING, False)
    """Running normalisation of observations, saved with the model: by mean and deviation of each entry, or of images by
    their mean image and one deviation (ours)."""
    reward_scale: float = setting(SCALING, 1.0, POSITIVE)
    """Factor on the rewards that the learner sees; reported returns stay raw (ours)."""
    clip_rewards: bool = setting(SCALING, False)
    """Clip the rewards that the learner sees to [-1, 1], as on Atari (Mnih et al. 2015)."""

    log_every: int = setting(RECORDS, 2_000, AT_LEAST_1)
    """Steps between rows of progress.csv (ours)."""
    track: tuple[str, ...] = setting(RECORDS, ("tensorboard",), choices=TRACKERS, from_file=_tracks_here)
    """Where the rows of progress.csv and eval.csv go as well, any of them or none: TensorBoard's files, Weights &
    Biases, MLflow (ours)."""
    eval_every: int = setting(RECORDS, 0, NOT_NEGATIVE)
    """Steps between evaluations during training; there is always one at the end; 0 for none before it (ours)."""
    eval_episodes: int = setting(RECORDS, 20, AT_LEAST_1, from_file=_at_most("eval_episodes", 20, MOST_EVALUATED))
    """Episodes of each evaluation (ours)."""
    eval_policy: Literal["mode", "sampled"] = setting(RECORDS, "mode")
    """How a run's own evaluations act: the most likely action, or one drawn from the policy as in training (ours)."""
    eval_limit: int = setting(RECORDS, 27_000, AT_LEAST_1)
    """Steps after which an evaluation's episode is cut, for environments that need not end; what was cut is said (ours;
    27,000 is Atari's cap)."""
    checkpoint_every: int = setting(RECORDS, 0, NOT_NEGATIVE)
    """Steps between checkpoints, 0 for none by steps; there is always one at the end (ours)."""
    checkpoint_minutes: float = setting(RECORDS, 5.0, NOT_NEGATIVE)
    """Minutes between checkpoints, 0 for none by time (ours)."""
    keep_checkpoints: int = setting(RECORDS, 2, AT_LEAST_1)
    """Checkpoints kept in the run's directory, beside the best by evaluation if there is --eval-every (ours)."""

    step_limit: float = setting(FAULTS, 300.0, NOT_NEGATIVE)
    """Seconds after which a step or reset of the environments counts as hung, 0 for no limit (ours)."""
    most_skipped: int = setting(FAULTS, 20, AT_LEAST_1)
    """The run stops after this many updates in a row whose gradient is not finite (ours)."""
    most_deaths: int = setting(FAULTS, 5, AT_LEAST_1, when=SEVERAL_PROCESSES)
    """The run stops after this many deaths of one actor-learner in a row, without a trajectory between (ours)."""


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


SETTINGS = declared(Config)
"""The declarations by name, in the order of the fields."""

NOT_THE_AGENTS = ("env", "algo", "preset", "seed", "workers", "threads", "device", "precision", "ray_address",
                  "cpus_per_actor")  # fmt: skip
AGENT_SETTINGS = tuple(
    name for name, of in SETTINGS.items() if of.group not in (RECORDS, FAULTS) and name not in NOT_THE_AGENTS
)
"""Settings that make another agent of the same algorithm, where runs on one environment differ in them: all but the
seed, and how a run is computed and recorded."""
