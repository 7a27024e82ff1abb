"""Returns: estimates of Q^π(x_t, a_t) and V^π(x_t) from trajectories of another policy μ.

One recursion serves every estimator of the paper; each named function is a row of this table.

    out_t = r_t + γ_t [ v_{t+1} + c_{t+1} (out_{t+1} − q_{t+1}) ]

    estimator                  v          q   c
    retrace                    V          Q   λ min(1, ρ^{1/d})
    off_policy_corrected       V          Q   1
    tree_backup                V          Q   λ π(a|x)
    k_step                     V          V   1
    degris                     (1−λ) V    0   λ ρ            (λ = 1: importance sampling)

Where the trace is cut, at a trajectory's end and where the next step is dead, c is 0 and v is the whole V, whatever
the row says: the return bootstraps there, unless its discount is 0.

Shapes. `rewards`, `discounts`, `live` and all traces: [T, …], times 0 to T−1. `values`: V(x_t) [T+1, …], times 0 to
T. `q`: Q(x_t, a_t) [T, …]. Results: [T, …]. Any float dtype.
"""

import numpy as np
import torch
from torch import Tensor

LOG_RHO_LIMIT = 20.0  # ρ is exact from e⁻²⁰ to e²⁰; beyond, it saturates instead of overflowing


def importance_weight(log_rho: Tensor) -> Tensor:
    """ρ = π(a|x) / μ(a|x) from its logarithm, saturated at e^±20."""
    return log_rho.clamp(-LOG_RHO_LIMIT, LOG_RHO_LIMIT).exp()


def truncated_trace(log_rho: Tensor, dimensions: int = 1) -> Tensor:
    """min(1, ρ^{1/d}); d = 1 for discrete actions (Algorithm 2), the action's dimensions otherwise (Algorithm 3)."""
    return (log_rho / dimensions).clamp(max=0).exp()


def recursion(
    rewards: Tensor,
    discounts: Tensor,
    live: Tensor,
    values: Tensor,
    v: Tensor,
    q: Tensor,
    c: Tensor,
    limit: float | None = None,
) -> Tensor:
    """out_t = r_t + γ_t [v_{t+1} + c_{t+1} (out_{t+1} − q_{t+1})], cut where the next step is dead.

    v, q, c: [T, …], times 0 to T−1; their first entries are not used, for nothing leads into step 0.
    limit: largest magnitude of a result, for rows whose product of weights may overflow.
    """
    goes_on = live[1:]
    c_next = torch.where(goes_on, c[1:], 0.0)
    v_next = torch.where(goes_on, v[1:], values[1:-1])
    last = rewards[-1] + discounts[-1] * values[-1]
    outs = torch.cat((rewards[:-1] + discounts[:-1] * (v_next - c_next * q[1:]), last.unsqueeze(0)))
    return accumulate(outs, discounts[:-1] * c_next, limit)


def accumulate(terms: Tensor, factors: Tensor, limit: float | None = None) -> Tensor:
    """out_t = term_t + factor_t out_{t+1} from the last term backwards, in place where the terms are on the CPU."""
    outs, multipliers = terms.cpu(), factors.cpu().numpy()
    out = outs.numpy()  # whose small steps cost less than torch's
    with np.errstate(all="ignore"):  # what is not finite is the update's to refuse
        for t in reversed(range(len(multipliers))):
            out[t] += multipliers[t] * out[t + 1]
            if limit is not None:
                out[t] = np.clip(out[t], -limit, limit)
    return outs.to(terms.device)


def retrace(rewards: Tensor, discounts: Tensor, live: Tensor, values: Tensor, q: Tensor, trace: Tensor) -> Tensor:
    """Q^ret_t = r_t + γ V(x_{t+1}) + γ ρ̄_{t+1} [Q^ret_{t+1} − Q(x_{t+1}, a_{t+1})]   (Equation 5; Algorithms 2 and 3).

    trace: ρ̄_t = λ min(1, ρ_t^{1/d}).
    """
    return recursion(rewards, discounts, live, values, values[:-1], q, trace)


def off_policy_corrected(rewards: Tensor, discounts: Tensor, live: Tensor, values: Tensor, q: Tensor) -> Tensor:
    """Q^opc_t = r_t + γ V(x_{t+1}) + γ [Q^opc_{t+1} − Q(x_{t+1}, a_{t+1})]   (Appendix B)."""
    return recursion(rewards, discounts, live, values, values[:-1], q, torch.ones_like(rewards))


def tree_backup(
    rewards: Tensor, discounts: Tensor, live: Tensor, values: Tensor, q: Tensor, pi: Tensor, lambda_: float = 1.0
) -> Tensor:
    """Retrace with trace λ π(a_t|x_t) (Precup et al. 2000; Section 3.1). pi: π(a_t|x_t), discrete actions only."""
    return recursion(rewards, discounts, live, values, values[:-1], q, lambda_ * pi)


def k_step(rewards: Tensor, discounts: Tensor, live: Tensor, values: Tensor) -> Tensor:
    """R_t = Σ_{i<k} γ^i r_{t+i} + γ^k V(x_{t+k}), to the trajectory's or the episode's end (Equation 2)."""
    return recursion(rewards, discounts, live, values, values[:-1], values[:-1], torch.ones_like(rewards))


def degris(
    rewards: Tensor, discounts: Tensor, live: Tensor, values: Tensor, rho: Tensor, lambda_: float = 1.0
) -> Tensor:
    """R^λ_t = r_t + (1−λ) γ V(x_{t+1}) + λ γ ρ_{t+1} R^λ_{t+1}   (Section 3); λ = 1 is importance sampling.

    The product of weights is not bounded: results saturate at the fourth root of the largest number of the dtype.
    """
    limit = torch.finfo(rewards.dtype).max ** 0.25
    partial = (1 - lambda_) * values[:-1]
    return recursion(rewards, discounts, live, values, partial, torch.zeros_like(rewards), lambda_ * rho, limit)


def truncated_product(log_rho: Tensor, discounts: Tensor, live: Tensor, bound: float = 5.0) -> Tensor:
    """min{5, Π_{i≥t} ρ_i} over the steps whose rewards R_t counts, to the end of its return (Appendix E.2)."""
    reaches = live[1:] & (discounts[:-1] > 0)
    return accumulate(torch.where(live, log_rho, 0.0), reaches.to(log_rho.dtype)).exp().clamp(max=bound)
