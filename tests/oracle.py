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

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

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
    mu: Array  # φ of μ [k, n]: probabilities, or means and what else a Gaussian has
    noise: Array  # standard, for a' and u_1 … u_n: [1 + n, k, d]; not used where actions are listed
    legal: NDArray[np.bool_]  # choices [k+1, n]; True for everything where nothing is masked
    memory: Array | None = None  # what a recurrent policy remembered before x_0, a part for each of its memories
    burn_in: int = 0  # steps from which nothing is learnt

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

    def action_gradient(self, name: str, hidden: Array) -> Array:
        """∇_a of the head's output: its weights on the action, as far as their units are on."""
        inner = self.activate_back(hidden, self.theta[f"{name}.output.weight"][0])
        gradient: Array = self.theta[f"{name}.from_action.weight"].T @ inner
        return gradient


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


class Memory:
    """One gated recurrent unit over one trajectory, step by step, with the way back through time.

    r = σ(W_ir x + b_ir + W_hr h + b_hr)
    z = σ(W_iz x + b_iz + W_hz h + b_hz)
    n = tanh(W_in x + b_in + r (W_hn h + b_hn))
    h' = (1 − z) n + z h
    """

    def __init__(self, net: Network, memory: str, torso: str, tau: Trajectory, place: int) -> None:
        """place: which part of what was remembered is this memory's."""
        self.net, self.name, self.torso, self.burn_in = net, f"{memory}.cell", torso, tau.burn_in
        size = net.theta[f"{self.name}.weight_hh"].shape[1]
        assert tau.memory is not None
        h = tau.memory[place * size : (place + 1) * size]
        self.trails: list[list[Array]] = []
        self.before: list[Array] = []  # h at each step
        self.begins: list[bool] = []
        self.after: list[Array] = []  # h', the features that the heads read
        for t, x in enumerate(tau.x):
            begins = t > 0 and not tau.live[t - 1]  # the observation after a dead step is an episode's first
            h = np.zeros(size) if begins else h
            trail = net.torso(torso, x)
            self.trails.append(trail)
            self.before.append(h)
            self.begins.append(begins)
            _, z, n, _ = self.gates(trail[-1], h)
            h = (1 - z) * n + z * h
            self.after.append(h)
        self.messages = [np.zeros(size) for _ in tau.x]

    def gates(self, x: Array, h: Array) -> tuple[Array, Array, Array, Array]:
        """r, z, n, and W_hn h + b_hn."""
        theta, name = self.net.theta, self.name
        of_x = np.split(theta[f"{name}.weight_ih"] @ x + theta[f"{name}.bias_ih"], 3)
        of_h = np.split(theta[f"{name}.weight_hh"] @ h + theta[f"{name}.bias_hh"], 3)
        r, z = sigmoid(of_x[0] + of_h[0]), sigmoid(of_x[1] + of_h[1])
        return r, z, np.tanh(of_x[2] + r * of_h[2]), of_h[2]

    def back(self) -> None:
        """dθ ← dθ + Σ_t ∂h'_t/∂θ message_t, from the last step to the first that is learnt from."""
        later = np.zeros_like(self.messages[0])
        d_theta, theta, name = self.net.d_theta, self.net.theta, self.name
        for t in reversed(range(self.burn_in, len(self.messages))):
            trail, h = self.trails[t], self.before[t]
            r, z, n, inner = self.gates(trail[-1], h)
            message = self.messages[t] + later
            to_n = message * (1 - z) * (1 - n**2)
            to_z = message * (h - n) * z * (1 - z)
            to_r = to_n * inner * r * (1 - r)
            to_x, to_h = np.concatenate((to_r, to_z, to_n)), np.concatenate((to_r, to_z, to_n * r))
            d_theta[f"{name}.weight_ih"] += np.outer(to_x, trail[-1])
            d_theta[f"{name}.bias_ih"] += to_x
            d_theta[f"{name}.weight_hh"] += np.outer(to_h, h)
            d_theta[f"{name}.bias_hh"] += to_h
            self.net.torso_back(self.torso, trail, theta[f"{name}.weight_ih"].T @ to_x)
            later = message * z + theta[f"{name}.weight_hh"].T @ to_h
            if self.begins[t]:
                later = np.zeros_like(later)


class Memories:
    """All memories of a network over one trajectory; none if it has none."""

    def __init__(self, net: Network, settings: Config, tau: Trajectory) -> None:
        self.of: dict[str, Memory] = {}
        if settings.recurrent != "no":
            places = [("policy.memory", "policy.torso")]
            if not settings.shared_torso:
                places.append(("critic_memory", "critic_torso"))
            if "q_memory.cell.weight_hh" in net.theta:
                places.append(("q_memory", "q_torso"))
            self.of = {torso: Memory(net, memory, torso, tau, i) for i, (memory, torso) in enumerate(places)}

    def back(self) -> None:
        for memory in self.of.values():
            memory.back()


class State:
    """What the network says of one x: the policy's output and the critic's features, with the way back."""

    def __init__(self, net: Network, tau: Trajectory, i: int, shared_torso: bool, memories: Memories) -> None:
        self.net, self.x, self.i, self.memories = net, tau.x[i], i, memories
        self.policy_trail = self.trail("policy.torso")
        self.output = net.linear("policy.head", self.policy_trail[-1])
        if "policy.free" in net.theta:
            self.output = np.concatenate((self.output, net.theta["policy.free"]))
        self.critic_torso = "policy.torso" if shared_torso else "critic_torso"
        self.critic_trail = self.policy_trail if shared_torso else self.trail("critic_torso")

    def trail(self, torso: str) -> list[Array]:
        """The outputs of a torso's layers; the last are what the heads read, a memory's if there is one."""
        memory = self.memories.of.get(torso)
        return self.net.torso(torso, self.x) if memory is None else [memory.after[self.i]]

    def back(self, torso: str, trail: list[Array], message: Array) -> None:
        """A message to what the heads read."""
        memory = self.memories.of.get(torso)
        if memory is None:
            self.net.torso_back(torso, trail, message)
        else:
            memory.messages[self.i] += message

    @property
    def features(self) -> Array:
        return self.critic_trail[-1]

    def v(self) -> float:
        return float(self.net.linear("v_head", self.features)[0])

    def policy_back(self, message: Array) -> None:
        """dθ ← dθ + ∂output/∂θ message."""
        features = self.policy_trail[-1]
        if "policy.free" in self.net.theta:
            message, free = np.split(message, [-len(self.net.theta["policy.free"])])
            self.net.d_theta["policy.free"] += free
        self.back("policy.torso", self.policy_trail, self.net.linear_back("policy.head", features, message))

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
        self.back(self.critic_torso, self.critic_trail, message)


def average_outputs(average: Parameters, tau: Trajectory, settings: Config) -> list[Array]:
    """Outputs of the average policy network, whose names lack the prefix `policy.`; its memory begins with what the
    behaviour's held."""
    net = Network(average, settings.activation)
    if settings.recurrent == "no":
        features = [net.torso("torso", x)[-1] for x in tau.x]
    else:
        features = Memory(net, "memory", "torso", tau, 0).after
    outputs = [net.linear("head", of) for of in features]
    return [np.concatenate((output, average["free"])) if "free" in average else output for output in outputs]


# ------------------------------------------------------------------------------------- distributions f


DIGITS = 60
Digits = NDArray[np.object_]  # of Decimals


def digits(values: Array) -> Digits:
    return np.array([Decimal(float(value)) for value in values], object)


class Choices:
    """One choice or several at once; φ is the probabilities of all parts, one part after the other, 0 where a choice is
    illegal. `statistic` says in which coordinates gradients are."""

    number = Decimal

    def __init__(self, sizes: tuple[int, ...], statistic: str) -> None:
        self.sizes, self.statistic = sizes, statistic
        self.starts = [sum(sizes[:i]) for i in range(len(sizes))]

    def parts(self, vector: Any) -> list[Any]:
        return [vector[start : start + size] for start, size in zip(self.starts, self.sizes, strict=True)]

    def phi(self, output: Array, legal: NDArray[np.bool_]) -> Digits:
        """Softmax over the legal choices of each part."""
        result = []
        for y, allowed in zip(self.parts(output), self.parts(legal), strict=True):
            e = [Decimal(float(value)).exp() if ok else Decimal(0) for value, ok in zip(y, allowed, strict=True)]
            result += [value / sum(e) for value in e]
        return np.array(result, object)

    def of_mu(self, mu: Array) -> Digits:
        return digits(mu)

    def places(self, a: Any) -> list[int]:
        """Where in φ the choices of an action are."""
        return [start + int(choice) for start, choice in zip(self.starts, np.atleast_1d(a), strict=True)]

    def listed(self) -> list[tuple[int, ...]]:
        return list(itertools.product(*(range(size) for size in self.sizes)))

    def density(self, phi: Digits, a: Any) -> Decimal:
        return Decimal(math.prod(phi[place] for place in self.places(a)))

    def sample(self, phi: Digits, noise: Array) -> Array:
        """The first choice of each part at which the cumulative probability exceeds the noise."""
        choices = []
        for pi, u in zip(self.parts(phi), noise, strict=True):
            passed = [total > Decimal(float(u)) for total in itertools.accumulate(pi)]
            choices.append(passed.index(True))
        return np.array(choices, np.float64)

    def encode(self, a: Array) -> Array:
        one_hot = np.zeros(sum(self.sizes))
        one_hot[self.places(a)] = 1
        return one_hot

    def score(self, phi: Digits, a: Any) -> Digits:
        """∇_φ log f(a|φ), of an action that is legal."""
        e = digits(self.encode(a))
        if self.statistic == "logits":
            return e - phi
        return np.array([at / p if p else p for at, p in zip(e, phi, strict=True)], object)

    def kl_gradient(self, phi_a: Digits, phi: Digits) -> Digits:
        """∇_φ Σ_a π_a(a) log (π_a(a) / π(a)), over the legal choices of every part."""
        if self.statistic == "logits":
            return phi - phi_a
        return np.array([-p_a / p if p else p for p_a, p in zip(phi_a, phi, strict=True)], object)

    def entropy_gradient(self, phi: Digits) -> Digits:
        """∇_φ (−Σ_a π(a) log π(a)), over the legal choices of every part."""
        result = []
        for pi in self.parts(phi):
            entropy = -sum(p * p.ln() for p in pi if p)
            for p in pi:
                of_probability = -p.ln() - 1 if p else p
                result.append(-p * (p.ln() + entropy) if self.statistic == "logits" and p else of_probability)
        return np.array(result, object)

    def back(self, phi: Digits, output: Array, z: Digits) -> Array:
        """∂φ/∂output z, in digits that float64 has."""
        if self.statistic == "logits":
            return z.astype(np.float64)
        backs = [(np.diag(pi) - np.outer(pi, pi)) @ z_i for pi, z_i in zip(self.parts(phi), self.parts(z), strict=True)]
        return np.concatenate(backs).astype(np.float64)


def narrowing(mean: float, sigma: float) -> tuple[float, float]:
    """∇ of E log(1 − tanh² u), u = m + σ ξ, by m and by log σ: quadrature with 32 nodes, one after the other."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(32)
    of_mean = of_log = 0.0
    for xi, weight in zip(nodes, weights, strict=True):
        slope = -2 * np.tanh(mean + sigma * xi) * weight / np.sqrt(2 * np.pi)
        of_mean += slope
        of_log += slope * sigma * xi
    return of_mean, of_log


class FixedGaussian:
    """φ is the mean."""

    number = float

    def __init__(self, sigma: float, bounded: bool, squashed: bool) -> None:
        self.sigma, self.bounded, self.squashed = sigma, bounded, squashed

    def phi(self, output: Array, legal: NDArray[np.bool_]) -> Array:
        return np.tanh(output) if self.bounded else output

    def of_mu(self, mu: Array) -> Array:
        return mu

    def density(self, mean: Array, a: Array) -> float:
        sigma = self.sigma
        return float(np.prod(np.exp(-0.5 * ((a - mean) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))))

    def sample(self, mean: Array, noise: Array) -> Array:
        return mean + self.sigma * noise

    def encode(self, a: Array) -> Array:
        return np.tanh(a) if self.squashed else a

    def by_noise(self, of_action: Array, mean: Array, noise: Array) -> Array:
        """(∂a/∂φ)ᵀ of a = φ + σ ξ, or of its tanh."""
        return of_action / np.cosh(self.sample(mean, noise)) ** 2 if self.squashed else of_action

    def score(self, mean: Array, a: Array) -> Array:
        return (a - mean) / self.sigma**2

    def kl_gradient(self, mean_a: Array, mean: Array) -> Array:
        return (mean - mean_a) / self.sigma**2

    def entropy_gradient(self, mean: Array) -> Array:
        if not self.squashed:
            return np.zeros_like(mean)
        return np.array([narrowing(m, self.sigma)[0] for m in mean])

    def back(self, mean: Array, output: Array, z: Array) -> Array:
        return z / np.cosh(output) ** 2 if self.bounded else z


class LearntGaussian:
    """φ is the means, then the logarithms of the deviations: log σ_0 + log 10 tanh(y / log 10) of the output's y."""

    number = float

    def __init__(self, sigma: float, bounded: bool, squashed: bool) -> None:
        self.sigma, self.bounded, self.squashed = sigma, bounded, squashed

    def phi(self, output: Array, legal: NDArray[np.bool_]) -> Array:
        d = len(output) // 2
        mean = np.tanh(output[:d]) if self.bounded else output[:d]
        return np.concatenate((mean, np.log(self.sigma) + np.log(10) * np.tanh(output[d:] / np.log(10))))

    def of_mu(self, mu: Array) -> Array:
        return mu

    def split(self, phi: Array) -> tuple[Array, Array]:
        """Mean and σ."""
        d = len(phi) // 2
        return phi[:d], np.exp(phi[d:])

    def density(self, phi: Array, a: Array) -> float:
        mean, sigma = self.split(phi)
        return float(np.prod(np.exp(-0.5 * ((a - mean) / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))))

    def sample(self, phi: Array, noise: Array) -> Array:
        mean, sigma = self.split(phi)
        return mean + sigma * noise

    def encode(self, a: Array) -> Array:
        return np.tanh(a) if self.squashed else a

    def by_noise(self, of_action: Array, phi: Array, noise: Array) -> Array:
        """(∂a/∂φ)ᵀ of a = m + σ ξ, or of its tanh, by m and by log σ."""
        if self.squashed:
            of_action = of_action / np.cosh(self.sample(phi, noise)) ** 2
        return np.concatenate((of_action, of_action * self.split(phi)[1] * noise))

    def score(self, phi: Array, a: Array) -> Array:
        mean, sigma = self.split(phi)
        return np.concatenate(((a - mean) / sigma**2, (a - mean) ** 2 / sigma**2 - 1))

    def kl_gradient(self, phi_a: Array, phi: Array) -> Array:
        """∇ of Σ log(σ/σ_a) + (σ_a² + (m_a − m)²) / 2σ² − ½, by m and by log σ."""
        (mean_a, sigma_a), (mean, sigma) = self.split(phi_a), self.split(phi)
        of_log = 1 - (sigma_a**2 + (mean_a - mean) ** 2) / sigma**2
        return np.concatenate(((mean - mean_a) / sigma**2, of_log))

    def entropy_gradient(self, phi: Array) -> Array:
        """Of Σ log σ + constant, and of what tanh takes away."""
        d = len(phi) // 2
        gradient = np.concatenate((np.zeros(d), np.ones(d)))
        if self.squashed:
            for i, (mean, sigma) in enumerate(zip(*self.split(phi), strict=True)):
                of_mean, of_log = narrowing(mean, sigma)
                gradient[i] += of_mean
                gradient[d + i] += of_log
        return gradient

    def back(self, phi: Array, output: Array, z: Array) -> Array:
        d = len(phi) // 2
        of_mean = z[:d] / np.cosh(output[:d]) ** 2 if self.bounded else z[:d]
        return np.concatenate((of_mean, z[d:] / np.cosh(output[d:] / np.log(10)) ** 2))


Policy = Choices | FixedGaussian | LearntGaussian


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
        return lam * min(1, rho ** (1 / d if by_root else 1)) * (ret - q) + v

    def off_policy_corrected(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return (ret - q) + v

    def tree_backup(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return lam * pi * (ret - q) + v

    def degris(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return (1 - lam) * v + lam * rho * ret

    def importance(ret: float, q: float, v: float, rho: float, pi: float) -> float:
        return rho * ret

    by_root = continuous and settings.trace_weight == "root"
    of_policy = {"auto": off_policy_corrected if continuous else retrace, "retrace": retrace,
                 "off-policy-corrected": off_policy_corrected}[settings.policy_returns]  # fmt: skip
    return {
        "retrace": (retrace, of_policy),
        "tree-backup": (tree_backup, tree_backup),
        "degris": (degris, degris),
        "importance": (importance, importance),
    }[settings.returns]


# ----------------------------------------------------------------------------------------- Algorithm 2


def acer_discrete(net: Network, average: Parameters, settings: Config, f: Choices, tau: Trajectory) -> None:
    """Algorithm 2 on one trajectory, from "for i ∈ {0, …, k}" to the end of the second loop."""
    c, listed = Decimal(settings.truncation), f.listed()
    states, phi, phi_a, q = [], [], [], []
    memories, outputs_a = Memories(net, settings, tau), average_outputs(average, tau, settings)
    for i in range(tau.k + 1):
        states.append(State(net, tau, i, settings.shared_torso, memories))
        phi.append(f.phi(states[i].output, tau.legal[i]))
        phi_a.append(f.phi(outputs_a[i], tau.legal[i]))
        q.append(net.linear("q_head", states[i].features))
    carry_ret, carry_policy = carries(settings, d=1, continuous=False)

    def state_value(i: int) -> Decimal:
        return Decimal(sum(Decimal(float(q[i][n])) * f.density(phi[i], b) for n, b in enumerate(listed)))

    q_ret = q_policy = float(state_value(tau.k))
    for i in reversed(range(tau.k)):
        v = state_value(i)
        if not tau.live[i]:
            q_ret = q_policy = float(v)
            continue
        a = tuple(int(choice) for choice in np.atleast_1d(tau.a[i]))
        taken, mu = listed.index(a), f.of_mu(tau.mu[i])
        rho = f.density(phi[i], a) / f.density(mu, a)
        q_ret = tau.r[i] + tau.discount[i] * q_ret
        q_policy = tau.r[i] + tau.discount[i] * q_policy

        g = min(c, rho) * f.score(phi[i], a) * (Decimal(float(q_policy)) - v)
        for n, b in enumerate(listed):
            pi_b = f.density(phi[i], b)
            if pi_b:  # of the legal actions
                weight = max(0, 1 - c / (pi_b / f.density(mu, b))) * pi_b
                g = g + weight * f.score(phi[i], b) * (Decimal(float(q[i][n])) - v)
        g = g + Decimal(settings.entropy_weight) * f.entropy_gradient(phi[i])
        k = f.kl_gradient(phi_a[i], phi[i])
        message = np.zeros_like(q[i])
        message[taken] = settings.critic_weight * (q_ret - q[i][taken])
        if i >= tau.burn_in:
            states[i].policy_back(f.back(phi[i], states[i].output, constrained(settings, g, k)))
            states[i].q_back(message)

        rest = q[i][taken], float(v), float(rho), float(f.density(phi[i], a))
        q_ret, q_policy = carry_ret(q_ret, *rest), carry_policy(q_policy, *rest)
    memories.back()


# ----------------------------------------------------------------------------------------- Algorithm 3


def acer_continuous(net: Network, average: Parameters, settings: Config, f: Policy, tau: Trajectory) -> None:
    """Algorithm 3 on one trajectory; with `no-sdn`, V and Q by separate networks (Appendix E.4)."""
    c, n, separate = settings.truncation, settings.sdn_samples, settings.algo == "no-sdn"
    d = tau.a.shape[1]
    memories, outputs_a = Memories(net, settings, tau), average_outputs(average, tau, settings)
    states = [State(net, tau, i, settings.shared_torso, memories) for i in range(tau.k + 1)]
    v = [state.v() for state in states]
    carry_ret, carry_opc = carries(settings, d, continuous=True)

    q_ret = q_opc = v[tau.k]
    for i in reversed(range(tau.k)):
        if not tau.live[i]:
            q_ret = q_opc = v[i]
            continue
        state, a = states[i], tau.a[i]
        phi = f.phi(state.output, tau.legal[i])
        phi_a = f.phi(outputs_a[i], tau.legal[i])
        mu = f.of_mu(tau.mu[i])
        sampled = f.sample(phi, tau.noise[0, i])
        rho = float(f.density(phi, a) / f.density(mu, a))
        rho_sampled = float(f.density(phi, sampled) / f.density(mu, sampled))
        if separate:
            q_trail = state.trail("q_torso")
            q, hidden = net.action_head("q_action_head", q_trail[-1], f.encode(a))
            q_sampled, _ = net.action_head("q_action_head", q_trail[-1], f.encode(sampled))
        else:
            u = [f.sample(phi, tau.noise[1 + j, i]) for j in range(n)]
            baseline = sum(net.action_head("advantage_head", state.features, f.encode(u_j))[0] for u_j in u) / n
            q = v[i] + net.action_head("advantage_head", state.features, f.encode(a))[0] - baseline
            q_sampled = v[i] + net.action_head("advantage_head", state.features, f.encode(sampled))[0] - baseline

        q_ret = tau.r[i] + tau.discount[i] * q_ret
        q_opc = tau.r[i] + tau.discount[i] * q_opc

        g = f.number(min(c, rho) * (q_opc - v[i])) * f.score(phi, a)
        g = g + f.number(max(0, 1 - c / rho_sampled) * (q_sampled - v[i])) * f.score(phi, sampled)
        if settings.correction_gradient == "reparametrised":  # a' = φ + σ u; at c = 0 the first term is 0
            _, hidden = net.action_head("advantage_head", state.features, f.encode(sampled))
            g = f.by_noise(net.action_gradient("advantage_head", hidden), phi, tau.noise[0, i])
        g = g + f.number(settings.entropy_weight) * f.entropy_gradient(phi)
        k = f.kl_gradient(phi_a, phi)
        learns = i >= tau.burn_in
        if learns:
            state.policy_back(f.back(phi, state.output, constrained(settings, g, k)))

        error = settings.critic_weight * (q_ret - q)
        if not learns:
            pass
        elif separate:
            back = net.action_head_back("q_action_head", q_trail[-1], f.encode(a), hidden, error)
            state.back("q_torso", q_trail, back)
            state.v_back(settings.critic_weight * rho * (q_ret - v[i]))
        else:
            state.v_back(error)  # ∇Q̃ = ∇V + ∇A(a) − (1/n) Σ_j ∇A(u_j)
            state.advantage_back(f.encode(a), error)
            for u_j in u:
                state.advantage_back(f.encode(u_j), -error / n)
            v_target = min(1, rho) * (q_ret - q) + v[i]  # Equation 14
            state.v_back(settings.critic_weight * (v_target - v[i]))

        density = float(f.density(phi, a))
        q_ret = carry_ret(q_ret, q, v[i], rho, density)
        q_opc = carry_opc(q_opc, q, v[i], rho, density)
    memories.back()


# ------------------------------------------------------------------------- A3C (Equation 2), TIS (E.2)


def actor_critic(net: Network, average: Parameters, settings: Config, f: Policy, tau: Trajectory) -> None:
    """k-step returns with a V baseline; TIS weighs each by min{5, Π ρ} over the steps whose rewards it counts."""
    truncated = settings.algo in ("tis", "trust-tis")
    memories, outputs_a = Memories(net, settings, tau), average_outputs(average, tau, settings)
    states = [State(net, tau, i, settings.shared_torso, memories) for i in range(tau.k + 1)]
    phi = [f.phi(state.output, legal) for state, legal in zip(states, tau.legal, strict=True)]
    rho = np.ones(tau.k)
    for i in range(tau.k):
        if tau.live[i]:
            rho[i] = float(f.density(phi[i], tau.a[i]) / f.density(f.of_mu(tau.mu[i]), tau.a[i]))

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

        g = f.number(float(error)) * f.score(phi[i], a)
        g = g + f.number(settings.entropy_weight) * f.entropy_gradient(phi[i])
        k = f.kl_gradient(f.phi(outputs_a[i], tau.legal[i]), phi[i])
        if i >= tau.burn_in:
            state.policy_back(f.back(phi[i], state.output, constrained(settings, g, k)))
            state.v_back(settings.critic_weight * error)
    memories.back()


def mean_gradient(
    parameters: Parameters,
    average: Parameters,
    settings: Config,
    f: Policy,
    listed: bool,
    trajectories: list[Trajectory],
) -> Parameters:
    """dθ and dθ_v, for ascent: summed over the steps of each trajectory, mean over trajectories.

    listed: whether there is a Q for every action, as in Algorithm 2.
    """
    total = {name: np.zeros_like(value) for name, value in parameters.items()}
    for tau in trajectories:
        net = Network(parameters, settings.activation)
        with localcontext(prec=DIGITS):
            if settings.algo in ("a3c", "trust-a3c", "tis", "trust-tis"):
                actor_critic(net, average, settings, f, tau)
            elif listed:
                acer_discrete(net, average, settings, f, tau)
            else:
                acer_continuous(net, average, settings, f, tau)
        for name, value in net.d_theta.items():
            total[name] += value / len(trajectories)
    return total
