"""Bugs that public implementations of ACER have or had: one test for each, listed in KNOWN_BUGS.md.

Every test here was seen to fail with its bug put into the package.
"""

import dataclasses
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from acer import config
from acer.config import Config
from acer.envs import EnvBatch
from acer.homes.local import Local
from acer.learner import actor_learner as updates
from acer.learner import algorithms, gradients, returns, trust_region
from acer.learner.actor_learner import ActorLearner, Agent
from acer.learner.categorical import Categorical, MultiCategorical, Statistic
from acer.learner.gaussian import Gaussian
from acer.learner.memory import Recall
from acer.learner.update import Batch, Estimate, Method
from helpers import (
    Arrays,
    Counter,
    Learner,
    architecture,
    counting_rollout,
    learner,
    random_batch,
    step_of,
    trajectories,
    trajectory_of,
)


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def discrete(**settings: Any) -> tuple[Learner, Method, Batch]:
    """Three actions, a small torso, trajectories of 3 steps in 4 environments; π_a away from π."""
    chosen = replace(config.defaults("bugs", continuous=False), **{"hidden": (4,), "entropy_weight": 0.0, **settings})
    f = Categorical(3, chosen.statistic)
    made = learner(architecture(chosen, f), seed=1)
    return made, algorithms.method(chosen, f), random_batch(f, seed=2, steps=3, count=4)


def continuous(**settings: Any) -> tuple[Learner, Method, Batch, Tensor]:
    """Two action dimensions; otherwise as above."""
    chosen = replace(config.defaults("bugs", continuous=True), **{"hidden": (4,), "entropy_weight": 0.0, **settings})
    f = Gaussian(2, 0.3)
    made = learner(architecture(chosen, f), seed=1)
    method = algorithms.method(chosen, f)
    noise = method.noise(np.random.default_rng(3), 3, 4).double()
    return made, method, random_batch(f, seed=2, steps=3, count=4), noise


def policy_part(grads: Arrays) -> Arrays:
    return {name: value for name, value in grads.items() if name.startswith("policy.")}


def assert_same(found: Arrays, expected: Arrays) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-12, err_msg=name)


# ------------------------------------------------------------------------------------ the trust region


def test_projection_changes_the_gradient_of_the_parameters() -> None:
    made, method, batch = discrete(delta=0.001)
    projected = policy_part(made.gradients(batch, method))
    free = policy_part(made.gradients(batch, replace(method, constrain=trust_region.free)))
    for name, value in free.items():
        assert np.abs(projected[name] - value).max() > 0.01 * np.abs(value).max(), name

    # One step alone: what arrives at the logits is −z, and it meets the bound exactly where g exceeded it.
    f = method.distribution
    pushed = 0
    for b in range(4):
        step = step_of(batch, 0, b)
        with torch.no_grad():
            x = step.observations[0, 0]
            k = f.kl_gradient(f.statistics(made.average(x)[0]), f.statistics(made.network.policy(x)[0])).numpy()
        g = -made.gradients(step, replace(method, constrain=trust_region.free))["policy.head.bias"]
        z = -made.gradients(step, method)["policy.head.bias"]
        if k @ g > 0.001:
            pushed += 1
            assert k @ z == pytest.approx(0.001, rel=1e-9)
    assert pushed > 0


def test_each_step_meets_delta_before_anything_is_averaged() -> None:
    """With γ = 0, an update is the sum over time and the mean over trajectories of the updates of its steps alone."""
    made, method, batch = discrete(delta=0.05)
    batch = replace(batch, discounts=torch.zeros_like(batch.discounts))
    whole = made.gradients(batch, method)
    total = {name: np.zeros_like(value) for name, value in whole.items()}
    for t in range(3):
        for b in range(4):
            for name, value in made.gradients(step_of(batch, t, b), method).items():
                total[name] += value / 4
    assert_same(whole, total)
    # The bound is at work here: it would be a weaker test otherwise.
    free = made.gradients(batch, replace(method, constrain=trust_region.free))
    assert np.abs(free["policy.head.bias"] - whole["policy.head.bias"]).max() > 1e-3


def project(g: Tensor, k: Tensor, delta: float) -> Tensor:
    return trust_region.constrained(g, k, trust_region.projection(g, k, delta))


def test_projection_divides_by_the_square_of_k() -> None:
    """k = (3, 4), g = (5, 5), δ = 10: kᵀz must come down from 35 to 10. Divided by ‖g‖² = 50 it would be 22.5."""
    k, g = tensor(3, 4), tensor(5, 5)
    assert float(k @ project(g, k, 10.0)) == pytest.approx(10)


def test_projection_moves_along_k() -> None:
    """The same numbers: z = g − 1 · (3, 4) = (2, 1). Without the factor k it would be (4, 4)."""
    torch.testing.assert_close(project(tensor(5, 5), tensor(3, 4), 10.0), tensor(2, 1))


# --------------------------------------------------------------------------------- the average network


def actor_learner(**settings: Any) -> ActorLearner:
    """Environments that count their steps: one, and one step at a time, unless `settings` say more."""
    small = {
        "environments": 1,
        "trajectories_per_update": 1,
        "trajectory_length": 1,
        "replay_start": 1,
        "replay_capacity": 100,
        "hidden": (2,),
    }
    chosen: Config = config.defaults("counter", continuous=False, **{**small, **settings})
    env = EnvBatch.of([lambda: Counter(5, truncates=False)] * chosen.environments, "counter", workers=False)
    agent = Agent(chosen, env.observation, env.action, seed=0, make_home=Local)
    return ActorLearner(agent, env, np.random.SeedSequence(0))


def test_average_network_moves() -> None:
    """Its policy is another one after some learning, and lags behind the learner's."""
    learning = actor_learner(learning_rate=0.1, alpha=0.9)
    agent = learning.agent
    x = torch.tensor([[0.0, 2.0]])
    before = agent.average(x)[0].detach().clone()
    for _ in range(5):
        learning.iterate()
    now, ahead = agent.average(x)[0].detach(), agent.network.policy(x)[0].detach()
    assert (now - before).abs().max() > 1e-4
    assert not torch.allclose(now, ahead)


def test_average_network_moves_in_every_layer() -> None:
    """θ_a ← α θ_a + (1 − α) θ, tensor by tensor: the torso's as well as the head's."""
    made, method, batch = discrete()
    made.home.constants = dataclasses.replace(made.home.constants, alpha=0.75)
    before = made.average_parameters()
    made.gradients(batch, method)
    made.home.push(made.home.gradient, rate=0.1)
    ahead, after = made.parameters(), made.average_parameters()
    assert set(after) == {"torso.layers.0.weight", "torso.layers.0.bias", "head.weight", "head.bias"}
    for name, value in after.items():
        assert not np.array_equal(value, before[name]), name
        np.testing.assert_allclose(value, 0.75 * before[name] + 0.25 * ahead[f"policy.{name}"], err_msg=name)


# --------------------------------------------------------------------------------- the policy gradient


@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
def test_entropy_reaches_the_parameters(statistic: Statistic) -> None:
    """No rewards and Q = 0: all that is left of the policy's gradient is that of its entropy, here by autograd."""
    made, method, batch = discrete(entropy_weight=0.5, statistic=statistic, trust_region="none", shared_torso=False)
    assert made.network.q_head is not None
    made.network.q_head.weight.data.zero_()
    made.network.q_head.bias.data.zero_()
    found = policy_part(made.gradients(replace(batch, rewards=torch.zeros_like(batch.rewards)), method))

    made.home.gradient.zero_()
    entropy = torch.distributions.Categorical(logits=made.network.policy(batch.observations[:-1])[0]).entropy()
    (-0.5 * entropy.sum(0).mean()).backward()
    expected = {name: p.grad.numpy() for name, p in made.network.named_parameters() if p.grad is not None}
    assert_same(found, policy_part(expected))
    assert all(value.any() for value in found.values())


PI, MU, Q, V = tensor(0.5, 0.25, 0.25), tensor(1, 1, 1) / 3, tensor(1, 2, 6), 2.5


def correction(action: int, ret: float, c: float) -> Tensor:
    """ĝ less its first term, min{c, ρ} (Q^ret − V) ∇ log f(a_t): what is left is the bias correction."""
    value, returned = torch.tensor(V, dtype=torch.float64), torch.tensor(ret, dtype=torch.float64)
    f, phi, mu, taken = Categorical(3), PI.log(), MU.log(), torch.tensor(action)
    log_rho = f.log_prob(phi, taken) - f.log_prob(mu, taken)
    g = gradients.acer(f, phi, taken, log_rho, value, returned, gradients.exactly(f, phi, mu, Q), c)
    one_hot = torch.eye(3, dtype=torch.float64)[action]
    return g - (PI / MU)[action].clamp(max=c) * (ret - V) * (one_hot - PI)


def test_correction_uses_each_actions_own_value() -> None:
    """At c = 1 only action 0 has ρ = 1.5 above c: ⅓ · ½ (Q(0) − V) (1 − π(0), −π(1), −π(2)), whatever was taken."""
    for action in range(3):
        torch.testing.assert_close(correction(action, ret=V, c=1.0), tensor(-0.125, 0.0625, 0.0625))


def test_correction_does_not_use_the_return() -> None:
    """The same numbers, though Q^ret says that action 0 was splendid, or terrible."""
    for ret in (-100.0, 0.0, 100.0):
        torch.testing.assert_close(correction(0, ret, c=1.0), tensor(-0.125, 0.0625, 0.0625))


def test_correction_is_weighted_by_the_policy() -> None:
    """At c = 0 it is π(a) (Q(a) − V): ½ (1 − 2.5), ¼ (2 − 2.5), ¼ (6 − 2.5); the sum, taken off with π, is 0."""
    torch.testing.assert_close(correction(0, ret=0.0, c=0.0), tensor(-0.75, -0.125, 0.875))


def test_ratio_is_joint_over_the_actions_dimensions() -> None:
    """ρ = e · e · e⁻¹ = e in three dimensions: one weight for the whole score, neither three of them nor their mean."""
    f = Gaussian(3, sigma=1.0)
    phi, actions = tensor(1, 1, 1), tensor(1.5, 1.5, -0.5)
    mu = torch.zeros(3, dtype=torch.float64)  # per dimension log ρ = a − ½: 1, 1, −1
    zero, one = tensor(0).squeeze(), tensor(1).squeeze()
    log_rho = f.log_prob(phi, actions) - f.log_prob(mu, actions)
    expected = gradients.by_samples(f, phi, mu, phi.unsqueeze(0), zero.unsqueeze(0))
    g = gradients.acer(f, phi, actions, log_rho, zero, one, expected, c=10.0)
    torch.testing.assert_close(g, math.e * (actions - phi))
    bounded = gradients.acer(f, phi, actions, log_rho, zero, one, expected, c=2.0)
    torch.testing.assert_close(bounded, 2 * (actions - phi))


def test_ratio_is_joint_over_the_parts_of_an_action() -> None:
    """ρ = 2 · 1.5 = 3 in two parts: one weight for the score of both, neither 2 for the one and 1.5 for the other, nor
    their mean; and the correction is of joint actions too."""
    f = MultiCategorical((2, 2))
    phi, mu = tensor(0.5, 0.5, 0.75, 0.25).log(), tensor(0.25, 0.75, 0.5, 0.5).log()
    actions, zero, one = torch.tensor([0, 0]), tensor(0).squeeze(), tensor(1).squeeze()
    log_rho = f.log_prob(phi, actions) - f.log_prob(mu, actions)
    assert float(log_rho.exp()) == pytest.approx(3)
    nothing = gradients.exactly(f, phi, mu, torch.zeros(4, dtype=torch.float64))
    g = gradients.acer(f, phi, actions, log_rho, zero, one, nothing, c=10.0)
    torch.testing.assert_close(g, 3 * tensor(0.5, -0.5, 0.25, -0.25))
    # ρ is 3, 1, 1 and ⅓: at c = 2 only (0, 0) is above it, with (1 − ⅔) · π = ⅓ · ⅜.
    expected = gradients.exactly(f, phi, mu, tensor(1, 0, 0, 0))
    correction = gradients.acer(f, phi, actions, log_rho, zero, zero, expected, c=2.0)
    torch.testing.assert_close(correction, 0.125 * tensor(0.5, -0.5, 0.25, -0.25))


def test_illegal_actions_are_no_part_of_the_correction() -> None:
    """An illegal action has no part in V, in the correction's sum or in the policy's gradient, whatever its Q. Without
    the mask π gives it a probability, μ none, so that its ρ is above every c."""
    made, method, batch = discrete(shared_torso=False, truncation=1.0, entropy_weight=0.1)
    masks = torch.ones(4, 4, 3, dtype=torch.bool)
    masks[..., 1] = False
    f = method.distribution
    batch = replace(batch, masks=masks, actions=0 * batch.actions, mu=f.statistics(batch.mu, masks[:-1]))
    before = made.gradients(batch, method)
    assert not before["policy.head.bias"][1] and before["policy.head.bias"].any()
    assert made.network.q_head is not None
    made.network.q_head.bias.data[1] = 1e6
    assert_same(made.gradients(batch, method), before)


@pytest.mark.parametrize("algo", ["acer", "a3c", "tis"])
@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_trajectories_do_not_mix(algo: str, kind: str) -> None:
    """The gradient of four trajectories is the mean of each one's alone; an N×N broadcast makes each pay for all."""
    if kind == "discrete":
        made, method, batch = discrete(algo=algo)
        noise = torch.empty(0)
    else:
        made, method, batch, noise = continuous(algo=algo)
    whole = made.gradients(batch, method, noise)
    alone = [
        made.gradients(trajectory_of(batch, b), method, noise[:, :, b : b + 1] if noise.numel() else noise)
        for b in range(4)
    ]
    assert_same(whole, {name: np.mean([grads[name] for grads in alone], axis=0) for name in whole})


def test_critic_does_not_reach_the_policy_through_its_samples() -> None:
    """u_i ∼ π are constants to the critic: with the policy's own message silenced, nothing reaches its parameters."""
    made, method, batch, noise = continuous(shared_torso=False)

    def silenced(*arguments: Any) -> Estimate:
        estimate = method.estimate(*arguments)
        return replace(estimate, policy=torch.zeros_like(estimate.policy))

    grads = made.gradients(batch, replace(method, estimate=silenced, constrain=trust_region.free), noise)
    assert all(not value.any() for value in policy_part(grads).values())
    assert all(grads[name].any() for name in ("advantage_head.from_action.weight", "v_head.weight"))


# -------------------------------------------------------------------------- the boundaries of episodes


def rows(t: dict[str, Tensor], values: Tensor) -> dict[str, Tensor]:
    """Every return of one trajectory, with Q = V − 1 and ρ = 2."""
    steps = (t["rewards"], t["discounts"], t["live"], values)
    q, rho = values[:-1] - 1, torch.full_like(t["rewards"], 2.0)
    return {
        "retrace": returns.retrace(*steps, q, returns.truncated_trace(rho.log())),
        "off_policy_corrected": returns.off_policy_corrected(*steps, q),
        "tree_backup": returns.tree_backup(*steps, q, rho / 4),
        "k_step": returns.k_step(*steps),
        "degris": returns.degris(*steps, rho, lambda_=0.5),
        "importance_sampling": returns.degris(*steps, rho),
    }


def value_of(observations: Tensor) -> Tensor:
    """V(x) = 100 · step + 1000 · episode."""
    return 100 * observations[:, 1] + 1000 * observations[:, 0]


def test_bootstraps_from_the_next_state() -> None:
    """Two steps of a longer episode, γ = ½: the last return is r_1 + V(x_2)/2 = 2 + 100, and not 2 + V(x_1)/2 = 52."""
    t = next(trajectories(counting_rollout(5, k=2, truncates=False)))
    assert t["observations"].tolist() == [[0, 0], [0, 1], [0, 2]]
    for name, found in rows(t, value_of(t["observations"])).items():
        assert float(found[-1]) == 102, name


def test_time_limit_is_not_a_termination() -> None:
    """Cut by a limit after its third step, an episode's return goes on with V of its true last observation."""
    t = next(trajectories(counting_rollout(3, k=6, truncates=True)))
    assert t["live"].tolist() == [True, True, True, False, True, True]
    for name, found in rows(t, value_of(t["observations"])).items():
        assert float(found[2]) == 3 + 0.5 * 300, name
    ended = next(trajectories(counting_rollout(3, k=6, truncates=False)))
    for name, found in rows(ended, value_of(ended["observations"])).items():
        assert float(found[2]) == 3, name


@pytest.mark.parametrize("truncates", [False, True])
def test_trace_stops_at_the_end_of_an_episode(truncates: bool) -> None:
    """What the next episode holds does not change the returns of this one, nor TIS's product of weights."""
    t = next(trajectories(counting_rollout(2, k=6, truncates=truncates)))
    assert t["live"].tolist() == [True, True, False, True, True, False]
    values = value_of(t["observations"])
    later = {**t, "rewards": t["rewards"] + tensor(0, 0, 0, 7, 7, 0)}
    other_values = values + tensor(0, 0, 0, 5, 5, 5, 5)
    before, after = rows(t, values), rows(later, other_values)
    for name, found in before.items():
        assert found[:2].tolist() == after[name][:2].tolist(), name
        assert float(found[1]) == 2 + (0.5 * 200 if truncates else 0), name
    weights = returns.truncated_product(torch.full((6,), math.log(1.5)), t["discounts"], t["live"], bound=100)
    assert weights[:2].tolist() == pytest.approx([1.5**2, 1.5])


@pytest.mark.parametrize("truncates", [False, True])
def test_episode_that_ends_on_a_trajectorys_last_step(truncates: bool) -> None:
    """The next trajectory begins with the dead step, and learns nothing from it."""
    rollout = counting_rollout(3, k=3, truncates=truncates)
    stream = trajectories(rollout)
    first, second = next(stream), next(stream)
    assert first["live"].all()
    last = rows(first, value_of(first["observations"]))["retrace"][-1]
    assert float(last) == 3 + (0.5 * 300 if truncates else 0)
    assert second["live"].tolist() == [False, True, True]
    assert second["observations"].tolist() == [[0, 3], [1, 0], [1, 1], [1, 2]]
    assert second["rewards"].tolist() == [0, 1, 2]
    assert second["discounts"][0] == 0

    f, chosen = Categorical(2), config.defaults("bugs", continuous=False, hidden=(4,))
    made = learner(architecture(chosen, f, observation=2), seed=0)
    method = algorithms.method(chosen, f)

    def gradient(action: int) -> Arrays:
        columns = {name: value.unsqueeze(1) for name, value in second.items()}
        columns["actions"] = columns["actions"].clone()
        columns["actions"][0] = action
        return made.gradients(Batch(**columns), method)

    assert_same(gradient(1), gradient(0))


# --------------------------------------------------------------------------------------------- memory


def recurrent(**settings: Any) -> tuple[Learner, Method, Batch]:
    """Trajectories of 5 steps for a policy that remembers, and what it remembered before them; π_a is π."""
    made, method, _ = discrete(recurrent="gru", memory_size=3, shared_torso=False, **settings)
    made.home.theta_a.copy_(made.home.theta[: len(made.home.theta_a)])
    batch = random_batch(method.distribution, seed=2, steps=5, count=4)
    memory = torch.randn(1, 4, made.network.remembers, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return made, method, replace(batch, memory=memory)


def steps_from(batch: Batch, start: int, memory: Tensor) -> Batch:
    """The batch without its first steps."""
    later = {name: of[start:] for name, of in vars(batch).items() if of is not None and name != "memory"}
    return Batch(**later, memory=memory)


def test_burn_in_refreshes_the_memory_and_teaches_nothing() -> None:
    """Two steps of it: the same as a trajectory without them that begins with what θ' remembers after them."""
    made, method, batch = recurrent()
    assert batch.memory is not None
    recall = Recall.of(batch.memory, batch.live)
    with torch.no_grad():
        x = batch.observations
        after = torch.cat((made.network.policy(x, recall)[1][1], made.network.critic_features(x, recall)[1]), -1)
    expected = made.gradients(steps_from(batch, 2, after.unsqueeze(0)), method)
    assert_same(made.gradients(batch, method, burn_in=2), expected)
    for stale in (batch.memory, torch.zeros_like(batch.memory)):
        other = made.gradients(steps_from(batch, 2, stale), method)
        assert np.abs(other["policy.head.bias"] - expected["policy.head.bias"]).max() > 1e-3


def test_memory_is_empty_where_an_episode_begins() -> None:
    """An episode that ends with step 1, and another that begins behind the dead step: the sum of both alone."""
    made, method, batch = recurrent()
    assert batch.memory is not None
    batch.live[2] = False
    batch.discounts[1:3] = 0
    first = {name: of[: 3 if name == "observations" else 2] for name, of in vars(batch).items() if of is not None}
    first["memory"] = batch.memory
    alone = made.gradients(Batch(**first), method)
    later = made.gradients(steps_from(batch, 3, torch.zeros_like(batch.memory)), method)
    assert_same(made.gradients(batch, method), {name: of + later[name] for name, of in alone.items()})


def test_the_behaviour_forgets_at_an_episodes_end() -> None:
    """What it stored of an episode's first step is that of a policy that remembers nothing, wherever in a trajectory
    the step is; what it remembers before a trajectory is stored with it."""
    learning = actor_learner(recurrent="gru", memory_size=3, trajectory_length=5)
    agent, places = learning.agent, set()
    for p in agent.network.parameters():
        p.data.normal_(generator=torch.Generator().manual_seed(p.numel()))
    for _ in range(7):
        before = learning.rollout.memory.copy()
        trajectory, _ = learning.rollout.collect(learning._act)
        assert trajectory.memory is not None and np.array_equal(trajectory.memory[0], before)
        for t in range(5):
            x, mu = trajectory.observations[t], trajectory.mu[t]
            fresh = agent.act(x, None, None, agent.memory(1))[1]
            if x[0, 1] == 0 and trajectory.live[t]:
                places.add(t)
                np.testing.assert_array_equal(mu, fresh)
            else:
                assert not np.array_equal(mu, fresh)
    assert places == {0, 1, 2, 3, 4}


# ------------------------------------------------------------------------------------- the master loop


def test_replays_are_a_poisson_draw() -> None:
    """Mean and variance are both the ratio; a fixed count has no variance, and never 0 or twice the ratio."""
    learning = actor_learner(replay_ratio=2.0)
    counts = [learning.iterate().replays for _ in range(200)]
    # Five standard errors: of the mean √(r/n), of the variance about r √(2/n + 1/(r n)).
    assert np.mean(counts) == pytest.approx(2, abs=5 * math.sqrt(2 / 200))
    assert np.var(counts) == pytest.approx(2, abs=5 * 2 * math.sqrt(2 / 200 + 1 / 400))
    assert min(counts) == 0 and max(counts) >= 4


@pytest.mark.parametrize("algo", ["a3c", "trust-a3c"])
def test_what_no_weight_corrects_is_learnt_with_the_policy_that_acted(
    algo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several updates of one on-policy call: ρ is 1 in all of them, though each moves θ."""
    learning = actor_learner(algo=algo, environments=4, trajectories_per_update=1, trajectory_length=4)
    largest, update = [], updates.update

    def watched(*arguments: Any) -> Any:
        outcome = update(*arguments)
        largest.append(float((outcome.log_rho * outcome.batch.live).abs().max()))
        return outcome

    monkeypatch.setattr(updates, "update", watched)
    before = learning.agent.home.theta.clone()  # type: ignore[attr-defined]
    report = learning.iterate()
    assert report.updates == len(largest) == 4 and max(largest) < 1e-5
    assert (learning.agent.home.theta - before).abs().max() > 0.01  # type: ignore[attr-defined]  # more than one step
