"""One job in a process of its own: `python -m acer.experiments.worker OUT`, with the job as JSON on standard input.

While it trains it says on standard output, a line of JSON each, how far it is and what its evaluations gave; at the
end what went wrong, if anything did. Standard input is its lifeline: when that closes, it saves and stops, whether it
was asked to or whoever started it is gone.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from acer.errors import FAILED, INTERRUPTED, CheckpointError
from acer.experiments import peers, runs
from acer.experiments.plan import Job, from_json
from acer.learner.actor_learner import Report
from acer.machine import versions
from acer.run import opening, store, trust
from acer.run.callbacks import Callback, RunView
from acer.run.evaluation import Evaluation
from acer.run.training import Training

Say = Callable[[dict[str, Any]], bool]  # and whether the run goes on


class Progress(Callback):
    """Says now and then how far a run is, and each evaluation; ends the run when told so."""

    def __init__(self, say: Say, seconds: float = 1.0) -> None:
        self._say, self._seconds, self._last = say, seconds, 0.0

    def on_rollout(self, run: RunView, report: Report) -> bool:
        if time.monotonic() - self._last < self._seconds:
            return True
        self._last = time.monotonic()
        return self._say({"steps": run.steps})

    def on_evaluation(self, run: RunView, evaluation: Evaluation) -> bool:
        return self._say({"steps": run.steps, "evaluation": evaluation.mean})


def train(job: Job, directory: Path, say: Say) -> bool:
    """Trains in `directory`, from the run's last checkpoint if it has one, and saves the agent there; whether it came
    to its end."""
    if job.method in (*peers.AGENTS, peers.RANDOM):
        return peers.train(job, directory, say)
    training = take_up(job, directory)
    training.callbacks = [Progress(say)]
    try:
        training.run()
        ended = training.steps >= job.config.steps and not training.interrupted
        if ended:
            training.save_model(directory / runs.MODEL)
    finally:
        training.close()
    return ended


def take_up(job: Job, directory: Path) -> Training:
    """The run as its last checkpoint left it, or from the beginning if it has none."""
    if (directory / "config.json").exists() and not store.is_unsaved_run(directory):
        try:
            return opening.resume(directory, job.config.env, directory, trust.outward(vars(job.config)))
        except CheckpointError as error:
            raise CheckpointError(f"{error}; to begin this run again, remove {directory}") from None
    shutil.rmtree(directory, ignore_errors=True)
    training = Training(job.config)
    training.begin(directory)
    return training


def main() -> int:
    """Runs the job that standard input names."""
    out, job = Path(sys.argv[1]), from_json(sys.stdin.readline())
    versions()  # now: files may change while it trains
    threading.Thread(target=_stop_when_alone, daemon=True).start()
    try:
        if not train(job, runs.work(out, job), _say):
            return INTERRUPTED
    except Exception as error:  # whatever it is, the other runs go on
        _say(asdict(runs.Failure.of(error)))
        return FAILED
    runs.write(out, job, runs.files_of(runs.work(out, job), job))
    shutil.rmtree(runs.work(out, job))
    return 0


def _say(message: dict[str, Any]) -> bool:
    with contextlib.suppress(OSError):  # nobody listens any more
        print(json.dumps(message), flush=True)
    return True  # who listens closes the lifeline instead


def _stop_when_alone() -> None:
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # `Training` saves and stops


if __name__ == "__main__":
    sys.exit(main())
