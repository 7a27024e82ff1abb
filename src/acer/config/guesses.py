"""What a name that acer does not know may have meant: one of ours that is spelt like it, or a word of
Stable-Baselines3."""

import difflib
from collections.abc import Iterable

STABLE_BASELINES = {
    "policy": "the observation decides; see torso and hidden",
    "policy_kwargs": "see torso, hidden and activation",
    "n_envs": "say environments",
    "n_steps": "say trajectory_length",
    "batch_size": "say trajectories_per_update",
    "buffer_size": "say replay_capacity",
    "learning_starts": "say replay_start",
    "train_freq": "say replay_ratio",
    "gradient_steps": "say replay_ratio",
    "tau": "say target_rate",
    "ent_coef": "say entropy_weight",
    "vf_coef": "say critic_weight",
    "max_grad_norm": "say max_gradient_norm",
    "tensorboard_log": "TensorBoard reads the directory of learn(out=…)",
    "tb_log_name": "TensorBoard reads the directory of learn(out=…)",
    "log_interval": "say ACER(…, log_every=…), which counts steps",
    "reset_num_timesteps": "learn goes on from the steps done; a new ACER begins at 0",
}


def guess(name: str, known: Iterable[str]) -> str:
    """The end of the line that refuses `name`."""
    if name in STABLE_BASELINES:
        return f", a word of Stable-Baselines3: {STABLE_BASELINES[name]}"
    near = difflib.get_close_matches(name, known, 1)
    return f"; did you mean {near[0]!r}?" if near else ""
