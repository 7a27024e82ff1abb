"""Section 7 and Appendix C: the operators as linear systems, and what the corrected gradient is in expectation."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from acer.learner import gradients, theory
from acer.learner.categorical import Categorical, Statistic
from acer.learner.gaussian import Gaussian

TOLERANCE = 1e-10
TRUNCATIONS = [0.0, 0.5, 1.0, 10.0, math.inf]


@dataclass(frozen=True)
class Problem:
    mdp: theory.MDP
    pi: theory.Array
    mu: theory.Array
    q: theory.Array  # any estimate, far from Q^π


def problem(seed: int, concentration: float = 1.0) -> Problem:
    rng = np.random.default_rng(seed)
    states, actions, gamma = int(rng.integers(1, 7)), int(rng.integers(2, 6)), float(rng.uniform(0, 0.99))
    mdp = theory.random_mdp(rng, states, actions, gamma)
    pi, mu = (theory.random_policy(rng, states, actions, concentration) for _ in range(2))
    return Problem(mdp, pi, mu, rng.normal(0, 10, (states, actions)))


@pytest.fixture(scope="module")
def problems() -> list[Problem]:
    """200 MDPs; every second one with nearly deterministic policies, so that ρ spans many orders of magnitude."""
    return [problem(seed, 1.0 if seed % 2 else 0.3) for seed in range(200)]


def close(a: theory.Array, b: theory.Array) -> bool:
    return bool(np.abs(a - b).max() <= TOLERANCE * max(1.0, float(np.abs(b).max())))


@pytest.mark.parametrize("c", TRUNCATIONS)
def test_truncation_with_correction_is_retrace(problems: list[Problem], c: float) -> None:
    for p in problems:
        assert close(theory.operator_b(p.mdp, p.pi, p.mu, p.q, c), theory.retrace(p.mdp, p.pi, p.mu, p.q, c))


@pytest.mark.parametrize("c", TRUNCATIONS)
def test_fixed_point_is_the_value_of_pi(problems: list[Problem], c: float) -> None:
    for p in problems:
        q_pi = theory.state_action_values(p.mdp, p.pi)
        assert close(theory.operator_b(p.mdp, p.pi, p.mu, q_pi, c), q_pi)
        assert close(theory.bellman(p.mdp, p.pi, q_pi), q_pi)


@pytest.mark.parametrize("c", TRUNCATIONS)
def test_contraction_is_at_most_gamma(problems: list[Problem], c: float) -> None:
    """Proposition 1, on the whole operator (its matrix norm) and on the step towards Q^π that the paper writes down."""
    for p in problems:

        def operator(q: theory.Array, p: Problem = p) -> theory.Array:
            return theory.operator_b(p.mdp, p.pi, p.mu, q, c)

        factor = theory.contraction(operator, p.q.shape)
        assert factor <= p.mdp.gamma + TOLERANCE
        q_pi = theory.state_action_values(p.mdp, p.pi)
        assert np.abs(operator(p.q) - q_pi).max() <= p.mdp.gamma * np.abs(p.q - q_pi).max() + TOLERANCE


def test_contraction_runs_from_gamma_to_nothing(problems: list[Problem]) -> None:
    """γ C − (C − 1), the proof's bound, is γ when traces are cut at once (C = 1), and falls as they grow longer."""
    for p in problems:
        factors = [
            theory.contraction(lambda q, c=c, p=p: theory.operator_b(p.mdp, p.pi, p.mu, q, c), p.q.shape)
            for c in TRUNCATIONS
        ]
        assert factors[0] == pytest.approx(p.mdp.gamma, abs=TOLERANCE)
        assert factors[-1] == pytest.approx(0, abs=TOLERANCE)
        assert all(long <= short + TOLERANCE for short, long in itertools.pairwise(factors))


def test_contraction_of_an_unsafe_trace_exceeds_gamma() -> None:
    """The bound is no accident of the measure: with trace 1, Q(λ) without importance weights, it does not hold."""
    p = problem(seed=3, concentration=0.1)

    def uncut(q: theory.Array) -> theory.Array:
        errors = theory.bellman(p.mdp, p.pi, q) - q
        steps = (p.mdp.transitions[..., None] * p.mu).reshape(q.size, q.size)
        return q + np.linalg.solve(np.eye(q.size) - p.mdp.gamma * steps, errors.reshape(-1)).reshape(q.shape)

    assert theory.contraction(uncut, p.q.shape) > p.mdp.gamma + 0.1


def test_no_trace_is_the_bellman_operator(problems: list[Problem]) -> None:
    for p in problems:
        assert close(theory.operator_b(p.mdp, p.pi, p.mu, p.q, 0.0), theory.bellman(p.mdp, p.pi, p.q))


def test_unbounded_trace_is_importance_sampling(problems: list[Problem]) -> None:
    for p in problems:
        sampled = theory.importance_sampling(p.mdp, p.pi, p.mu)
        assert close(theory.operator_b(p.mdp, p.pi, p.mu, p.q, math.inf), sampled)
        assert close(sampled, theory.state_action_values(p.mdp, p.pi))


@pytest.mark.parametrize("c", [0.0, 0.5, 1.0, 10.0])
def test_correction_stands_in_for_actions_that_mu_never_takes(c: float) -> None:
    """With finite c even a μ without some of π's actions leads to Q^π; plain importance sampling does not."""
    p = problem(seed=5)
    mu = p.mu.copy()
    mu[:, 0] = 0
    mu /= mu.sum(1, keepdims=True)
    q_pi = theory.state_action_values(p.mdp, p.pi)
    assert close(theory.operator_b(p.mdp, p.pi, mu, p.q, c), theory.retrace(p.mdp, p.pi, mu, p.q, c))
    assert close(theory.operator_b(p.mdp, p.pi, mu, q_pi, c), q_pi)
    assert not close(theory.importance_sampling(p.mdp, p.pi, mu), q_pi)


@pytest.mark.parametrize("c", TRUNCATIONS)
def test_linear_systems_are_the_sums_over_time(c: float) -> None:
    """The expectations of Equation 20 and of Retrace, summed step by step from each (x, a) without a linear system."""
    rng = np.random.default_rng(1)
    states, actions, gamma = 3, 2, 0.5
    mdp = theory.random_mdp(rng, states, actions, gamma)
    pi, mu = (theory.random_policy(rng, states, actions, 0.5) for _ in range(2))
    q, rho = rng.normal(0, 10, (states, actions)), pi / mu
    b, r = np.zeros_like(q), q.copy()
    for x in range(states):
        for a in range(actions):
            weight = np.zeros_like(q)  # γ^t Π ρ̄ times the probability under μ of being at each (x_t, a_t)
            weight[x, a] = 1.0
            for _ in range(60):  # γ^60 is below float64's precision
                arriving = np.zeros(states)
                for y in range(states):
                    corrected = sum(pi[y, e] * max(0.0, 1 - c / rho[y, e]) * q[y, e] for e in range(actions))
                    expected = sum(pi[y, e] * q[y, e] for e in range(actions))
                    for z in range(states):
                        for e in range(actions):
                            flow = weight[z, e] * mdp.transitions[z, e, y]
                            arriving[y] += gamma * flow
                            b[x, a] += flow * (mdp.rewards[z, e] + gamma * corrected)
                            r[x, a] += flow * (mdp.rewards[z, e] + gamma * expected - q[z, e])
                weight = arriving[:, None] * mu * np.minimum(c, rho)
    assert close(theory.operator_b(mdp, pi, mu, q, c), b)
    assert close(theory.retrace(mdp, pi, mu, q, c), r)


def tensor(values: theory.Array) -> torch.Tensor:
    return torch.from_numpy(np.array(values))


@pytest.mark.parametrize("statistic", ["logits", "probabilities"])
@pytest.mark.parametrize("c", TRUNCATIONS)
def test_corrected_gradient_has_the_untruncated_expectation(c: float, statistic: Statistic) -> None:
    """Σ_a μ(a|x) ĝ(x, a) = Σ_a μ(a|x) ρ(x, a) ∇_φ log f(a|φ) [Q^π(x, a) − V^π(x)], whatever c (Section 3.2)."""
    for seed in range(200):
        p = problem(seed)
        q = theory.state_action_values(p.mdp, p.pi)
        v = (p.pi * q).sum(1)
        states, actions = q.shape
        f = Categorical(actions, statistic)

        expected = np.zeros_like(q)
        for x in range(states):
            for a in range(actions):
                score = np.eye(actions)[a] - p.pi[x] if statistic == "logits" else np.eye(actions)[a] / p.pi[x]
                expected[x] += p.mu[x, a] * (p.pi[x, a] / p.mu[x, a]) * score * (q[x, a] - v[x])

        # All states are one batch; action a is "taken" in each of them, with the probability that μ gives it there.
        phi, mu, values = tensor(np.log(p.pi)), tensor(np.log(p.mu)), tensor(v)
        found = np.zeros_like(q)
        for a in range(actions):
            taken = torch.full((states,), a)
            log_rho = f.log_prob(phi, taken) - f.log_prob(mu, taken)
            expected_value = gradients.exactly(f, phi, mu, tensor(q))
            g = gradients.acer(f, phi, taken, log_rho, values, tensor(q[:, a]), expected_value, c)
            found += p.mu[:, a, None] * g.numpy()
        assert np.abs(found - expected).max() <= TOLERANCE


@pytest.mark.parametrize("c", [0.5, 1.0, 10.0])
def test_truncation_alone_is_biased(c: float) -> None:
    """The test above is not true of any weights: without the correction the expectation is another one."""
    p = problem(seed=4, concentration=0.3)
    q = theory.state_action_values(p.mdp, p.pi)
    v = (p.pi * q).sum(1, keepdims=True)
    truncated = p.mu * theory.truncated_weight(p.pi, p.mu, c) * (q - v)
    assert np.abs(truncated - p.pi * (q - v)).max() > 1e-3


@pytest.mark.parametrize("c", TRUNCATIONS)
@pytest.mark.parametrize("shift", [-0.35, 0.0, 0.2])
def test_corrected_gaussian_gradient_has_the_untruncated_expectation(c: float, shift: float) -> None:
    """With Q(a) = sin(ω a), E_{a∼π}[Q] = sin(ω φ) exp(−ω² σ² / 2); ĝ must be its derivative in φ, on average."""
    sigma, phi, omega, v = 0.3, 0.15, 2.0, 0.4
    f, mean = Gaussian(1, sigma), phi + shift

    def expectation(centre: float, kinks: list[float]) -> tuple[torch.Tensor, torch.Tensor]:
        """Nodes and weights for E[·] under N(centre, σ²), in pieces between the points where ĝ has a kink."""
        edges = sorted([centre - 9 * sigma, centre + 9 * sigma, *kinks])
        unit, unit_weights = np.polynomial.legendre.leggauss(80)
        nodes = np.concatenate([(lo + hi) / 2 + (hi - lo) / 2 * unit for lo, hi in itertools.pairwise(edges)])
        weights = np.concatenate([(hi - lo) / 2 * unit_weights for lo, hi in itertools.pairwise(edges)])
        density = np.exp(-0.5 * ((nodes - centre) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))
        return tensor(nodes).unsqueeze(-1), tensor(weights * density)

    # log ρ is linear in a, so ρ = c at one point at most.
    kink = (phi + mean) / 2 - sigma**2 * math.log(c) / shift if shift and 0 < c < math.inf else math.nan
    taken, taken_weights = expectation(mean, [kink] if abs(kink - mean) < 9 * sigma else [])
    drawn, drawn_weights = expectation(phi, [kink] if abs(kink - phi) < 9 * sigma else [])

    def gradient(actions: torch.Tensor, sampled: torch.Tensor) -> torch.Tensor:
        count = len(actions)
        at, mu = (torch.full((count, 1), centre, dtype=torch.float64) for centre in (phi, mean))
        q, q_sampled = ((omega * a).sin().squeeze(-1) for a in (actions, sampled))
        values = torch.full((count,), v, dtype=torch.float64)
        log_rho = f.log_prob(at, actions) - f.log_prob(mu, actions)
        drawn = gradients.by_samples(f, at, mu, sampled.unsqueeze(0), q_sampled.unsqueeze(0))
        return gradients.acer(f, at, actions, log_rho, values, q, drawn, c).squeeze(-1)

    # The two terms do not mix: each expectation is taken with the other's action where its advantage vanishes.
    nowhere = math.asin(v) / omega
    truncated = (gradient(taken, torch.full_like(taken, nowhere)) * taken_weights).sum()
    correction = (gradient(torch.full_like(drawn, nowhere), drawn) * drawn_weights).sum()
    expected = omega * math.cos(omega * phi) * math.exp(-0.5 * (omega * sigma) ** 2)
    assert float(truncated + correction) == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("c", TRUNCATIONS)
def test_the_learners_weights_are_those_of_the_theory(problems: list[Problem], c: float) -> None:
    for p in problems[1::2]:
        log_rho = tensor(np.log(p.pi) - np.log(p.mu))
        assert close(gradients.truncated_weight(log_rho, c).numpy(), theory.truncated_weight(p.pi, p.mu, c))
        assert close(gradients.correction_weight(log_rho, c).numpy(), theory.correction_weight(p.pi, p.mu, c))


def test_value_target_has_the_value_as_its_expectation(problems: list[Problem]) -> None:
    """Appendix D: E_μ[min{1, ρ} Q^π] + E_π[[1 − 1/ρ]_+ Q^π] = V^π, hence E_μ[V^target] = V^π where Q = Q^π."""
    for p in problems:
        q = theory.state_action_values(p.mdp, p.pi)
        kept = p.mu * theory.truncated_weight(p.pi, p.mu, 1.0) * q
        corrected = p.pi * theory.correction_weight(p.pi, p.mu, 1.0) * q
        assert close((kept + corrected).sum(1), (p.pi * q).sum(1))
