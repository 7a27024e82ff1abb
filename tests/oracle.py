"""Algorithms 2 and 3, literally: one trajectory at a time, loops, NumPy in float64, back-propagation by hand.

Nothing of the package is used but its settings. What has a choice's probabilities in it is computed with 60 decimal
digits: 1/π and 1 − π of a nearly deterministic policy have more than float64 holds. Where the paper leaves a choice:

- the correction's sum has Q(x_i, a), not Q(x_i, a_i);
- the critic ascends (Q^ret − Q(x_i, a_i)) ∇Q(x_i, a_i);
- traces are truncated at 1, weights of the policy gradient at c;
- a step's discount is 0 where its return ends, and a dead step belongs to no episode: it adds nothing, and a return
  that reaches it from the step before ends there with V(x_i), for x_i is the last observation of the episode.

All gradients are for *ascent*, summed over one trajectory. `mean_gradient` takes the mean over trajectories.
"""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext

import numpy as np
from numpy.typing import NDArray

from acer.config import Config

Array = NDArray[np.float64]
Parameters = dict[str, Array]


@dataclass(frozen=True)
class Trajectory:
    """k steps of one environment, and x_k."""

    x: Array  # [k+1, n]
    a: NDArray[np.int64] | Array  # [k], or [k, d]
    r: Array  # [k]
    discount: Array  # [k]
    live: NDArray[np.bool_]  # [k]
    mu: Array  # probabilities [k, A], or means [k, d]
    noise: Array  # standard normal, for a' and u_1 … u_n: [1 + n, k, d]; not used for discrete actions

    @property
    def k(self) -> int:
        return len(self.r)


# --------------------------------------------------------------------------------------------- network


class Network:
    """θ' and dθ' by name. Every forward function returns what its backward function needs."""

    def __init__(self, parameters: Parameters, activation: str) -> None:
        self.theta = parameters
        self.d_theta = {name: np.zeros_like(value) for name, value in parameters.items()}
        self.activation = activation

    def linear(self, name: str, x: Array) -> Array:
        y: Array = self.theta[f"{name}.weight"] @ x
        return y + self.theta[f"{name}.bias"] if f"{name}.bias" in self.theta else y

    def linear_back(self, name: str, x: Array, message: Array) -> Array:
        self.d_theta[f"{name}.weight"] += np.outer(message, x)
        if f"{name}.bias" in self.theta:
            self.d_theta[f"{name}.bias"] += message
        back: Array = self.theta[f"{name}.weight"].T @ message
        return back

    def activate(self, x: Array) -> Array:
        return np.tanh(x) if self.activation == "tanh" else np.maximum(x, 0)

    def activate_back(self, y: Array, message: Array) -> Array:
        """y: what `activate` gave."""
        return message * (1 - y**2) if self.activation == "tanh" else message * (y > 0)

    def torso(self, name: str, x: Array) -> list[Array]:
        """x, and the output of each hidden layer; the last of them are the features."""
        trail = [x]
        while f"{name}.layers.{2 * (len(trail) - 1)}.weight" in self.theta:  # every second layer is an activation
            trail.append(self.activate(self.linear(f"{name}.layers.{2 * (len(trail) - 1)}", trail[-1])))
        return trail

    def torso_back(self, name: str, trail: list[Array], message: Array) -> None:
        for i in reversed(range(len(trail) - 1)):
            message = self.linear_back(f"{name}.layers.{2 * i}", trail[i], self.activate_back(trail[i + 1], message))

    def action_head(self, name: str, features: Array, action: Array) -> tuple[float, Array]:
        """A(x, a) or Q(x, a), and the hidden layer."""
        hidden = self.activate(
            self.linear(f"{name}.from_features", features) + self.linear(f"{name}.from_action", action)
        )
        return float(self.linear(f"{name}.output", hidden)[0]), hidden

    def action_head_back(self, name: str, features: Array, action: Array, hidden: Array, message: float) -> Array:
        """Returns the message to the features; there is none to the action, which is a constant."""
        inner = self.activate_back(hidden, self.linear_back(f"{name}.output", hidden, np.array([message])))
        self.linear_back(f"{name}.from_action", action, inner)
        return self.linear_back(f"{name}.from_features", features, inner)


class State:
    """What the network says of one x: the policy's output and the critic's features, with the way back."""

    def __init__(self, net: Network, x: Array, shared_torso: bool) -> None:
        self.net, self.x = net, x
        self.policy_trail = net.torso("policy.torso", x)
        self.output = net.linear("policy.head", self.policy_trail[-1])
        self.critic_torso = "policy.torso" if shared_torso else "critic_torso"
        self.critic_trail = self.policy_trail if shared_torso else net.torso("critic_torso", x)

    @property
    def features(self) -> Array:
        return self.critic_trail[-1]

    def v(self) -> float:
        return float(self.net.linear("v_head", self.features)[0])

    def policy_back(self, message: Array) -> None:
        """dθ ← dθ + ∂output/∂θ message."""
        features = self.policy_trail[-1]
        self.net.torso_back("policy.torso", self.policy_trail, self.net.linear_back("policy.head", features, message))

    def q_back(self, message: Array) -> None:
        """dθ_v ← dθ_v + Σ_a message(a) ∇Q(x, a)."""
        self._critic_back(self.net.linear_back("q_head", self.features, message))

    def v_back(self, message: float) -> None:
        """dθ_v ← dθ_v + message ∇V(x)."""
        self._critic_back(self.net.linear_back("v_head", self.features, np.array([message])))

    def advantage_back(self, action: Array, message: float) -> None:
        """dθ_v ← dθ_v + message ∇A(x, a)."""
        _, hidden = self.net.action_head("advantage_head", self.features, action)
        self._critic_back(self.net.action_head_back("advantage_head", self.features, action, hidden, message))

    def _critic_back(self, message: Array) -> None:
        self.net.torso_back(self.critic_torso, self.critic_trail, message)


def average_output(average: Parameters, x: Array, activation: str) -> Array:
    """Output of the average policy network, whose names lack the prefix `policy.`."""
    net = Network(average, activation)
    return net.linear("head", net.torso("torso", x)[-1])


# ------------------------------------------------------------------------------------- distributions f


DIGITS = 60
Digits = NDArray[np.object_]  # of Decimals


def digits(values: Array) -> Digits:
    return np.array([Decimal(float(value)) for value in values], object)


def softmax(output: Array) -> Digits:
    e = np.array([value.exp() for value in digits(output)], object)
    return e / e.sum()


def categorical_score(statistic: str, pi: Digits, a: int) -> Digits:
    """∇_φ log f(a|φ)."""
    e = digits(np.eye(len(pi))[a])
    return e - pi if statistic == "logits" else e / pi


def categorical_kl_gradient(statistic: str, pi_a: Digits, pi: Digits) -> Digits:
    """∇_φ Σ_a π_a(a) log (π_a(a) / π(a))."""
    return pi - pi_a if statistic == "logits" else -pi_a / pi


def categorical_entropy_gradient(statistic: str, pi: Digits) -> Digits:
    """∇_φ (−Σ_a π(a) log π(a))."""
    log = np.array([p.ln() for p in pi], object)
    entropy = -sum(pi * log)
    return -pi * (log + entropy) if statistic == "logits" else -log - 1


def categorical_back(statistic: str, pi: Digits, z: Digits) -> Array:
    """∂φ/∂output z, in digits that float64 has."""
    jacobian = np.diag(pi) - np.outer(pi, pi)
    return (z if statistic == "logits" else jacobian @ z).astype(np.float64)


def gaussian_density(mean: Array, sigma: float, a: Array) -> float:
    return float(np.prod(np.exp(-0.5 * ((a - mean) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))))


def gaussian_score(mean: Array, sigma: float, a: Array) -> Array:
    return (a - mean) / sigma**2


def gaussian_kl_gradient(mean_a: Array, mean: Array, sigma: float) -> Array:
    return (mean - mean_a) / sigma**2


# ------------------------------------------------------------------ what the algorithms have in common


def constrained(settings: Config, g: Array | Digits, k: Array | Digits) -> Array | Digits:
    """z*; or the KL penalty, or nothing."""
    number = Decimal if g.dtype == object else float
    if settings.trust_region == "projection":
        excess = k @ g - number(settings.delta)
        return g - max(0, excess / (k @ k)) * k if k.any() else g
    if settings.trust_region == "penalty":
        return g - number(settings.kl_weight) * k
    return g


Carry = Callable[[float, float, float, float, float], float]
"""(R_i, Q(x_i, a_i), V(x_i), ρ_i, π(a_i|x_i)) to what the step before discounts: R_{i−1} = r_{i−1} + γ carry."""


def carries(settings: Config, d: int, continuous: bool) -> tuple[Carry, Carry]:
    """What carries the critic's return backwards, and what carries the policy's."""
    lam = settings.trace_lambda

    def retrace(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return lam * min(1, rho ** (1 / d)) * (ret - q) + v

    def off_policy_corrected(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return (ret - q) + v

    def tree_backup(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return lam * pi * (ret - q) + v

    def degris(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return (1 - lam) * v + lam * rho * ret

    def importance(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return rho * ret

    return {
        "retrace": (retrace, off_policy_corrected if continuous else retrace),
        "tree-backup": (tree_backup, tree_backup),
        "degris": (degris, degris),
        "importance": (importance, importance),
    }[settings.returns]


# ----------------------------------------------------------------------------------------- Algorithm 2


def acer_discrete(net: Network, average: Parameters, settings: Config, tau: Trajectory) -> None:
    """Algorithm 2 on one trajectory, from "for i ∈ {0, …, k}" to the end of the second loop."""
    statistic, c = settings.statistic, Decimal(settings.truncation)
    states, pi, pi_a, q = [], [], [], []
    for i in range(tau.k + 1):
        states.append(State(net, tau.x[i], settings.shared_torso))
        pi.append(softmax(states[i].output))
        pi_a.append(softmax(average_output(average, tau.x[i], settings.activation)))
        q.append(net.linear("q_head", states[i].features))
    carry, _ = carries(settings, d=1, continuous=False)

    q_ret = float(sum(digits(q[tau.k]) * pi[tau.k]))
    for i in reversed(range(tau.k)):
        q_i = digits(q[i])
        v = sum(q_i * pi[i])
        if not tau.live[i]:
            q_ret = float(v)
            continue
        a = int(tau.a[i])
        rho = pi[i] / digits(tau.mu[i])
        q_ret = tau.r[i] + tau.discount[i] * q_ret

        g = min(c, rho[a]) * categorical_score(statistic, pi[i], a) * (Decimal(float(q_ret)) - v)
        for b in range(len(rho)):
            g = g + max(0, 1 - c / rho[b]) * pi[i][b] * categorical_score(statistic, pi[i], b) * (q_i[b] - v)
        g = g + Decimal(settings.entropy_weight) * categorical_entropy_gradient(statistic, pi[i])
        k = categorical_kl_gradient(statistic, pi_a[i], pi[i])
        states[i].policy_back(categorical_back(statistic, pi[i], constrained(settings, g, k)))

        message = np.zeros_like(q[i])
        message[a] = settings.critic_weight * (q_ret - q[i][a])
        states[i].q_back(message)

        q_ret = carry(q_ret, q[i][a], float(v), float(rho[a]), float(pi[i][a]))


# ----------------------------------------------------------------------------------------- Algorithm 3


def acer_continuous(net: Network, average: Parameters, settings: Config, tau: Trajectory) -> None:
    """Algorithm 3 on one trajectory; with `no-sdn`, V and Q by separate networks (Appendix E.4)."""
    sigma, c, n, separate = settings.sigma, settings.truncation, settings.sdn_samples, settings.algo == "no-sdn"
    d = tau.a.shape[1]
    states = [State(net, x, settings.shared_torso) for x in tau.x]
    v = [state.v() for state in states]
    carry_ret, carry_opc = carries(settings, d, continuous=True)

    q_ret = q_opc = v[tau.k]
    for i in reversed(range(tau.k)):
        if not tau.live[i]:
            q_ret = q_opc = v[i]
            continue
        state, a = states[i], tau.a[i]
        phi = state.output
        phi_a = average_output(average, tau.x[i], settings.activation)
        sampled = phi + sigma * tau.noise[0, i]
        rho = gaussian_density(phi, sigma, a) / gaussian_density(tau.mu[i], sigma, a)
        rho_sampled = gaussian_density(phi, sigma, sampled) / gaussian_density(tau.mu[i], sigma, sampled)
        if separate:
            q_trail = net.torso("q_torso", tau.x[i])
            q, hidden = net.action_head("q_action_head", q_trail[-1], a)
            q_sampled, _ = net.action_head("q_action_head", q_trail[-1], sampled)
        else:
            u = [phi + sigma * tau.noise[1 + j, i] for j in range(n)]
            baseline = sum(net.action_head("advantage_head", state.features, u_j)[0] for u_j in u) / n
            q = v[i] + net.action_head("advantage_head", state.features, a)[0] - baseline
            q_sampled = v[i] + net.action_head("advantage_head", state.features, sampled)[0] - baseline

        q_ret = tau.r[i] + tau.discount[i] * q_ret
        q_opc = tau.r[i] + tau.discount[i] * q_opc

        g = min(c, rho) * gaussian_score(phi, sigma, a) * (q_opc - v[i])
        g = g + max(0, 1 - c / rho_sampled) * (q_sampled - v[i]) * gaussian_score(phi, sigma, sampled)
        k = gaussian_kl_gradient(phi_a, phi, sigma)
        state.policy_back(constrained(settings, g, k))

        error = settings.critic_weight * (q_ret - q)
        if separate:
            back = net.action_head_back("q_action_head", q_trail[-1], a, hidden, error)
            net.torso_back("q_torso", q_trail, back)
            state.v_back(settings.critic_weight * rho * (q_ret - v[i]))
        else:
            state.v_back(error)  # ∇Q̃ = ∇V + ∇A(a) − (1/n) Σ_j ∇A(u_j)
            state.advantage_back(a, error)
            for u_j in u:
                state.advantage_back(u_j, -error / n)
            v_target = min(1, rho) * (q_ret - q) + v[i]  # Equation 14
            state.v_back(settings.critic_weight * (v_target - v[i]))

        density = gaussian_density(phi, sigma, a)
        q_ret = carry_ret(q_ret, q, v[i], rho, density)
        q_opc = carry_opc(q_opc, q, v[i], rho, density)


# ------------------------------------------------------------------------- A3C (Equation 2), TIS (E.2)


def actor_critic(net: Network, average: Parameters, settings: Config, tau: Trajectory) -> None:
    """k-step returns with a V baseline; TIS weighs each by min{5, Π ρ} over the steps whose rewards it counts."""
    continuous, truncated = tau.a.ndim == 2, settings.algo in ("tis", "trust-tis")
    statistic, sigma = settings.statistic, settings.sigma
    states = [State(net, x, settings.shared_torso) for x in tau.x]

    rho = np.zeros(tau.k)
    for i in range(tau.k):
        phi, a = states[i].output, tau.a[i]
        if continuous:
            rho[i] = gaussian_density(phi, sigma, a) / gaussian_density(tau.mu[i], sigma, a)
        else:
            rho[i] = float(softmax(phi)[a]) / tau.mu[i][a]

    ret = states[tau.k].v()
    for i in reversed(range(tau.k)):
        state, a, v = states[i], tau.a[i], states[i].v()
        if not tau.live[i]:
            ret = v
            continue
        ret = tau.r[i] + tau.discount[i] * ret
        weight = 1.0
        if truncated:
            j = i
            weight = rho[j]
            while tau.discount[j] > 0 and j + 1 < tau.k and tau.live[j + 1]:
                j += 1
                weight *= rho[j]
            weight = min(settings.tis_bound, weight)
        error = weight * (ret - v)

        phi_a = average_output(average, tau.x[i], settings.activation)
        if continuous:
            phi = state.output
            g = error * gaussian_score(phi, sigma, a)
            z = constrained(settings, g, gaussian_kl_gradient(phi_a, phi, sigma))
        else:
            pi, pi_a = softmax(state.output), softmax(phi_a)
            g = Decimal(float(error)) * categorical_score(statistic, pi, int(a))
            g = g + Decimal(settings.entropy_weight) * categorical_entropy_gradient(statistic, pi)
            k = categorical_kl_gradient(statistic, pi_a, pi)
            z = categorical_back(statistic, pi, constrained(settings, g, k))
        state.policy_back(z)
        state.v_back(settings.critic_weight * error)


def mean_gradient(
    parameters: Parameters, average: Parameters, settings: Config, trajectories: list[Trajectory]
) -> Parameters:
    """dθ and dθ_v, for ascent: summed over the steps of each trajectory, mean over trajectories."""
    with localcontext(prec=DIGITS):
        return _mean_gradient(parameters, average, settings, trajectories)


def _mean_gradient(
    parameters: Parameters, average: Parameters, settings: Config, trajectories: list[Trajectory]
) -> Parameters:
    total = {name: np.zeros_like(value) for name, value in parameters.items()}
    for tau in trajectories:
        net = Network(parameters, settings.activation)
        if settings.algo in ("a3c", "trust-a3c", "tis", "trust-tis"):
            actor_critic(net, average, settings, tau)
        elif tau.a.ndim == 2:
            acer_continuous(net, average, settings, tau)
        else:
            acer_discrete(net, average, settings, tau)
        for name, value in net.d_theta.items():
            total[name] += value / len(trajectories)
    return total
