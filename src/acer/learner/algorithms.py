"""The paper's comparison set: each name is a choice among the pure functions. `config.algorithms` declares the names.

name              critic              returns            policy gradient             trust region
acer (discrete)   Q(x, ·)             Retrace            truncated + exact sum       projection
acer (continuous) dueling V, A        Retrace, Q^opc     truncated + one sample      projection
no-trust-region   …                   …                  …                           none
no-sdn            V and Q apart       …                  …                           …
no-retrace        …                   importance         …                           …
no-truncation     …                   …                  c = ∞                       …
a3c, trust-a3c    V                   k-step             (R − V) ∇ log f             none, projection
tis, trust-tis    V                   k-step             min{5, Π ρ} (R − V) ∇ log f none, projection
"""

import math
from functools import partial

import torch
from torch import Tensor

from acer.config import ALGORITHMS, Config
from acer.envs import ActionSpec, ObservationSpec
from acer.envs.spaces import SMALLEST_IMAGE
from acer.errors import SettingsError
from acer.learner import returns, trust_region
from acer.learner import update as updates
from acer.learner.categorical import Categorical, MultiCategorical
from acer.learner.distributions import Distribution
from acer.learner.gaussian import Gaussian, LearntGaussian
from acer.learner.torsos import PAPERS, Architecture, CriticKind
from acer.learner.update import Batch, Constraint, Evaluated, Method, Returns, Targets


def distribution(config: Config, action: ActionSpec) -> Distribution:
    """f: Gaussian for a Box of actions, categorical for a choice or several."""
    if action.continuous and config.learn_sigma == "no":
        return Gaussian(action.size, config.sigma, config.bounded_mean, config.squashed)
    if action.continuous:
        free = config.learn_sigma == "free"
        return LearntGaussian(action.size, config.sigma, free, config.bounded_mean, config.squashed)
    if len(action.parts) == 1:
        return Categorical(action.size, config.statistic)
    return MultiCategorical(action.parts, config.statistic)


def method(config: Config, f: Distribution) -> Method:
    """The functions and constants of `config.algo` for this kind of action."""
    _check_kind(config, f)
    make = partial(
        Method,
        f,
        constrain=_constraint(config),
        entropy_weight=config.entropy_weight,
        entropy_in_errors=config.entropy_unit == "errors",
        critic_weight=config.critic_weight,
    )
    with_q = partial(make, returns=_returns(config, f), c=config.truncation)
    match critic_kind(config, f):
        case "state-value":
            algo = ALGORITHMS[config.algo]
            weight = partial(_truncated_product, bound=config.tis_bound) if algo.product_of_weights else _no_weight
            return make(updates.actor_critic, weight=weight, off_policy=algo.replay, c=math.inf)
        case "action-values":
            return with_q(updates.action_values)
        case "separate":
            return with_q(updates.separate, samples=1)
        case "stochastic-dueling":
            estimate = updates.stochastic_dueling
            if config.correction_gradient == "reparametrised":
                estimate = updates.stochastic_value_gradient
            return with_q(estimate, samples=1 + config.sdn_samples)


def critic_kind(config: Config, f: Distribution) -> CriticKind:
    """What the algorithm asks of its critic."""
    algo = ALGORITHMS[config.algo]
    if not algo.q:
        return "state-value"
    if f.choices:
        return "action-values"
    return "stochastic-dueling" if algo.dueling else "separate"


def is_convolutional(config: Config, observation: ObservationSpec) -> bool:
    """Whether the torso is convolutional."""
    large_enough = observation.is_image and min(observation.shape[1:]) >= SMALLEST_IMAGE
    return config.torso == "conv" or (config.torso == "auto" and large_enough)


def has_papers_torso(config: Config, observation: ObservationSpec) -> bool:
    """Whether the torso is the paper's for images, which is worth other arithmetic and reuse of patches."""
    return is_convolutional(config, observation) and is_large(config, observation)


def is_large(config: Config, observation: ObservationSpec) -> bool:
    """Whether the torso is likely to be worth threads: the paper's, or one of the user's own for such images."""
    return config.torso != "mlp" and observation.is_image and min(observation.shape[1:]) >= PAPERS


def architecture(config: Config, observation: ObservationSpec, f: Distribution) -> Architecture:
    """The network's shape for these observations and this policy."""
    convolutional = is_convolutional(config, observation)
    if convolutional and not observation.is_image:
        raise SettingsError(
            f"--torso conv needs images, but observations have shape {observation.shape}; use --torso mlp"
        )
    if convolutional and min(observation.shape[1:]) < SMALLEST_IMAGE:
        size = "×".join(map(str, observation.shape[1:]))
        raise SettingsError(
            f"images of {size} are too small for convolutions (at least {SMALLEST_IMAGE}); use --torso mlp"
        )
    if convolutional and not config.hidden:
        raise SettingsError("convolutions need at least one size in --hidden behind them; or use --torso mlp")
    if config.precision == "bfloat16" and not convolutional:
        raise SettingsError("--precision bfloat16 is for convolutions, and this network has none; leave it out")
    large = has_papers_torso(config, observation)
    on_bytes = large and observation.dtype == "uint8" and config.device == "cpu"
    if config.reuse == "always" and not on_bytes:
        raise SettingsError(
            f"--reuse always is for convolutions of images of bytes, {PAPERS}×{PAPERS} at least, on CPUs; leave it out"
        )
    return Architecture(
        observation=observation.shape,
        pixels=observation.dtype == "uint8",
        outputs=f.outputs,
        action_dimensions=f.inputs,
        choices=f.choices,
        free_outputs=f.dimensions if isinstance(f, LearntGaussian) and f.free else 0,
        critic=critic_kind(config, f),
        hidden=config.hidden,
        advantage_hidden=config.advantage_hidden,
        activation=config.activation,
        convolutional=convolutional,
        memory=config.memory_size if config.recurrent != "no" else 0,
        own_torso=config.torso if ":" in config.torso else "",
        shared_torso=config.shared_torso,
        layer_norm=config.layer_norm,
        orthogonal=config.initialization == "orthogonal",
        bfloat16=config.precision == "bfloat16",
        reuse=config.reuse if on_bytes else "never",
    )


def _check_kind(config: Config, f: Distribution) -> None:
    if not ALGORITHMS[config.algo].dueling and f.choices:
        raise SettingsError(
            f"{config.algo} removes the stochastic dueling network, which only continuous actions have, and "
            "choices too many to list; use --algo acer"
        )
    if config.returns == "tree-backup" and not f.choices:
        raise SettingsError("tree backup needs discrete actions: use --returns retrace")
    if config.correction_gradient == "reparametrised" and not (
        isinstance(f, Gaussian | LearntGaussian) and critic_kind(config, f) == "stochastic-dueling"
    ):
        raise SettingsError("--correction-gradient reparametrised is for continuous ACER: leave it out")
    if config.entropy_weight and isinstance(f, Gaussian) and not f.squashed:
        raise SettingsError(
            "a Gaussian with fixed σ has no entropy gradient: leave out --entropy-weight, or use --learn-sigma or "
            "--squashed"
        )


def _constraint(config: Config) -> Constraint:
    if config.trust_region == "projection":
        return partial(trust_region.projection, delta=config.delta)
    if config.trust_region == "penalty":
        return partial(trust_region.penalty, weight=config.kl_weight)
    return trust_region.free


def _returns(config: Config, f: Distribution) -> Returns:
    """Targets of the critic and of the policy."""
    lambda_, root = config.trace_lambda, f.dimensions if config.trace_weight == "root" else 1
    corrected = {"auto": not f.choices, "retrace": False, "off-policy-corrected": True}[config.policy_returns]

    def q_ret(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated) -> Tensor:
        trace = lambda_ * returns.truncated_trace(seen.log_rho, root)
        return returns.retrace(batch.rewards, batch.discounts, batch.live, values, q, trace)

    def retrace(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated) -> Targets:
        """Algorithm 2 has Q^ret for both, Algorithm 3 has Q^opc for the policy; each could have the other's."""
        ret = q_ret(batch, values, q, seen)
        if not corrected:
            return Targets(ret, ret, ret)
        opc = returns.off_policy_corrected(batch.rewards, batch.discounts, batch.live, values, q)
        return Targets(ret, opc, ret)

    def tree_backup(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated) -> Targets:
        tree = returns.tree_backup(batch.rewards, batch.discounts, batch.live, values, q, seen.log_pi.exp(), lambda_)
        return Targets(tree, tree, tree)

    def degris(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated, lambda_: float = lambda_) -> Targets:
        rho = returns.importance_weight(seen.log_rho)
        weighted = returns.degris(batch.rewards, batch.discounts, batch.live, values, rho, lambda_)
        return Targets(weighted, weighted, q_ret(batch, values, q, seen))

    estimators: dict[str, Returns] = {
        "retrace": retrace,
        "tree-backup": tree_backup,
        "degris": degris,
        "importance": partial(degris, lambda_=1.0),
    }
    return estimators[config.returns]


def _no_weight(batch: Batch, seen: Evaluated) -> Tensor:
    return torch.ones_like(seen.log_rho)


def _truncated_product(batch: Batch, seen: Evaluated, bound: float) -> Tensor:
    return returns.truncated_product(seen.log_rho, batch.discounts, batch.live, bound)
