"""Every row of the table of returns: against loops, against numbers by hand, and in the limits that tie rows."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from acer.learner import returns
from helpers import counting_rollout, trajectories

STEPS, ACTORS = 6, 3


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def flags(*values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.bool)


def drawn(seed: int, boundaries: bool = True) -> dict[str, Tensor]:
    """A batch [STEPS, ACTORS] with episodes that end by either rule, lives that are lost, and dead steps."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    shape = (STEPS, ACTORS)
    live = torch.ones(shape, dtype=torch.bool)
    discounts = torch.full(shape, 0.9, dtype=torch.float64)
    if boundaries:
        live[0] = uniform(ACTORS) < 0.8
        for t in range(STEPS):
            ends = (uniform(ACTORS) < 0.3) & live[t]
            if t + 1 < STEPS:
                live[t + 1] = ~ends
            discounts[t] = torch.where(live[t] & (uniform(ACTORS) < 0.7), discounts[t], 0.0)
    normal = torch.randn((3, STEPS + 1, ACTORS), generator=generator, dtype=torch.float64)
    return {
        "rewards": normal[0, :-1] * live,
        "discounts": discounts,
        "live": live,
        "values": normal[1],
        "q": normal[2, :-1],
        "log_rho": 8 * uniform(*shape) - 4,
    }


def looped(batch: dict[str, Tensor], v: Tensor, q: Tensor, c: Tensor) -> Tensor:
    """The recursion, one actor and one step at a time."""
    out = torch.zeros(STEPS, ACTORS, dtype=torch.float64)
    for b in range(ACTORS):
        for t in reversed(range(STEPS)):
            if t == STEPS - 1 or not batch["live"][t + 1, b]:
                ahead = batch["values"][t + 1, b]
            else:
                ahead = v[t + 1, b] + c[t + 1, b] * (out[t + 1, b] - q[t + 1, b])
            out[t, b] = batch["rewards"][t, b] + batch["discounts"][t, b] * ahead
    return out


def steps_of(batch: dict[str, Tensor]) -> tuple[Tensor, ...]:
    return batch["rewards"], batch["discounts"], batch["live"], batch["values"]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31), lambda_=st.sampled_from([0.0, 0.6, 1.0]))
def test_rows_of_the_table(seed: int, lambda_: float) -> None:
    batch = drawn(seed)
    values, q, rho = batch["values"], batch["q"], batch["log_rho"].exp()
    pi = rho / rho.max()
    found = {
        "retrace": returns.retrace(*steps_of(batch), q, lambda_ * returns.truncated_trace(batch["log_rho"])),
        "off_policy_corrected": returns.off_policy_corrected(*steps_of(batch), q),
        "tree_backup": returns.tree_backup(*steps_of(batch), q, pi, lambda_),
        "k_step": returns.k_step(*steps_of(batch)),
        "degris": returns.degris(*steps_of(batch), rho, lambda_),
    }
    one, zero = torch.ones_like(q), torch.zeros_like(q)
    expected = {
        "retrace": looped(batch, values, q, lambda_ * rho.clamp(max=1)),
        "off_policy_corrected": looped(batch, values, q, one),
        "tree_backup": looped(batch, values, q, lambda_ * pi),
        "k_step": looped(batch, values, values, one),
        "degris": looped(batch, (1 - lambda_) * values, zero, lambda_ * rho),
    }
    for name, value in expected.items():
        torch.testing.assert_close(found[name][batch["live"]], value[batch["live"]], rtol=1e-12, atol=1e-12, msg=name)


# Three steps by hand, γ = ½: rewards 1, 2, 4; V = 10, 20, 30, 40; Q = 1, 3, 5; ρ = 4, ½, 2.
REWARDS, DISCOUNTS, LIVE = tensor(1, 2, 4), tensor(0.5, 0.5, 0.5), flags(1, 1, 1)
VALUES, Q, LOG_RHO = tensor(10, 20, 30, 40), tensor(1, 3, 5), tensor(4, 0.5, 2).log()
THREE = (REWARDS, DISCOUNTS, LIVE, VALUES)


def test_retrace_by_hand() -> None:
    # 4 + 40/2 = 24;  2 + (30 + 1 (24 − 5))/2 = 26.5;  1 + (20 + ½ (26.5 − 3))/2 = 16.875
    found = returns.retrace(*THREE, Q, returns.truncated_trace(LOG_RHO))
    torch.testing.assert_close(found, tensor(16.875, 26.5, 24))


def test_off_policy_corrected_by_hand() -> None:
    # 24;  26.5;  1 + (20 + 26.5 − 3)/2 = 22.75
    torch.testing.assert_close(returns.off_policy_corrected(*THREE, Q), tensor(22.75, 26.5, 24))


def test_tree_backup_by_hand() -> None:
    # π = ¼ everywhere, λ = ½.  24;  2 + (30 + ⅛ (24 − 5))/2 = 18.1875;  1 + (20 + ⅛ (18.1875 − 3))/2 = 11.94921875
    found = returns.tree_backup(*THREE, Q, tensor(0.25, 0.25, 0.25), lambda_=0.5)
    torch.testing.assert_close(found, tensor(11.94921875, 18.1875, 24))


def test_k_step_by_hand() -> None:
    # 24;  2 + 24/2 = 14;  1 + 14/2 = 8, which is 1 + 2/2 + 4/4 + 40/8
    torch.testing.assert_close(returns.k_step(*THREE), tensor(8, 14, 24))


def test_degris_by_hand() -> None:
    # λ = ½.  24;  2 + ½ · 30/2 + ½ · 2 · 24/2 = 21.5;  1 + ½ · 20/2 + ½ · ½ · 21.5/2 = 8.6875
    torch.testing.assert_close(returns.degris(*THREE, LOG_RHO.exp(), lambda_=0.5), tensor(8.6875, 21.5, 24))


def test_importance_sampling_by_hand() -> None:
    # 24;  2 + 2 · 24/2 = 26;  1 + ½ · 26/2 = 7.5
    torch.testing.assert_close(returns.degris(*THREE, LOG_RHO.exp()), tensor(7.5, 26, 24))


# Each row as a function of (rewards, discounts, live, values); shorter trajectories take the last entries of the rest.
ROWS: dict[str, Any] = {
    "retrace": lambda *steps: returns.retrace(
        *steps, Q[-len(steps[0]) :], returns.truncated_trace(LOG_RHO[-len(steps[0]) :])
    ),
    "off_policy_corrected": lambda *steps: returns.off_policy_corrected(*steps, Q[-len(steps[0]) :]),
    "tree_backup": lambda *steps: returns.tree_backup(*steps, Q[-len(steps[0]) :], torch.full_like(steps[0], 0.25)),
    "k_step": returns.k_step,
    "degris": lambda *steps: returns.degris(*steps, LOG_RHO[-len(steps[0]) :].exp(), 0.5),
    "importance_sampling": lambda *steps: returns.degris(*steps, LOG_RHO[-len(steps[0]) :].exp()),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_cut_bootstraps_with_the_whole_value(row: Any) -> None:
    """The episode is truncated after step 0: r_0 + γ V(x_1), whatever share of V the row takes elsewhere."""
    found = row(REWARDS, tensor(0.5, 0, 0.5), flags(1, 0, 1), VALUES)
    assert float(found[0]) == 1 + 0.5 * 20
    assert float(found[2]) == 4 + 0.5 * 40


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_nothing_counts_after_a_termination(row: Any) -> None:
    found = row(REWARDS, tensor(0, 0, 0), flags(1, 0, 1), VALUES)
    assert found[[0, 2]].tolist() == [1, 4]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_a_lost_life_ends_the_return_while_the_next_step_lives(row: Any) -> None:
    whole = row(*THREE)
    found = row(REWARDS, tensor(0, 0.5, 0.5), LIVE, VALUES)
    assert float(found[0]) == 1
    torch.testing.assert_close(found[1:], whole[1:])


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_one_step_bootstraps_from_the_next_state(row: Any) -> None:
    """T = 1, the shortest trajectory: 4 + 40/2."""
    assert row(REWARDS[-1:], DISCOUNTS[-1:], LIVE[-1:], VALUES[-2:]).tolist() == [24]


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31))
def test_no_row_looks_at_dead_steps_or_across_them(seed: int) -> None:
    """Garbage at dead steps, and another episode behind them, leave the steps before as they were."""
    batch, other = drawn(seed), drawn(seed)
    dead = ~batch["live"]
    for name in ("q", "log_rho"):
        other[name] = torch.where(dead, 1e6, batch[name])
    first_dead = dead.long().cumsum(0) > 0  # from the first dead step on
    for name in ("rewards", "q", "log_rho"):
        other[name] = torch.where(first_dead & ~dead, -3.0, other[name])
    before = ~first_dead
    for name, row in table().items():
        torch.testing.assert_close(row(other)[before], row(batch)[before], msg=name)


def table() -> dict[str, Any]:
    return {
        "retrace": lambda b: returns.retrace(*steps_of(b), b["q"], returns.truncated_trace(b["log_rho"])),
        "off_policy_corrected": lambda b: returns.off_policy_corrected(*steps_of(b), b["q"]),
        "k_step": lambda b: returns.k_step(*steps_of(b)),
        "degris": lambda b: returns.degris(*steps_of(b), returns.importance_weight(b["log_rho"]), 0.7),
        "truncated_product": lambda b: returns.truncated_product(b["log_rho"], b["discounts"], b["live"]),
    }


@settings(max_examples=20, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**31))
def test_limits_that_tie_the_rows(seed: int) -> None:
    batch = drawn(seed)
    steps, q = steps_of(batch), batch["q"]
    values, ones, zeros = batch["values"], torch.ones_like(q), torch.zeros_like(q)
    one_step = batch["rewards"] + batch["discounts"] * values[1:]

    # On-policy Retrace is Q^opc, and with Q = V it is the k-step return.
    on_policy = returns.retrace(*steps, q, returns.truncated_trace(zeros))
    torch.testing.assert_close(on_policy, returns.off_policy_corrected(*steps, q))
    torch.testing.assert_close(returns.off_policy_corrected(*steps, values[:-1]), returns.k_step(*steps))
    # On-policy importance sampling is the k-step return; without traces all are one-step returns.
    torch.testing.assert_close(returns.degris(*steps, ones), returns.k_step(*steps))
    torch.testing.assert_close(returns.retrace(*steps, q, zeros), one_step)
    torch.testing.assert_close(returns.degris(*steps, batch["log_rho"].exp(), lambda_=0.0), one_step)
    torch.testing.assert_close(returns.tree_backup(*steps, q, ones, lambda_=0.0), one_step)
    # A deterministic π makes tree backup Retrace's on-policy limit.
    torch.testing.assert_close(returns.tree_backup(*steps, q, ones), on_policy)


def test_retrace_does_not_use_the_first_trace_or_action_value() -> None:
    """Nothing leads into step 0: its ρ weighs the policy's gradient, not the return."""
    trace = returns.truncated_trace(LOG_RHO)
    other = returns.retrace(*THREE, tensor(99, 3, 5), torch.cat((tensor(0), trace[1:])))
    torch.testing.assert_close(other, returns.retrace(*THREE, Q, trace))


def test_trace_is_the_root_of_the_joint_ratio() -> None:
    """min{1, ρ^{1/d}}: ρ = 1/16 in two dimensions is a trace of ¼; ρ above 1 is 1 for any d."""
    torch.testing.assert_close(returns.truncated_trace(tensor(1 / 16, 9).log(), dimensions=2), tensor(0.25, 1))
    torch.testing.assert_close(returns.truncated_trace(tensor(1 / 16, 9).log()), tensor(1 / 16, 1))


def test_importance_weight_saturates_instead_of_overflowing() -> None:
    logs = torch.tensor([-1e4, -5.0, 0.0, 5.0, 1e4])
    found = returns.importance_weight(logs)
    assert found.isfinite().all() and (found > 0).all()
    torch.testing.assert_close(found[1:4], logs[1:4].exp())
    assert float(found[-1]) == pytest.approx(math.exp(returns.LOG_RHO_LIMIT), rel=1e-6)


def test_product_of_large_weights_saturates_in_float32() -> None:
    steps = (torch.ones(50), torch.full((50,), 0.99), torch.ones(50, dtype=torch.bool), torch.ones(51))
    found = returns.degris(*steps, returns.importance_weight(torch.full((50,), 1e4)))
    assert found.isfinite().all()
    assert float(found[0]) == pytest.approx(torch.finfo(torch.float32).max ** 0.25, rel=1e-5)


def test_truncated_product_is_a_suffix_product() -> None:
    """ρ = 2, ½, ½, 8: the products from each step on are 4, 2, 4 and 8, of which 5 is the most that counts."""
    log_rho = tensor(2, 0.5, 0.5, 8).log()
    found = returns.truncated_product(log_rho, tensor(0.9, 0.9, 0.9, 0.9), flags(1, 1, 1, 1))
    torch.testing.assert_close(found, tensor(4, 2, 4, 5))
    torch.testing.assert_close(
        returns.truncated_product(log_rho, tensor(0.9, 0.9, 0.9, 0.9), flags(1, 1, 1, 1), bound=3.0), tensor(3, 2, 3, 3)
    )


@pytest.mark.parametrize(
    ("discounts", "live", "expected"),
    [
        ((0.9, 0, 0.9, 0.9), (1, 0, 1, 1), (2, None, 0.75, 3)),  # truncated after step 0
        ((0, 0, 0.9, 0.9), (1, 0, 1, 1), (2, None, 0.75, 3)),  # terminated after step 0
        ((0.9, 0, 0.9, 0.9), (1, 1, 1, 1), (1, 0.5, 0.75, 3)),  # a life lost at step 1, which still counts for step 0
        ((0.9, 0.9, 0.9, 0), (1, 1, 1, 1), (0.75, 0.375, 0.75, 3)),  # terminated at the trajectory's end
    ],
)
def test_truncated_product_stops_where_the_return_does(discounts: Any, live: Any, expected: Any) -> None:
    found = returns.truncated_product(tensor(2, 0.5, 0.25, 3).log(), tensor(*discounts), flags(*live))
    for value, wanted in zip(found.tolist(), expected, strict=True):
        assert wanted is None or value == pytest.approx(wanted)


def test_truncated_product_survives_extreme_weights() -> None:
    """In log space 50 weights of e²⁰⁰ and 50 of e⁻²⁰⁰ cancel; multiplied out they overflow or vanish."""
    log_rho = torch.cat((torch.full((50,), -200.0), torch.full((50,), 200.0)))
    found = returns.truncated_product(log_rho, torch.full((100,), 0.9), torch.ones(100, dtype=torch.bool))
    assert found.isfinite().all()
    assert float(found[0]) == 1 and float(found[50]) == 5


@pytest.mark.parametrize(
    ("truncates", "expected"),
    [
        # γ = ½, rewards 1, 2, 3. Terminated: 3, 2 + 3/2 and 1 + 3.5/2. Truncated where V = 300: 3 + 300/2 and so on.
        (False, [2.75, 3.5, 3.0]),
        (True, [40.25, 78.5, 153.0]),
    ],
)
def test_returns_of_real_episodes(truncates: bool, expected: list[float]) -> None:
    """Episodes of three steps, cut into trajectories of any length: pieces bootstrap from exact values and agree."""
    for k in (1, 2, 3, 4, 7):
        stream = trajectories(counting_rollout(3, k=k, truncates=truncates))
        for _ in range(6):
            t = next(stream)
            step = t["observations"][:, 1].long()
            # Exact values: what is still to come from each step; at the end, 0 or what the time limit cut off.
            exact = tensor(*expected, 300 if truncates else 0)[step]
            found = returns.k_step(t["rewards"], t["discounts"], t["live"], exact)
            torch.testing.assert_close(found[t["live"]], exact[:-1][t["live"]])
