"""The slow copy of the network: returns bootstrap from its critic; gradients, policy and baseline stay with θ'."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from acer import config
from acer.errors import AcerError
from acer.learner import algorithms
from acer.learner.categorical import Categorical
from acer.learner.distributions import Distribution
from acer.learner.gaussian import Gaussian
from acer.learner.networks import Network
from acer.learner.parameters import SlowCopy
from acer.learner.update import Batch, Method, update
from helpers import Learner, architecture, learner, random_batch

CASES = [("acer", Categorical(3)), ("acer", Gaussian(2, 0.3)), ("no-sdn", Gaussian(2, 0.3))]


def two_critics(algo: str, f: Distribution) -> tuple[Learner, Network, Method, Batch, Tensor]:
    """A learner, a slow network with other parameters, and broken trajectories."""
    own = {} if f.choices else {"advantage_hidden": 4}
    chosen = config.defaults("slow", not f.choices, algo=algo, hidden=(5, 4), trace_lambda=0.8, target_rate=0.1, **own)
    made, other = (learner(architecture(chosen, f), seed) for seed in (1, 2))
    batch = random_batch(f, seed=3, steps=6, count=4)
    batch.live[2, 0] = batch.live[0, 1] = batch.live[5, 2] = False
    batch.discounts[1, 0] = batch.discounts[3, 3] = 0.0
    batch.discounts[~batch.live] = 0.0
    method = algorithms.method(chosen, f)
    return made, other.network, method, batch, method.noise(np.random.default_rng(4), 6, 4).double()


def said(network: Network, policy: Network, f: Distribution, batch: Batch, noise: Tensor) -> tuple[Any, Any]:
    """V(x_t) [T+1, B] and Q(x_t, a_t) [T, B] of a network's critic under another's policy, one number at a time."""
    steps, count = batch.rewards.shape
    v, q = np.zeros((steps + 1, count)), np.zeros((steps, count))
    for b in range(count):
        for t in range(steps + 1):
            x = batch.observations[t, b].double()
            phi = f.statistics(policy.policy(x)[0])
            features = network.critic_features(x)
            if f.choices:
                every = network.action_values(features)
                v[t, b] = sum(float(p.exp() * each) for p, each in zip(phi, every, strict=True))
            else:
                v[t, b] = float(network.state_value(features))
            if t == steps:
                continue
            action = batch.actions[t, b]
            if f.choices:
                q[t, b] = float(every[action])
                continue
            if network.architecture.critic == "separate":
                q[t, b] = float(network.separate_values(x, action.unsqueeze(0))[0])
                continue
            u = [phi + 0.3 * noise[1 + j, t, b] for j in range(len(noise) - 1)]
            mean = sum(float(network.advantages(features, each.unsqueeze(0))[0]) for each in u) / len(u)
            q[t, b] = v[t, b] + float(network.advantages(features, action.unsqueeze(0))[0]) - mean
    return v, q


def retraced(batch: Batch, v: Any, q: Any, trace: Any) -> Any:
    """Q^ret by Algorithm 2's loop, backwards over each trajectory."""
    steps, count = batch.rewards.shape
    out = np.zeros((steps, count))
    for b in range(count):
        ret = v[steps, b]
        for t in reversed(range(steps)):
            if not batch.live[t, b]:
                ret = v[t, b]
                continue
            ret = out[t, b] = float(batch.rewards[t, b]) + float(batch.discounts[t, b]) * ret
            ret = trace[t, b] * (ret - q[t, b]) + v[t, b]
    return out


@pytest.mark.parametrize(("algo", "f"), CASES)
@torch.no_grad()
def test_returns_bootstrap_from_the_slow_critic(algo: str, f: Distribution) -> None:
    made, slow, method, batch, noise = two_critics(algo, f)
    with torch.enable_grad():
        outcome = update(made.network, made.average, batch, method, noise, slow=slow)
    live = batch.live.numpy()
    v, q = said(slow, made.network, f, batch, noise)
    _, own_q = said(made.network, made.network, f, batch, noise)
    trace = 0.8 * np.minimum(1, np.exp(outcome.log_rho.numpy() / f.dimensions))
    target = retraced(batch, v, q, trace)
    np.testing.assert_allclose(outcome.estimate.target.numpy()[live], target[live], rtol=1e-9)
    np.testing.assert_allclose(outcome.estimate.predicted.numpy()[live], own_q[live], rtol=1e-9)
    np.testing.assert_allclose(outcome.estimate.errors.numpy()[live], (target - own_q)[live], rtol=1e-9)


@pytest.mark.parametrize(("algo", "f"), CASES)
def test_a_copy_that_is_the_same_changes_nothing(algo: str, f: Distribution) -> None:
    made, _, method, batch, noise = two_critics(algo, f)
    found = []
    for slow in (None, SlowCopy(made.network, 0.1).network):
        made.home.gradient.zero_()
        update(made.network, made.average, batch, method, noise, slow=slow)
        found.append(made.home.gradient.clone())
    torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.mark.parametrize(("algo", "f"), CASES)
def test_the_gradient_is_that_of_the_live_critic(algo: str, f: Distribution) -> None:
    """½ (target − Q)² with a constant target, by autograd: what reaches A or Q, whose gradient has nothing else."""
    made, slow, method, batch, noise = two_critics(algo, f)
    before = [p.clone() for p in slow.parameters()]
    made.home.gradient.zero_()
    outcome = update(made.network, made.average, batch, method, noise, slow=slow)
    assert all(torch.equal(*pair) for pair in zip(before, slow.parameters(), strict=True))
    assert all(p.grad is None or not p.grad.any() for p in slow.parameters())
    network, x, actions = made.network, batch.observations[:-1], batch.actions
    features = network.critic_features(x)
    if f.choices:
        assert network.q_head is not None
        head, q = network.q_head, network.action_values(features).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    elif algo == "no-sdn":
        assert network.q_action_head is not None
        head, q = network.q_action_head.output, network.separate_values(x, actions.unsqueeze(0)).squeeze(0)
    else:
        assert network.advantage_head is not None
        a = network.advantages(features, torch.cat((actions.unsqueeze(0), f.sample(outcome.phi, noise))))
        head, q = network.advantage_head.output, network.state_value(features) + a[0] - a[2:].mean(0)
    loss = (0.5 * (outcome.estimate.target - q).square() * batch.live).sum(0).mean()
    weight = head.weight
    (expected,) = torch.autograd.grad(loss, [weight])
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, expected)


def test_it_follows_by_its_share() -> None:
    made, *_ = two_critics(*CASES[1])
    copy = SlowCopy(made.network, 0.25)
    began = copy.theta.clone()
    torch.testing.assert_close(began, made.home.theta)
    made.home.theta.add_(4.0)
    assert torch.equal(copy.theta, began)
    copy.follow()
    torch.testing.assert_close(copy.theta, began + 1.0)
    assert torch.equal(next(copy.network.parameters()).reshape(-1)[:3], copy.theta[:3])


def test_a_foreign_copy_is_refused() -> None:
    made, *_ = two_critics(*CASES[0])
    copy = SlowCopy(made.network.float(), 0.25)
    state = copy.state()
    for wrong in (state[:-1], state.astype(np.float64), np.where(np.arange(len(state)) == 1, np.nan, state)):
        with pytest.raises(AcerError, match="slow copy"):
            copy.restore(wrong)


def test_only_an_algorithm_with_a_q_takes_it() -> None:
    with pytest.raises(AcerError, match="--target-rate"):
        config.defaults("CartPole-v1", False, algo="a3c", target_rate=0.1)
