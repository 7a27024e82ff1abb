"""A runner of jobs that trains nothing: evaluations are what a function says."""

import shutil
from collections.abc import Callable

from acer import config as configuration
from acer.config import to_json
from acer.experiments import runs
from acer.experiments.plan import Job
from acer.run.logs import EVALUATIONS
from acer.tune import search, space
from acer.tune.study import Search

Evaluate = Callable[[Job, int], float]


class Killed(BaseException):
    """Ends everything where it stands, as SIGKILL does."""


def a_search(texts=("learning_rate=1e-4..1e-2:log",), seeds=1, objective="mean", **settings):
    """Four evaluations of each run of 400 steps."""
    base = configuration.defaults("CartPole-v1", False, **{"steps": 400, "eval_every": 100, "threads": 1} | settings)
    return Search(base, space.own(texts, base, False, ()), seeds, objective)


def pretend(evaluate: Evaluate, told: list[str] | None = None):
    """A runner. `evaluate` gives a job's evaluation number 1, 2, 3, 4; what it raises ends the job."""

    def runner(lines, out, display, hear):
        for line in lines:
            for job in line:
                if told is not None:
                    told.append(job.name)
                display.begin(job.name, job.config.steps)
                run(job, out, hear)
                display.end(job.name, job.config.steps)

    def run(job, out, hear):
        directory, rows, failure, pruned = runs.work(out, job), [], None, False
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.json").write_text(to_json(job.config))
        try:
            for number in (1, 2, 3, 4):
                value = evaluate(job, number)
                rows.append({"steps": 100 * number, "return_mean": value})
                (directory / "eval.csv").write_text(runs.table(EVALUATIONS, rows))
                if not hear(job, 100 * number, value):
                    pruned = True
                    break
        except Exception as error:
            failure = runs.Failure.of(error)
        runs.write(out, job, runs.files_of(directory, job, failure, pruned))
        shutil.rmtree(directory)

    return runner


def tune(asked, out, trials, evaluate, told=None, sampler="random", pruner="none"):
    """A whole search with the pretended runner: its study."""
    study, _ = search.run(
        asked, out, trials, sampler, pruner, pretend(evaluate, told), 1, {"steps": 400}, lambda text: None
    )
    return study
