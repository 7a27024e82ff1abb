"""What each preset changes, for any kind of action and for each. `settings` says what the paper fixes."""

import math
from typing import Any

Preset = dict[str, dict[str, Any]]

PRESETS: dict[str, Preset] = {
    "classic": {
        "any": {"learning_rate": 7e-4, "learning_rate_decay": "linear", "rmsprop_epsilon": 1e-5, "hidden": (64, 64),
                "shared_torso": False, "replay_capacity": 5_000, "replay_start": 1_000, "trajectory_length": 20,
                "trajectories_per_update": 4, "max_gradient_norm": 10.0, "eval_limit": 2_000},
        "discrete": {"reward_scale": 0.03, "entropy_weight": 0.001, "truncation": 10.0, "alpha": 0.99, "delta": 1.0},
        "continuous": {"reward_scale": 0.01, "entropy_weight": 0.0, "truncation": 5.0, "alpha": 0.995, "delta": 0.1,
                       "sigma": 0.3, "normalize_observations": True, "on_policy": False},
    },
    "atari": {
        "any": {"replay_capacity": 50_000, "trajectory_length": 20, "truncation": 10.0, "delta": 1.0, "alpha": 0.99,
                "hidden": (512,), "clip_rewards": True, "steps": 10_000_000, "replay_start": 20_000,
                "learning_rate": 2.5e-4, "rmsprop_start": 1.0, "initialization": "orthogonal",
                "normalize_observations": True, "log_every": 20_000, "eval_policy": "sampled"},
        "discrete": {"entropy_weight": 0.001},
        "continuous": {"entropy_weight": 0.0},
    },
    "control": {
        "any": {"replay_capacity": 5_000, "trajectory_length": 50, "truncation": 5.0, "delta": 1.0, "alpha": 0.995,
                "hidden": (256, 256), "advantage_hidden": 128, "sigma": 0.3, "sdn_samples": 5, "steps": 2_000_000,
                "learning_rate": 5e-4, "learning_rate_decay": "linear", "delta_unit": "errors", "reward_scale": 0.1,
                "normalize_observations": True, "on_policy": False, "shared_torso": False},
        "discrete": {"entropy_weight": 0.001},
        "continuous": {"entropy_weight": 0.0},
    },
    # For those whose steps are dear: docs/efficiency.md.
    "efficient": {
        "any": {"environments": 4, "trajectory_length": 16, "trajectories_per_update": 8, "replay_start": 1_000,
                "replay_capacity": 25_000, "shared_torso": False, "steps": 100_000},
        "discrete": {"replay_ratio": 16.0, "target_rate": 0.02, "learning_rate": 1e-3, "learning_rate_decay": "linear",
                     "rmsprop_epsilon": 1e-5, "hidden": (64, 64), "reward_scale": 0.03, "entropy_weight": 0.001,
                     "truncation": 10.0, "alpha": 0.99, "delta": 1.0, "eval_limit": 2_000},
        "continuous": {"replay_ratio": 32.0, "on_policy": False, "hidden": (256, 256), "learning_rate": 5e-4,
                       "truncation": 0.0, "correction_gradient": "reparametrised", "squashed": True, "sigma": 0.5,
                       "policy_rate": 0.5, "trace_lambda": 0.9, "target_rate": 0.01, "layer_norm": True,
                       "advantage_hidden": 256, "sdn_samples": 3, "alpha": 0.995, "delta": 0.3, "delta_unit": "errors",
                       "entropy_weight": 0.03, "entropy_unit": "errors", "reward_scale": 0.1,
                       "normalize_observations": True},
    },
    # As printed; docs/deviations.md names the source of each constant that the paper takes from elsewhere.
    "paper": {
        "any": {"trajectories_per_update": 1, "replay_per_environment": True, "replay_start": 0,
                "statistic": "probabilities", "rmsprop_epsilon": 0.1, "max_gradient_norm": math.inf},
        "discrete": {"trajectory_length": 20, "replay_capacity": 50_000, "truncation": 10.0, "alpha": 0.99,
                     "entropy_weight": 0.001, "hidden": (512,), "clip_rewards": True, "learning_rate": 7e-4,
                     "steps": 50_000_000, "log_every": 20_000, "eval_policy": "sampled"},
        "continuous": {"trajectory_length": 50, "replay_capacity": 5_000, "truncation": 5.0, "alpha": 0.995,
                       "entropy_weight": 0.0, "hidden": (256, 256), "advantage_hidden": 128, "on_policy": False,
                       "learning_rate": 2.24e-4, "steps": 2_000_000},
    },
}  # fmt: skip
