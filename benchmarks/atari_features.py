"""What the torso sees of Pong after 50,000 steps, with and without its mean image: results/atari/features.csv.

    python benchmarks/atari_features.py

Two runs of the `atari` preset (learning rate 1e-4) that differ in --normalize-observations alone; then 48 trajectories
from each one's replay memory go through its network. Ten minutes on two cores.
"""

from pathlib import Path

import numpy as np
import torch

from acer.learner.update import Evaluated
from acer.run import opening
from runs import train
from table import write

RUNS, FILE = Path("runs/features"), Path("results/atari/features.csv")
COLUMNS = ["observations", "steps", "never_on", "always_on", "deviation_over_mean", "correlation", "explained_variance"]


@torch.no_grad()
def look(directory: Path) -> list[float]:
    training = opening.resume(directory)
    learner, agent = training.learner, training.agent
    batch = learner._batch(learner.replay.sample(np.random.default_rng(1), 48))
    f = agent.distribution
    x = agent.network.encoder(batch.observations)
    output, features = agent.network(x)
    phi, q = f.statistics(output), agent.network.action_values(features)
    log_pi = f.log_prob(phi[:-1], batch.actions)
    log_rho = log_pi - f.log_prob(batch.mu, batch.actions)
    taken = q[:-1].gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
    assert agent.method.returns is not None
    seen = Evaluated(x, features, phi, log_pi, log_rho, torch.empty(0))
    target = agent.method.returns(batch, (phi.exp() * q).sum(-1), taken, seen).critic
    taken, target = taken[batch.live], target[batch.live]
    units = features.reshape(-1, features.shape[-1])
    training.close()
    return [
        training.steps,
        float((units.max(0).values <= 0).float().mean()),
        float((units.min(0).values > 0).float().mean()),
        float(units.std(0).mean() / units.mean()),
        float(np.corrcoef(taken, target)[0, 1]),
        1 - float((target - taken).square().mean() / target.var()),
    ]


def main() -> None:
    rows = []
    for name, flag in (("bytes / 255", "--no-normalize-observations"), ("centred", "--normalize-observations")):
        out = RUNS / flag.strip("-")
        train(out, "pong", 50_000, "--learning-rate", "1e-4", flag, "--eval-episodes", "1", "--eval-limit", "10")
        rows.append([name, *(round(value, 3) for value in look(out))])
        print(*rows[-1], sep="\t", flush=True)
    write(FILE, COLUMNS, rows)


if __name__ == "__main__":
    main()
