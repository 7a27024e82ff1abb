"""Why the trust region does not lift A3C in `acer experiment control`: results/control/trust-a3c.csv.

The average policy follows the policy by 1 − α per update. The paper's asynchronous learners update after each
trajectory of 50 steps, ours after four, so ours lags behind by four times as many environment steps. Two ways to the
paper's lag, both with the settings of the experiment at scale `small`:

    alpha       Trust-A3C with α⁴, four trajectories per update as in the experiment (all six settings)
    one         both methods with α and one trajectory per update (the first settings)

The experiment's own runs, `four`, are taken from results/experiments.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acer.experiments import jobs, plans, runs, summaries
from acer.experiments.plan import Job, Selection
from acer.experiments.runs import RunResult
from acer.machine import cores
from table import write

EXPERIMENT, WORK, FILE = Path("results/experiments"), Path("runs/trust-a3c"), Path("results/control/trust-a3c.csv")
SETTINGS = {"alpha": range(6), "one": range(3)}
COLUMNS = ["variant", "task", "method", "setting", "training", "evaluation", "trust_region_active", "kl"]


def planned(settings: Sequence[int], *methods: str, **changed: Any) -> list[Job]:
    """The experiment's jobs with something changed."""
    own = plans.jobs("control", "small", Selection(methods=methods, settings=tuple(settings)))
    return [job.changed(**changed) for job in own]


def row(variant: str, run: RunResult) -> list[Any]:
    measured = (run.final, run.evaluation, *summaries.late_means([run]).values())
    return [variant, run.job.config.env, run.job.method, run.job.setting, *(f"{value:.6g}" for value in measured)]


def main() -> None:
    four = planned(SETTINGS["alpha"], "a3c", "trust-a3c")
    alpha = four[0].config.alpha
    variants = {
        "four": four,
        "alpha": planned(SETTINGS["alpha"], "trust-a3c", alpha=round(alpha**4, 4)),
        "one": planned(SETTINGS["one"], "a3c", "trust-a3c", trajectories_per_update=1),
    }
    found = {"four": runs.load(EXPERIMENT, four)}
    for name in SETTINGS:
        jobs.run(variants[name], WORK / name, jobs.here(cores()))
        found[name] = runs.load(WORK / name, variants[name])
    found["alpha"] += [run for run in found["four"] if run.job.method == "a3c"]  # it has no α
    write(FILE, COLUMNS, [row(name, run) for name, of in found.items() for run in of])
    for name, of in found.items():
        pairs = summaries.pairs_table([run.job for run in of], of, [("trust-a3c", "a3c")])
        print(f"\n{name}: Trust-A3C over A3C", runs.table(summaries.PAIRS_TABLE, pairs), sep="\n")


if __name__ == "__main__":
    main()
