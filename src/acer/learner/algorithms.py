"""The paper's comparison set: each name is a choice among the pure functions.

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

from acer.config import Config
from acer.envs import ActionSpec, ObservationSpec
from acer.envs.spaces import SMALLEST_IMAGE
from acer.errors import SettingsError
from acer.learner import returns, trust_region
from acer.learner import update as updates
from acer.learner.distributions import Categorical, Gaussian
from acer.learner.networks import Architecture, CriticKind
from acer.learner.update import Batch, Constraint, Evaluated, Method, Returns


def distribution(config: Config, action: ActionSpec) -> Categorical | Gaussian:
    """f: Gaussian for a Box of actions, categorical for a choice."""
    if action.continuous:
        return Gaussian(action.size, config.sigma)
    return Categorical(action.size, config.statistic)


def method(config: Config, f: Categorical | Gaussian) -> Method:
    """The functions and constants of `config.algo` for this kind of action."""
    continuous = isinstance(f, Gaussian)
    _check_kind(config, continuous)
    make = partial(
        Method,
        f,
        constrain=_constraint(config),
        entropy_weight=config.entropy_weight,
        critic_weight=config.critic_weight,
    )
    if config.algo in ("a3c", "trust-a3c"):
        return make(updates.actor_critic, weight=_no_weight, off_policy=False, c=math.inf)
    if config.algo in ("tis", "trust-tis"):
        weight = partial(_truncated_product, bound=config.tis_bound)
        return make(updates.actor_critic, weight=weight, c=math.inf)

    estimates = {"action-values": updates.acer_discrete, "stochastic-dueling": updates.acer_continuous,
                 "separate": updates.acer_separate}  # fmt: skip
    critic = critic_kind(config, continuous)
    samples = config.sdn_samples if critic == "stochastic-dueling" else 0
    return make(estimates[critic], returns=_returns(config, continuous), c=config.truncation, sdn_samples=samples)


def critic_kind(config: Config, continuous: bool) -> CriticKind:
    """What the algorithm asks of its critic."""
    if config.algo in ("a3c", "trust-a3c", "tis", "trust-tis"):
        return "state-value"
    if not continuous:
        return "action-values"
    return "separate" if config.algo == "no-sdn" else "stochastic-dueling"


def is_convolutional(config: Config, observation: ObservationSpec) -> bool:
    """Whether the torso is the paper's for images."""
    return config.torso == "conv" or (config.torso == "auto" and observation.is_image)


def architecture(config: Config, observation: ObservationSpec, action: ActionSpec) -> Architecture:
    """The network's shape for these spaces."""
    convolutional = is_convolutional(config, observation)
    if convolutional and not observation.is_image:
        raise SettingsError(
            f"--torso conv needs images, but observations have shape {observation.shape}; use --torso mlp"
        )
    if convolutional and min(observation.shape[1:]) < SMALLEST_IMAGE:
        size = "×".join(map(str, observation.shape[1:]))
        raise SettingsError(
            f"images of {size} are too small for the convolutions (at least {SMALLEST_IMAGE}); use --torso mlp"
        )
    if convolutional and not config.hidden:
        raise SettingsError("convolutions need at least one size in --hidden behind them; or use --torso mlp")
    if config.precision == "bfloat16" and not convolutional:
        raise SettingsError("--precision bfloat16 is for convolutions, and this network has none; leave it out")
    return Architecture(
        observation=observation.shape,
        pixels=observation.dtype == "uint8",
        outputs=action.size,
        action_dimensions=action.size if action.continuous else 1,
        critic=critic_kind(config, action.continuous),
        hidden=config.hidden,
        advantage_hidden=config.advantage_hidden,
        activation=config.activation,
        convolutional=convolutional,
        shared_torso=config.shared_torso,
        layer_norm=config.layer_norm,
        orthogonal=config.initialization == "orthogonal",
        bfloat16=config.precision == "bfloat16",
    )


def _check_kind(config: Config, continuous: bool) -> None:
    if config.algo == "no-sdn" and not continuous:
        raise SettingsError(
            "no-sdn removes the stochastic dueling network, which only continuous actions have; use --algo acer"
        )
    if config.returns == "tree-backup" and continuous:
        raise SettingsError("tree backup needs discrete actions: use --returns retrace")
    if config.entropy_weight and continuous:
        raise SettingsError("a Gaussian with fixed σ has no entropy gradient: leave out --entropy-weight")


def _constraint(config: Config) -> Constraint:
    if config.trust_region == "projection":
        return partial(trust_region.project, delta=config.delta)
    if config.trust_region == "penalty":
        return partial(trust_region.penalize, weight=config.kl_weight)
    return trust_region.free


def _returns(config: Config, continuous: bool) -> Returns:
    """Targets of the critic and of the policy."""
    lambda_ = config.trace_lambda

    def bounded(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated) -> Tensor:
        dimensions = batch.actions.shape[-1] if continuous else 1
        trace = lambda_ * returns.truncated_trace(seen.log_rho, dimensions)
        return returns.retrace(batch.rewards, batch.discounts, batch.live, values, q, trace)

    def retrace(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated) -> tuple[Tensor, Tensor, Tensor]:
        q_ret = bounded(batch, values, q, seen)
        if not continuous:
            return q_ret, q_ret, q_ret
        return q_ret, returns.off_policy_corrected(batch.rewards, batch.discounts, batch.live, values, q), q_ret

    def tree_backup(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated) -> tuple[Tensor, Tensor, Tensor]:
        q_tree = returns.tree_backup(batch.rewards, batch.discounts, batch.live, values, q, seen.log_pi.exp(), lambda_)
        return q_tree, q_tree, q_tree

    def weighted(batch: Batch, values: Tensor, q: Tensor, seen: Evaluated) -> tuple[Tensor, Tensor, Tensor]:
        rho = returns.importance_weight(seen.log_rho)
        r = returns.degris(
            batch.rewards, batch.discounts, batch.live, values, rho, 1.0 if config.returns == "importance" else lambda_
        )
        return r, r, bounded(batch, values, q, seen)

    return {"retrace": retrace, "tree-backup": tree_backup, "degris": weighted, "importance": weighted}[config.returns]


def _no_weight(batch: Batch, seen: Evaluated) -> Tensor:
    return torch.ones_like(seen.log_rho)


def _truncated_product(batch: Batch, seen: Evaluated, bound: float) -> Tensor:
    return returns.truncated_product(seen.log_rho, batch.discounts, batch.live, bound)
