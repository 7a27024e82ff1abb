"""What is measured while an agent learns: each metric declared once, computed where its numbers are.

progress.csv, TensorBoard, the report, the experiments and docs/metrics.md read these declarations. Measured
of one update (`update.diagnostics`, `actor_learner`) are those with `over` "mean" or "largest": a row has the mean, or
the largest, over the updates since the row before. Those with "now" are read off when a row is written (`run.logs`).
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """A column of progress.csv."""

    name: str
    label: str
    about: str
    over: Literal["mean", "largest", "now"] = "mean"
    chart: int = 0  # place among the report's charts; 0 for none
    spiky: bool = False  # far outliers are left out of the chart's axis
    kept: bool = True  # by experiments, which leave out what depends on the machine
    advice: str = ""  # for docs/metrics.md


_ALL = (
    Metric("steps", "Steps", "of the environments since the run began; one of an Atari game is four frames", "now"),
    Metric("seconds", "Seconds", "spent training since the run began", "now"),
    Metric("episodes", "Episodes", "finished since the run began", "now"),
    Metric("return_mean", "Return", "mean of the last 100 training episodes; dots are evaluations", "now", chart=1),
    Metric("length_mean", "Episode length", "mean of the last 100 training episodes", "now", chart=11),
    Metric("steps_per_second", "Steps per second", "of the environments, training included", "now", chart=12,
           kept=False, advice="since the row before"),
    Metric("updates", "Updates", "since the run began", "now"),
    Metric("replays", "Replays", "since the run began", "now"),
    Metric("learning_rate", "Learning rate", "of the next update", "now", kept=False),
    Metric("skipped_updates", "Skipped updates", "left out because their gradient was not finite", "now",
           advice="should stay 0"),
    Metric("trust_region_active", "Trust region active", "share of steps whose gradient the projection changed",
           chart=3, advice="the gradient of the parameters: what softmax undoes does not count"),
    Metric("entropy", "Entropy", "of the policy, in nats", chart=4),
    Metric("kl", "KL divergence", "of the policy from the average policy, mean over steps", chart=5, spiky=True,
           advice="one that grows without the return is a policy that wanders"),
    Metric("q_loss", "Critic's loss", "half the mean square error", chart=9, spiky=True),
    Metric("grad_norm", "Gradient norm", "before clipping", chart=10, spiky=True),
    Metric("rho_above_c", "ρ above c", "share of importance weights that were truncated", chart=7),
    Metric("rho_error", "Error of ρ", "largest |ρ − 1| on data of the very policy that acted", "largest", kept=False,
           advice="rounding: should be far below 1"),
    Metric("trace", "Mean trace", "of Retrace: 1 keeps the whole trajectory, 0 cuts it at once", chart=8),
    Metric("explained_variance", "Explained variance", "of the returns, by the critic: 1 is perfect", chart=6,
           spiky=True, advice="0 is as good as a constant"),
    Metric("distinct", "Distinct patches", "share of the convolutions' work that the distinct patches of images need",
           kept=False, advice="with `--reuse auto`, only they are computed where share × threads is at most 0.7"),
    Metric("staleness", "Staleness", "updates between the parameters that an update was computed from and its arrival",
           kept=False,
           advice="with `shared` and `ray`: by others, and with `--overlap` one of its own"),
    Metric("pushes_per_second", "Pushes per second", "gradients that each parameter server took", kept=False,
           advice="with `ray`"),
    Metric("server_busy", "Servers busy", "share of one core that the busiest parameter server used", kept=False,
           advice="with `ray`: near 1, more actor-learners bring nothing; use more `--shards`"),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _ALL}
PROGRESS = list(METRICS)
"""The columns of progress.csv."""

SCORE = Metric("score", "Score", "mean of the games that ended in the past million frames", "now", chart=2)
"""What an experiment adds to the progress of a game (Section 4)."""

CHARTS = sorted((metric for metric in (*METRICS.values(), SCORE) if metric.chart), key=lambda metric: metric.chart)
"""What the report draws, in its order."""
