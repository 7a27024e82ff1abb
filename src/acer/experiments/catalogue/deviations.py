"""What the control preset changes of the paper's constants, each taken back by itself (docs/deviations.md)."""

from pathlib import Path

from acer.experiments import variants
from acer.experiments.plan import Plan, Size
from acer.experiments.results import Results
from acer.experiments.variants import Comparison, Variants

VARIANTS: Variants = {
    "acer": {},
    "shared-torso": {"shared_torso": True},
    "one-trajectory": {"trajectories_per_update": 1},
    "alpha-4": {"alpha": 0.98},  # 0.995⁴: the paper's lag in environment steps, with four trajectories per update
    "delta-in-rewards": {"delta_unit": "rewards"},
    "constant-rate": {"learning_rate_decay": "none"},
    "raw-rewards": {"reward_scale": 1.0},
    "raw-observations": {"normalize_observations": False},
    "no-clipping": {"max_gradient_norm": float("inf")},
    "own-memories": {"trajectories_per_update": 1, "replay_per_environment": True},
    "epsilon-0.1": {"rmsprop_epsilon": 0.1},
    "critic-2": {"critic_weight": 2.0},
}
COMPARISONS = [Comparison(f"the preset or {name}", "", "acer", name) for name in VARIANTS if name != "acer"]
PLAN = Plan(
    "task",
    ("reacher3", "cheetah", "walker"),
    tuple(VARIANTS),
    {
        "smoke": Size(4_000, settings_of_all={"environments": 4, "eval_episodes": 2}),
        "small": Size(500_000, seeds=3, settings_of_all={"eval_episodes": 32}),
    },
    variants.configuration(VARIANTS),
    settings_are_drawn=False,
)


def draw(results: Results) -> list[Path]:
    """Curves, and a row for each deviation."""
    return variants.draw(results, COMPARISONS)
