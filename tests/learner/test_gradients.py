"""Policy gradients with respect to φ."""

import numpy as np
import torch

from acer.learner import gradients
from acer.learner.gaussian import Gaussian


def test_the_reparametrised_gradient_estimates_what_the_score_does():
    """Q(a) = −‖a − b‖²: E ∇_φ Q = −2 (φ − b), and of the two estimates the reparametrised one varies less."""
    f, count = Gaussian(3, 0.3), 20_000
    rng = np.random.default_rng(0)
    phi = torch.tensor([0.2, -0.1, 0.4], dtype=torch.float64).expand(count, 3)
    b = torch.tensor([0.5, 0.5, 0.0], dtype=torch.float64)
    noise = f.noise(rng, (1, count)).double()

    def action_value(actions):
        return -(actions - b).square().sum(-1)

    found = gradients.reparametrised(f, phi, noise, action_value)
    samples = f.sample(phi, noise)
    expected = gradients.by_samples(f, phi, phi, samples, action_value(samples))
    zeros = torch.zeros(count, dtype=torch.float64)
    score = gradients.acer(f, phi, samples[0], zeros, zeros, zeros, expected, c=0.0)
    truth = -2 * (phi[0] - b)
    for estimate in (found, score):
        error = (estimate.mean(0) - truth) / (estimate.std(0) / count**0.5)
        assert error.abs().max() < 4
    assert (found.var(0) < 0.2 * score.var(0)).all()
    assert not found.requires_grad
