"""The paper: one actor-learner that acts, remembers, replays and computes gradients.

Read `update` (Algorithms 2 and 3) first, then the pure files that it names: `distributions` (`categorical`,
`gaussian`), `returns`, `gradients`, `trust_region`. `actor_learner` is Algorithm 1, and `algorithms` composes the
paper's comparison set. Data flows through `rollout`, `replay`, `networks`, `update`, `optimizer` and `parameters`, in
that order. `theory` holds the operators of Section 7.

May import: `acer.envs`, and the settings. Knows nothing of files, processes or displays.
"""
