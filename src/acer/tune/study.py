"""A search: trials that Optuna asks for, each a run for every seed, ended early where others did better.

    OUT/study.json      what is searched, and how trials are judged
    OUT/study.db        Optuna's study
    OUT/runs, OUT/work  the runs, as an experiment has them: trial 7 with seed 1 is ENV-ALGO-7-1
    OUT/trials.csv, best.json, history.png, importance.png

Only this process has Optuna's study open. Killed, it leaves trials that were running: they go on, with what is there
of their runs, when the search is taken up again.
"""

import dataclasses
import json
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import optuna

from acer.config import Config, from_dict, to_json
from acer.errors import CheckpointError, SettingsError
from acer.experiments import runs
from acer.experiments.display import JobsDisplay
from acer.experiments.plan import Job
from acer.run.outputs import write_beside
from acer.run.tables import read
from acer.tune.samplers import pruner, sampler
from acer.tune.space import Space, texts_of

Objective = Literal["mean", "last"]
ENDED = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED, optuna.trial.TrialState.FAIL)
PRUNED, FAIL = ENDED[1:]
WAITING, RUNNING = optuna.trial.TrialState.WAITING, optuna.trial.TrialState.RUNNING
SPEC, DATABASE = "study.json", "study.db"
WHY = "why"  # key of a trial's attribute: why it has no value


@dataclass(frozen=True)
class Search:
    """What is searched, and how a trial is judged."""

    base: Config  # all settings but those that are searched
    space: Space
    seeds: int = 1
    objective: Objective = "mean"  # of a run's evaluations: their mean, or the last

    @property
    def evaluations(self) -> int:
        """Evaluations of a run that are told apart."""
        return max(1, self.base.steps // self.base.eval_every) if self.base.eval_every else 1

    def place(self, steps: int) -> int:
        """Which of them an evaluation after so many steps is, from 1 on; that at the end is the last."""
        if steps >= self.base.steps or not self.base.eval_every:
            return self.evaluations
        return min(max(1, steps // self.base.eval_every), self.evaluations)

    def score(self, evaluations: dict[int, float]) -> float:
        """What a run's evaluations so far are worth."""
        return evaluations[max(evaluations)] if self.objective == "last" else float(np.mean([*evaluations.values()]))

    def config(self, values: dict[str, Any], seed: int) -> Config:
        """Of a trial's run."""
        return from_dict(vars(self.base) | values | {"seed": self.base.seed + seed})


class Study:
    """Optuna's study of a search, and the runs of its trials."""

    def __init__(self, search: Search, out: Path, samples: str = "tpe", prunes: str = "none") -> None:
        """Takes up the study in `out`, or begins one."""
        _check_same(search, out)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self.search, self.out, self._samples = search, out, samples
        self.optuna = optuna.create_study(
            storage=f"sqlite:///{(out / DATABASE).absolute()}",
            study_name="acer",
            direction="maximize",
            load_if_exists=True,
            pruner=pruner(prunes, search.evaluations * search.seeds),
        )
        self._lock = threading.RLock()  # lines ask and tell from threads of their own
        self._scores: dict[int, list[float]] = {}  # by trial, of its runs that are at their end
        self._heard: dict[str, dict[int, float]] = {}  # by job, its evaluations so far
        self._trials: dict[int, optuna.Trial] = {}  # that are running
        self._pruned: set[int] = set()
        self.left = [trial for trial in self._all() if trial.state == RUNNING]
        if not self._all() and samples != "paper":
            self._begin_with_the_preset()

    def ended(self) -> int:
        return sum(trial.state in ENDED for trial in self._all())

    def trials(self) -> list[optuna.trial.FrozenTrial]:
        """Those at their end."""
        return [trial for trial in self._all() if trial.state in ENDED]

    def best(self) -> optuna.trial.FrozenTrial | None:
        """The trial with the highest value of those that came to their end."""
        complete = [trial for trial in self._all() if trial.state == ENDED[0]]
        return max(complete, key=lambda trial: (trial.value, -trial.number)) if complete else None

    def values(self, trial: optuna.trial.FrozenTrial) -> dict[str, Any]:
        """The settings that were drawn for a trial."""
        return {name: of.setting(trial.params[name]) for name, of in self.search.space.items() if name in trial.params}

    # ------------------------------------------------------------------ trials

    def line(self, trials: int, display: JobsDisplay) -> Iterator[Job]:
        """Runs one after the other, of one trial after the other."""
        while (trial := self._next(trials)) is not None:
            yield from self._runs(trial, display)

    def hear(self, job: Job, steps: int, evaluation: float) -> bool:
        """Takes down an evaluation; whether the trial goes on."""
        with self._lock:
            trial, heard = self._trials[job.setting], self._heard[job.name]
            place, scores = self.search.place(steps), self._scores[job.setting]
            heard[place] = evaluation
            score = self.search.score({at: value for at, value in heard.items() if at <= place})
            at = len(scores) * self.search.evaluations + place
            known = self._all()[trial.number].intermediate_values
            if not math.isfinite(score) or at <= max(known, default=0):  # a run that went on says it again
                return True
            trial.report(float(np.mean([*scores, score])), at)
            if trial.should_prune():
                self._pruned.add(trial.number)
                return False
            return True

    def _runs(self, trial: optuna.Trial, display: JobsDisplay) -> Iterator[Job]:
        """A trial's runs, as far as they are needed, and what comes of it."""
        number, planned = trial.number, self._jobs(trial)
        for done, job in enumerate(planned):
            with self._lock:
                self._heard[job.name] = self._evaluations(runs.work(self.out, job))
            if not runs.is_finished(self.out, job):
                yield job
            with self._lock:
                if why := self._ended_early(number, job):
                    state, error = why
                    trial.set_user_attr(WHY, error)
                    self._tell(trial, state=state)
                    display.leave_out(len(planned) - done - 1, sum(j.config.steps for j in planned[done + 1 :]))
                    return
                evaluations = self._evaluations(runs.kept(self.out, job))
                self._scores[number].append(self.search.score(evaluations))
        with self._lock:
            self._tell(trial, value=float(np.mean(self._scores[number])))

    def _ended_early(self, number: int, job: Job) -> tuple[optuna.trial.TrialState, str] | None:
        """How a trial ends whose run did not come to a value. One that diverged is known to be bad: it counts as
        pruned, which the sampler learns from."""
        if number in self._pruned or runs.was_pruned(self.out, job):
            return PRUNED, "pruned"
        if error := runs.error_of(self.out, job):
            return (PRUNED if runs.has_diverged(self.out, job) else FAIL), error
        evaluations = self._evaluations(runs.kept(self.out, job)).values()
        if not evaluations or not all(map(math.isfinite, evaluations)):
            return FAIL, "its evaluations are not finite"
        return None

    def _jobs(self, trial: optuna.Trial) -> list[Job]:
        values = {name: of.setting(trial.params[name]) for name, of in self.search.space.items()}
        return [
            Job(self.search.base.algo, trial.number, seed, self.search.config(values, seed))
            for seed in range(self.search.seeds)
        ]

    def _next(self, trials: int) -> optuna.Trial | None:
        """A trial that was running when the search was stopped, else a new one; None if there are enough."""
        with self._lock:
            while True:
                if self.left:
                    number = self.left[0].number
                elif (number := sum(trial.state != WAITING for trial in self._all())) >= trials:
                    return None
                self.optuna.sampler = sampler(self._samples, self.search.base.seed, number)
                trial = optuna.Trial(self.optuna, self.left.pop(0)._trial_id) if self.left else self.optuna.ask()
                for dimension in self.search.space.values():
                    dimension.suggest(trial)  # what a trial has already stays
                self._scores[trial.number], self._trials[trial.number] = [], trial
                try:
                    self._jobs(trial)
                    return trial
                except SettingsError as error:  # settings that contradict each other
                    trial.set_user_attr(WHY, str(error))
                    self._tell(trial, state=FAIL)

    def _tell(self, trial: optuna.Trial, **how: Any) -> None:
        self.optuna.tell(trial, how.get("value"), how.get("state"))
        del self._trials[trial.number]

    def _begin_with_the_preset(self) -> None:
        """Has the first trial be the settings as they are, if the space holds them."""
        values = {name: of.stored(getattr(self.search.base, name)) for name, of in self.search.space.items()}
        if None not in values.values():
            self.optuna.enqueue_trial(values)

    def _all(self) -> list[optuna.trial.FrozenTrial]:
        return self.optuna.get_trials(deepcopy=False)

    def _evaluations(self, directory: Path) -> dict[int, float]:
        """A run's evaluations by their place; the later of one place counts."""
        try:
            rows = read(directory / "eval.csv")
            return {self.search.place(int(row["steps"])): float(row["return_mean"]) for row in rows}
        except (OSError, CheckpointError, TypeError, ValueError, KeyError):  # none yet, or torn
            return {}


def _check_same(search: Search, out: Path) -> None:
    """Writes down what is searched; refuses a directory where something else is."""
    spec = {"objective": search.objective, "seeds": search.seeds, "space": texts_of(search.space),
            "config": json.loads(to_json(search.base))}  # fmt: skip
    file = out / SPEC
    if not file.exists():
        if (out / DATABASE).exists():
            raise SettingsError(f"{out} has a study, but no {SPEC}: choose another --out")
        write_beside(file, (json.dumps(spec, indent=2) + "\n").encode())
        return
    try:
        found = json.loads(file.read_text())
        config = from_dict(found["config"])
        others = [name for name in ("objective", "seeds", "space") if found[name] != spec[name]]
    except (OSError, ValueError, TypeError, KeyError, SettingsError) as error:
        raise SettingsError(f"{file} is damaged ({error}): choose another --out") from None
    free = {name: getattr(search.base, name) for name in runs.OPERATION}
    same = dataclasses.replace(config, **free)
    others += [name for name, value in vars(search.base).items() if getattr(same, name) != value]
    if others:
        raise SettingsError(
            f"{out} has a search with other settings ({', '.join(others)}): give the same, or choose another --out"
        )


def table(study: Study) -> tuple[list[str], Sequence[dict[str, Any]]]:
    """Trials as a table: state, value, evaluations that were heard of, and what was drawn."""
    names = list(study.search.space)
    rows = [
        {
            "trial": trial.number,
            "state": trial.state.name.lower(),
            "value": "" if trial.value is None else trial.value,
            "evaluations": len(trial.intermediate_values),
            **{name: trial.params.get(name, "") for name in names},
            "why": trial.user_attrs.get(WHY, ""),
        }
        for trial in study.trials()
    ]
    return ["trial", "state", "value", "evaluations", *names, "why"], rows
