"""Choices that the paper mentions beside its own: returns, traces, penalty, Q(λ), Stochastic Value Gradients."""

from pathlib import Path

from acer.envs.tasks import TASKS
from acer.experiments import variants
from acer.experiments.plan import Plan, Size
from acer.experiments.results import Results
from acer.experiments.variants import Comparison, Variants

CONTINUOUS: Variants = {
    "policy-retrace": {"policy_returns": "retrace"},
    "plain-trace": {"trace_weight": "plain"},
    "svg": {"truncation": 0.0, "correction_gradient": "reparametrised"},
    "score": {"truncation": 0.0},
    **{f"penalty-{weight:g}": {"trust_region": "penalty", "kl_weight": weight} for weight in (0.1, 1.0, 10.0)},
    **{f"delta-{delta:g}": {"delta": delta} for delta in (0.1, 2.0)},
}
DISCRETE: Variants = {
    "tree-backup": {"returns": "tree-backup"},
    "q-lambda": {"policy_returns": "off-policy-corrected"},
}
VARIANTS: Variants = {"acer": {}, **CONTINUOUS, **DISCRETE}
COMPARISONS = [
    Comparison("Q^opc or Q^ret in the policy gradient", "Q^opc learns faster (Appendix B)", "acer", "policy-retrace"),
    Comparison("ρ^{1/d} or ρ in the trace", "the root learns faster (Section 5.1)", "acer", "plain-trace"),
    Comparison("Retrace or tree backup", "Retrace is better (Section 3.1)", "acer", "tree-backup"),
    Comparison("Q^ret or Q(λ), discrete actions", "", "acer", "q-lambda"),
    Comparison("c = 0: score or reparametrised gradient", "", "score", "svg"),
    *(Comparison(f"projection, δ = {delta}, or penalty, weight {weight}", "the penalty is less robust (Section 3.3)",
                 method, f"penalty-{weight:g}")
      for delta, method, weight in ((0.1, "delta-0.1", 10.0), (1, "acer", 1.0), (2, "delta-2", 0.1))),
]  # fmt: skip
SMALL = ("CartPole-v1", "LunarLander-v3")
PLAN = Plan(
    "task",
    ("reacher3", "cheetah", "walker", *SMALL),
    tuple(VARIANTS),
    {
        "smoke": Size(4_000, settings_of_all={"environments": 4, "eval_episodes": 2}),
        "small": Size(500_000, seeds=3, longer={"CartPole-v1": 60_000, "LunarLander-v3": 300_000},
                      settings_of_all={"eval_episodes": 32}),
    },
    variants.configuration(VARIANTS),
    settings_are_drawn=False,
    has=lambda env, method: method not in (DISCRETE if env in TASKS else CONTINUOUS),
)  # fmt: skip


def draw(results: Results) -> list[Path]:
    """Curves, and a row for each choice."""
    return variants.draw(results, COMPARISONS)
