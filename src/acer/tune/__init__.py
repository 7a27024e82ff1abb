"""Search over settings with Optuna: `acer tune`.

`space` is what is searched, `samplers` how, `study` asks Optuna for trials, has the experiments' runner run them, and
tells it what came of them; `outputs` writes the best settings, the table and the pictures.

May import: `acer.experiments` and what lies below it.
"""
