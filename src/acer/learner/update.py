"""The update: Algorithms 2 and 3, and the paper's baselines, from one body.

`update` computes what every method needs, asks the method for its estimate (policy gradient with respect to φ, errors
of the critic), applies the trust region to each step, and sends the result back through the network. The estimates
follow below it; each is the part of the pseudo-code that its algorithm does not share with the others.

Shapes: trajectories are time-major [T, B, …], observations and what is computed from them have T+1 entries.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from acer.learner import gradients, returns
from acer.learner.distributions import Distribution, finite
from acer.learner.memory import Recall
from acer.learner.networks import Network, Policy
from acer.learner.parameters import views
from acer.learner.torsos import Encoded
from acer.learner.trust_region import constrained


@dataclass(frozen=True)
class Batch:
    """Trajectories as tensors, rewards as the learner sees them (scaled or clipped)."""

    observations: Tensor  # [T+1, B, …]
    actions: Tensor  # [T, B] or [T, B, d]
    rewards: Tensor  # [T, B]
    discounts: Tensor  # [T, B]
    live: Tensor  # [T, B]
    mu: Tensor  # [T, B, n]
    masks: Tensor | None = None  # legal choices [T+1, B, n], in environments that have masks
    memory: Tensor | None = None  # what a recurrent policy remembered before x_0 [1, B, n]

    def select(self, which: slice) -> "Batch":
        """Some of the B trajectories."""
        return Batch(**{name: of[:, which] for name, of in vars(self).items() if of is not None})


@dataclass(frozen=True)
class Evaluated:
    """What the networks say of a batch: φ_θ'(x_i), the critic's features, ρ_i, and the samples' noise."""

    x: Encoded  # observations [T+1, B, …]
    recall: Recall | None  # where memories begin, in recurrent networks
    features: Tensor  # [T+1, B, …]
    phi: Tensor  # [T+1, B, n], no gradient
    log_pi: Tensor  # log f(a_i|φ_θ'(x_i)) [T, B]
    log_rho: Tensor  # [T, B]
    noise: Tensor  # [1 + n, T, B, d] for a' and u_1 … u_n; empty for discrete actions
    slow: Network | None  # whose critic the returns bootstrap from, if not that of θ'


@dataclass(frozen=True)
class Targets:
    """Returns of a batch, by what they are for; all [T, B]."""

    critic: Tensor  # what Q learns: Q^ret
    policy: Tensor  # what the policy gradient takes for Q^π: Q^ret or Q^opc
    bounded: Tensor  # the critic's with bounded weights: Q^ret, also where `critic` is importance sampled


@dataclass(frozen=True)
class Ascent:
    """An output of the critic, and the direction in which it has to go."""

    output: Tensor  # […, T, B]
    direction: Tensor


@dataclass(frozen=True)
class Estimate:
    """What a method makes of a batch."""

    policy: Tensor  # g_i, ascent direction with respect to φ [T, B, n]
    critic: list[Ascent]
    target: Tensor  # what the critic should have said [T, B]
    predicted: Tensor  # what it said [T, B]
    errors: Tensor  # of the critic, with bounded weights at the most [T, B]: what δ is counted in


@dataclass(frozen=True)
class Outcome:
    """What one update saw, kept for `diagnostics`."""

    batch: Batch
    estimate: Estimate
    phi: Tensor  # [T, B, n]
    phi_a: Tensor
    log_rho: Tensor  # [T, B]
    g: Tensor  # what goes back to the policy's output, before the trust region [T, B, n]
    z: Tensor  # after it

    def mean_square(self, errors: Tensor) -> Tensor:
        """Over the live steps. errors: [T, B]."""
        return (errors * self.batch.live).square().sum() / self.batch.live.sum().clamp(min=1)


Constraint = Callable[[Tensor, Tensor], Tensor]
"""(g, k) to λ in z = g − λ k."""

Returns = Callable[[Batch, Tensor, Tensor, Evaluated], Targets]
"""(batch, V [T+1, B], Q(x, a) [T, B], seen) to the returns of every step."""


@dataclass(frozen=True)
class Method:
    """One algorithm: choices among the pure functions, and the constants that they take."""

    distribution: Distribution
    estimate: Callable[["Method", Network, Batch, Evaluated], Estimate]
    constrain: Constraint
    returns: Returns | None = None  # for methods with a Q
    weight: Callable[[Batch, Evaluated], Tensor] | None = None  # for methods with only a V
    off_policy: bool = True  # whether ρ makes up for actions of another policy than θ'
    c: float = 10.0
    samples: int = 0  # of π at every step: a', and u_1 … u_n of the dueling network
    entropy_weight: float = 0.0
    entropy_in_errors: bool = False  # whether that is counted in what the trust region takes for a return of size 1
    critic_weight: float = 1.0

    def noise(self, rng: np.random.Generator, length: int, count: int) -> Tensor:
        """Noise for the samples of π at every step, if there are any."""
        if not self.samples:
            return torch.empty(0)
        return self.distribution.noise(rng, (self.samples, length, count))


def update(
    network: Network,
    average: Policy | None,
    batch: Batch,
    method: Method,
    noise: Tensor,
    unit: float = 1.0,
    slow: Network | None = None,
    burn_in: int = 0,
) -> Outcome:
    """Accumulates dθ and dθ_v of one batch into the network's gradients, for *descent*.

    Sum over time and mean over the B trajectories, as the paper accumulates; dead steps contribute 0. average: none if
    nobody asks how far from it the policy is, neither a trust region nor diagnostics. unit: what the trust region takes
    for a return of size 1. slow: the network whose critic the returns bootstrap from, if there is a slow copy. burn_in:
    first steps that only refresh memories: nothing is learnt from them.
    """
    f, live = method.distribution, batch.live

    # Compute f(·|φ_θ'(x_i)), f(·|φ_θa(x_i)) and ρ_i.
    with torch.no_grad():
        x = network.encoder(batch.observations)
    recall = None if batch.memory is None else Recall.of(batch.memory, live, burn_in)
    output, features = network(x, recall)
    with torch.no_grad():
        legal = batch.masks
        phi = f.statistics(output, legal)
        phi_a = phi[:-1]
        if average is not None:
            phi_a = f.statistics(average(x[:-1], recall)[0], None if legal is None else legal[:-1])
        log_pi = f.log_prob(phi[:-1], batch.actions)
        log_rho = log_pi - f.log_prob(batch.mu, batch.actions)

    # Returns, policy gradient g with respect to φ, errors of the critic.
    estimate = method.estimate(
        method, network, batch, Evaluated(x, recall, features, phi, log_pi, log_rho, noise, slow)
    )

    with torch.no_grad():
        phi = phi[:-1]
        g = estimate.policy
        if method.entropy_weight:
            weight = method.entropy_weight * (unit if method.entropy_in_errors else 1.0)
            g = g + weight * f.entropy_gradient(phi)

        # Trust region: z* = g − λ k per step, before any averaging; both on their way from φ to the network's output.
        k = f.kl_gradient(phi_a, phi)
        multiplier = method.constrain(g / unit, k).clamp(max=torch.finfo(output.dtype).max ** 0.25)  # squared later
        g = f.pullback(phi, g)
        z = unit * constrained(g / unit, f.pullback(phi, k), multiplier)

        # dθ ← dθ + ∂φ/∂θ z*, and dθ_v, as messages to the outputs of the network; negative, for the optimiser descends.
        share = live.to(output.dtype) / -live.shape[1]
        share[:burn_in] = 0
        to_policy = z.to(output.dtype) * share.unsqueeze(-1)
        to_critic = [ascent.direction * (share * method.critic_weight) for ascent in estimate.critic]
    torch.autograd.backward([output[:-1], *(ascent.output for ascent in estimate.critic)], [to_policy, *to_critic])
    counted = torch.cat((torch.zeros_like(live[:burn_in]), live[burn_in:]))
    return Outcome(replace(batch, live=counted), estimate, phi, phi_a, log_rho, g, z)


def action_values(method: Method, network: Network, batch: Batch, seen: Evaluated) -> Estimate:
    """Algorithm 2, with Q(x_i, a) inside the correction's sum as in Equation 9."""
    f, phi = finite(method.distribution), seen.phi[:-1]
    assert method.returns is not None
    every_q = network.action_values(seen.features)
    taken = f.index(batch.actions).unsqueeze(-1)
    q_taken = every_q[:-1].gather(-1, taken).squeeze(-1)
    with torch.no_grad():
        pi = f.log_probs(seen.phi).exp()
        v, q = (pi * every_q).sum(-1), q_taken.detach()
        bootstrap = v, q
        if seen.slow:
            slow_q = seen.slow.action_values(seen.slow.critic_features(seen.x, seen.recall))
            bootstrap = (pi * slow_q).sum(-1), slow_q[:-1].gather(-1, taken).squeeze(-1)
        target = method.returns(batch, *bootstrap, seen)
        expected = gradients.exactly(f, phi, batch.mu, every_q[:-1])
        g = gradients.acer(f, phi, batch.actions, seen.log_rho, v[:-1], target.policy, expected, method.c)
    return Estimate(g, [Ascent(q_taken, target.critic - q)], target.critic, q, target.bounded - q)


def stochastic_dueling(method: Method, network: Network, batch: Batch, seen: Evaluated) -> Estimate:
    """Algorithm 3: stochastic dueling network, Q^opc for the policy, Q^ret and V^target for the critic."""
    f, phi = method.distribution, seen.phi[:-1]
    assert method.returns is not None
    with torch.no_grad():
        samples = f.sample(phi, seen.noise)  # a', u_1 … u_n: constants, so that no gradient of the critic reaches π
    v = network.state_value(seen.features)
    actions = f.encode(torch.cat((batch.actions.unsqueeze(0), samples))).to(phi.dtype)
    advantages = network.advantages(seen.features[:-1], actions)
    with torch.no_grad():
        q, q_sampled = v[:-1] + advantages[:2] - advantages[2:].mean(0)
        bootstrap = v, q
        if seen.slow:
            features = seen.slow.critic_features(seen.x, seen.recall)
            slow_v = seen.slow.state_value(features)
            slow_advantages = seen.slow.advantages(features[:-1], actions)
            bootstrap = slow_v, slow_v[:-1] + slow_advantages[0] - slow_advantages[2:].mean(0)
        target = method.returns(batch, *bootstrap, seen)
        expected = gradients.by_samples(f, phi, batch.mu, samples[:1], q_sampled.unsqueeze(0))
        g = gradients.acer(f, phi, batch.actions, seen.log_rho, v[:-1], target.policy, expected, method.c)
        # (Q^ret − Q̃) ∇Q̃ reaches V, A(a) and each A(u_i); min{1, ρ} (Q^ret − Q̃) ∇V is the step towards V^target.
        error = target.critic - q
        to_v = error + gradients.truncated_weight(seen.log_rho, 1.0) * error
        u = method.samples - 1
        to_u = (-error / u).expand(u, *error.shape)
        to_advantages = torch.cat((error.unsqueeze(0), torch.zeros_like(error).unsqueeze(0), to_u))
    critic = [Ascent(v[:-1], to_v), Ascent(advantages, to_advantages)]
    return Estimate(g, critic, target.critic, q, target.bounded - q)


def stochastic_value_gradient(method: Method, network: Network, batch: Batch, seen: Evaluated) -> Estimate:
    """Algorithm 3 at c = 0 with the gradient of Q̃(x, a') through a' instead of the score's (Section 3.2)."""
    features = seen.features[:-1].detach()
    f = method.distribution
    g = gradients.reparametrised(
        f, seen.phi[:-1], seen.noise[:1], lambda actions: network.advantages(features, f.encode(actions))
    )
    return replace(stochastic_dueling(method, network, batch, seen), policy=g)


def separate(method: Method, network: Network, batch: Batch, seen: Evaluated) -> Estimate:
    """Algorithm 3 without stochastic dueling: separate networks, V learns by ρ (Q^ret − V) ∇V (Appendix E.4)."""
    f, phi = method.distribution, seen.phi[:-1]
    assert method.returns is not None
    with torch.no_grad():
        sampled = f.sample(phi, seen.noise)
    v = network.state_value(seen.features)
    actions = f.encode(torch.cat((batch.actions.unsqueeze(0), sampled))).to(phi.dtype)
    qs = network.separate_values(seen.x[:-1], actions, seen.recall)
    with torch.no_grad():
        q, q_sampled = qs.detach()
        bootstrap = v, q
        if seen.slow:
            slow_v = seen.slow.state_value(seen.slow.critic_features(seen.x, seen.recall))
            bootstrap = slow_v, seen.slow.separate_values(seen.x[:-1], actions[:1], seen.recall).squeeze(0)
        target = method.returns(batch, *bootstrap, seen)
        expected = gradients.by_samples(f, phi, batch.mu, sampled, q_sampled.unsqueeze(0))
        g = gradients.acer(f, phi, batch.actions, seen.log_rho, v[:-1], target.policy, expected, method.c)
        to_v = returns.importance_weight(seen.log_rho) * (target.critic - v[:-1])
        to_q = torch.stack((target.critic - q, torch.zeros_like(q)))
    return Estimate(g, [Ascent(v[:-1], to_v), Ascent(qs, to_q)], target.critic, q, target.bounded - q)


def actor_critic(method: Method, network: Network, batch: Batch, seen: Evaluated) -> Estimate:
    """A3C (Equation 2) with weight 1, TIS (Appendix E.2) with weight min{5, Π ρ}: one error for policy and value."""
    assert method.weight is not None
    v = network.state_value(seen.features)
    with torch.no_grad():
        target = returns.k_step(batch.rewards, batch.discounts, batch.live, v)
        error = method.weight(batch, seen) * (target - v[:-1])
        g = gradients.weighted_score(method.distribution, seen.phi[:-1], batch.actions, error)
    return Estimate(g, [Ascent(v[:-1], error)], target, v[:-1].detach(), error)


@torch.no_grad()
def diagnostics(method: Method, outcome: Outcome) -> dict[str, Tensor]:
    """Means over the live steps of one update that tell whether the learner is well."""
    f, live, phi, log_rho = method.distribution, outcome.batch.live, outcome.phi, outcome.log_rho
    weights = live.to(phi.dtype) / live.sum().clamp(min=1)

    def means(*values: Tensor) -> tuple[Tensor, ...]:
        return (torch.stack(values) * weights).sum((1, 2)).unbind()

    # The projection counts where the gradient of the *parameters* changed: of φ's, softmax may undo what it took away.
    before = outcome.g.square().sum(-1)
    change = (outcome.g - outcome.z).square().sum(-1)
    target = outcome.estimate.target
    squared_error = outcome.mean_square(target - outcome.estimate.predicted)
    (middle,) = means(target)
    active, entropy, kl, variance, above, trace = means(
        (change > 1e-10 * before).to(phi.dtype),
        f.entropy(phi),
        f.kl(outcome.phi_a, phi),
        (target - middle).square(),
        (returns.importance_weight(log_rho) > method.c).to(phi.dtype),
        returns.truncated_trace(log_rho, f.dimensions),
    )
    return {
        "trust_region_active": active,
        "entropy": entropy,
        "kl": kl,
        "q_loss": 0.5 * squared_error,
        "rho_above_c": above,
        "trace": trace,
        "explained_variance": 1 - squared_error / variance.clamp(min=1e-12),
    }


def diagnose(network: Network, gradient: Tensor, outcome: Outcome) -> str:
    """Where numbers stopped being finite: which term, at which step of which trajectory, and in which tensors."""
    terms = {
        "observations": outcome.batch.observations,
        "rewards": outcome.batch.rewards,
        "log ρ": outcome.log_rho,
        "the policy's statistics": outcome.phi,
        "the average policy's statistics": outcome.phi_a,
        "the critic's estimate": outcome.estimate.predicted,
        "the critic's target": outcome.estimate.target,
        "the policy gradient g": outcome.g,
        "the trust region's z": outcome.z,
    }
    where = "in back-propagation"
    for name, values in terms.items():
        broken = ~torch.isfinite(values)
        if broken.any():
            step, trajectory = (int(i) for i in broken.nonzero()[0][:2])
            where = f"first in {name}, at step {step} of trajectory {trajectory}"
            break
    tensors = [name for name, view in views(network, gradient).items() if not torch.isfinite(view).all()]
    return f"{where}; in the gradient of {', '.join(tensors[:3])}{' and others' if len(tensors) > 3 else ''}"
