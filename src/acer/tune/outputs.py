"""What a search leaves to look at and to go on with: the best settings, a table, two pictures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna

from acer.config import to_json
from acer.experiments import results
from acer.run.outputs import beside, write_beside
from acer.run.trust import without_outward
from acer.tune.study import Study, table

BEST = "best.json"
FEWEST = 4  # trials at their end from which on importance is estimated


def write(study: Study, given: Mapping[str, Any]) -> list[Path]:
    """Writes everything that there is something to write of.

    given: the settings that every trial had by the user's word; with the best trial's they make the settings file.
    """
    out, (columns, rows) = study.out, table(study)
    files = [results.write(out / "trials", "", columns, rows)]
    if (best := study.best()) is not None:
        write_beside(out / BEST, best_settings(study, best, given).encode())
        files.append(out / BEST)
    if study.trials():
        files.append(_history(study, out / "history.png"))
    if found := importance(study):
        files.append(_bars(found, out / "importance.png"))
    return files


def best_settings(study: Study, trial: optuna.trial.FrozenTrial, given: Mapping[str, Any]) -> str:
    """A file for `acer train --config`: what was given, and what the trial drew. What reaches outside a process, a
    file cannot decide: it stays out."""
    whole = json.loads(to_json(study.search.config(study.values(trial), 0)))
    kept = without_outward({name: whole[name] for name in whole})
    names = ["env", "algo", "preset", *given, *study.search.space, "trajectories_per_update"]
    return json.dumps({name: kept[name] for name in dict.fromkeys(names) if name in kept}, indent=2) + "\n"


def importance(study: Study) -> dict[str, float]:
    """The share of each setting in what makes good trials good (PED-ANOVA), the largest first; empty if that cannot be
    said yet."""
    complete = [trial.value for trial in study.trials() if trial.state == optuna.trial.TrialState.COMPLETE]
    if len(complete) < FEWEST or len(set(complete)) == 1:
        return {}
    evaluator = optuna.importance.PedAnovaImportanceEvaluator()
    return optuna.importance.get_param_importances(study.optuna, evaluator=evaluator)


def _history(study: Study, output: Path) -> Path:
    """Each trial's value, and the best so far."""
    import matplotlib.pyplot as plt

    from acer.run import plots  # noqa: F401  # draws without a screen

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    states = optuna.trial.TrialState
    points = [(t.number, t.value) for t in study.trials() if t.state == states.COMPLETE]
    if points:
        axes.plot(*zip(*points, strict=True), "o", color="C0", label="at its end")
    # What a pruned trial was worth so far compares with no whole one: it has a mark on the axis.
    if pruned := [trial.number for trial in study.trials() if trial.state == states.PRUNED]:
        marks = axes.get_xaxis_transform()
        axes.plot(pruned, [0.02] * len(pruned), "x", color="0.6", label="pruned", transform=marks)
    best, numbers, highest = -float("inf"), [], []
    for trial in study.trials():
        if trial.state == states.COMPLETE and trial.value is not None:
            best = max(best, trial.value)
            numbers.append(trial.number)
            highest.append(best)
    if numbers:
        axes.step(numbers, highest, where="post", color="C1", label="best so far")
        axes.legend(frameon=False)
    axes.set_xlabel("trial")
    axes.set_ylabel(f"{'mean' if study.search.objective == 'mean' else 'last'} evaluation")
    return _save(figure, axes, output)


def _bars(found: Mapping[str, float], output: Path) -> Path:
    """Importance as bars, the largest above."""
    import matplotlib.pyplot as plt

    from acer.run import plots  # noqa: F401  # draws without a screen

    figure, axes = plt.subplots(figsize=(7, 0.6 + 0.35 * len(found)), layout="constrained")
    names = list(found)[::-1]
    axes.barh([name.replace("_", " ") for name in names], [found[name] for name in names])
    axes.set_xlabel("share in what makes trials good (PED-ANOVA)")
    return _save(figure, axes, output)


def _save(figure: Any, axes: Any, output: Path) -> Path:
    import matplotlib.pyplot as plt

    axes.grid(alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    with beside(output) as partial:
        figure.savefig(partial, dpi=150)
    plt.close(figure)
    return output
