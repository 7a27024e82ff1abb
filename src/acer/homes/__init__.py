"""Where θ, θ_a and the optimiser's statistics live, and the workers that use them.

`local` is one process, `shared` is many processes on one machine, `ray` is a cluster. `supervisor` starts workers again
when they die; it is the same for processes and for Ray.

May import: `acer.learner`, `acer.envs`, and the settings.
"""
