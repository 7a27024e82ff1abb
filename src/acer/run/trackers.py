"""Trackers: the rows of a run's tables for TensorBoard, Weights & Biases and MLflow (`--track`).

A tracker takes rows and is closed; what it fails at costs the tracker, not the run. Those that give a run an identity
find it again in `tracking.json` when the run goes on. A new one is a class here, a line in `TRACKERS`, and a word in
`config.settings`.
"""

import importlib
import io
import json
import logging
import math
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Protocol

from acer.config import Config, to_json
from acer.console import warn
from acer.errors import AcerError, CheckpointError, SettingsError, described, install
from acer.run.files import Directory

EVENTS = "tensorboard"  # directory of TensorBoard's files
IDENTITIES = "tracking.json"  # what the trackers call this run
DATABASE = "mlflow.db"  # MLflow's, unless MLFLOW_TRACKING_URI names a server
NEEDS = {"wandb": ("wandb",), "mlflow": ("mlflow", "sqlalchemy")}  # extras of their names

Row = dict[str, Any]


class Tracker(Protocol):
    """Where rows go."""

    def add(self, group: str, row: Row) -> None:
        """Numbers of a row by column, `steps` among them; `group` is train or eval."""

    def close(self) -> None:
        """No more rows in this session."""


class TensorBoard:
    """TensorBoard events beside the CSV files. TensorBoard's own writer would open its file by path again and again, in
    a thread of its own."""

    def __init__(self, run: Directory, config: Config, from_steps: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        self._directory = run.child(EVENTS, create=True)
        for name in self._directory.names():
            if not self._directory.is_file(name):
                raise CheckpointError(f"{self._directory.path / name} is not a file of TensorBoard's; remove it")
        now = time.time()
        self._name = f"events.out.tfevents.{now:.6f}.{os.getpid()}"
        begun = [Event(wall_time=now, file_version="brain.Event:2")]
        if from_steps:  # what came after that was undone by a resume
            undone = SessionLog(status=SessionLog.START)
            begun.append(Event(wall_time=now, step=from_steps + 1, session_log=undone))
        self._directory.write(self._name, [_record(event) for event in begun])

    def add(self, group: str, row: Row) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=f"{group}/{key}", simple_value=of) for key, of in _numbers(row).items()]
        event = Event(wall_time=time.time(), step=row["steps"], summary=Summary(value=values))
        self._directory.append(self._name, _record(event))

    def close(self) -> None:
        self._directory.close()


def _record(event: Any) -> bytes:
    """An event as TensorBoard's files have it: with its length and checksums."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    framed = io.BytesIO()
    RecordWriter(framed).write(event.SerializeToString())
    return framed.getvalue()


class WeightsAndBiases:
    """A run of the project acer (or WANDB_PROJECT); WANDB_MODE=offline keeps it in the run's directory."""

    def __init__(self, run: Directory, config: Config, from_steps: int) -> None:
        wandb = importlib.import_module("wandb")
        run.child("wandb", create=True).close()  # it writes there by path: no link may lead it away
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "acer"),
            name=run.path.name,
            id=_identity(run, "wandb", lambda: secrets.token_hex(4)),
            resume="allow",
            dir=str(run.path),
            config=json.loads(to_json(config)),
            settings=wandb.Settings(console="off"),  # what is printed stays here
        )
        self.run.define_metric("*", step_metric="steps")  # a run that goes on may repeat some

    def add(self, group: str, row: Row) -> None:
        self.run.log({"steps": row["steps"], **{f"{group}/{name}": value for name, value in _numbers(row).items()}})

    def close(self) -> None:
        self.run.finish()


class MLflow:
    """A run of the experiment acer (or MLFLOW_EXPERIMENT_NAME), in MLFLOW_TRACKING_URI or in the run's directory."""

    def __init__(self, run: Directory, config: Config, from_steps: int) -> None:
        tracking = importlib.import_module("mlflow.tracking")
        self.entities = importlib.import_module("mlflow.entities")
        for name in ("mlflow", "alembic"):  # how they make a database
            logging.getLogger(name).setLevel(logging.WARNING)
        if run.exists(DATABASE) and not run.is_file(DATABASE):
            raise CheckpointError(f"{run.path / DATABASE} is not a file of MLflow's; remove it")
        here = f"sqlite:///{run.path / DATABASE}"
        self.client = tracking.MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", here))
        self.id = _identity(run, "mlflow", lambda: self._new(run, config))
        self.client.update_run(self.id, status="RUNNING")

    def _new(self, run: Directory, config: Config) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "acer")
        known = self.client.get_experiment_by_name(name)
        experiment = known.experiment_id if known else self.client.create_experiment(name)
        identity = str(self.client.create_run(experiment, run_name=run.path.name).info.run_id)
        settings = json.loads(to_json(config))
        self.client.log_batch(identity, params=[self.entities.Param(key, str(of)) for key, of in settings.items()])
        return identity

    def add(self, group: str, row: Row) -> None:
        now = int(time.time() * 1000)
        metrics = [
            self.entities.Metric(f"{group}/{name}", value, now, row["steps"]) for name, value in _numbers(row).items()
        ]
        self.client.log_batch(self.id, metrics=metrics)

    def close(self) -> None:
        self.client.set_terminated(self.id)


TRACKERS: dict[str, Callable[[Directory, Config, int], Tracker]] = {
    "tensorboard": TensorBoard,
    "wandb": WeightsAndBiases,
    "mlflow": MLflow,
}


class Trackers:
    """Those of one session. One that fails is said once and left out."""

    def __init__(self, names: Iterable[str], run: Directory, config: Config, from_steps: int) -> None:
        self._open: dict[str, Tracker] = {}
        for name in names:
            with self._leaving_out(name):
                self._open[name] = TRACKERS[name](run, config, from_steps)

    def add(self, group: str, row: Row) -> None:
        for name, tracker in list(self._open.items()):
            with self._leaving_out(name):
                tracker.add(group, row)

    def close(self) -> None:
        for name, tracker in list(self._open.items()):
            with self._leaving_out(name):
                tracker.close()

    @contextmanager
    def _leaving_out(self, name: str) -> Iterator[None]:
        """An error of any kind ends the tracker, but for TensorBoard's while a disk is full: that may have room again.
        What stands in the run's directory and is not ours is the user's to mend before anything begins."""
        try:
            yield
        except Exception as error:
            if isinstance(error, AcerError) and name not in self._open:
                raise
            rest = "the run goes on"
            if name != "tensorboard" or not isinstance(error, OSError | CheckpointError):
                self._open.pop(name, None)
                rest += " without it"
            warn(f"{name}: {described(error)[:300]}; {rest}")


def check(names: Iterable[str], has_directory: bool) -> None:
    """Refuses trackers that are not installed, or that have nothing to track, before a run begins."""
    for name in names:
        for module in NEEDS.get(name, ()):
            if find_spec(module) is None:
                raise SettingsError(f"--track {name} needs {module}: {install(name)}")
        if name in NEEDS and not has_directory:
            raise SettingsError(f"--track {name} is for a run with a directory: learn(…, out='runs/name')")


def _numbers(row: Row) -> dict[str, float]:
    """The row's numbers but for `steps`."""
    return {
        name: value
        for name, value in row.items()
        if name != "steps" and isinstance(value, int | float) and math.isfinite(value)
    }


def _identity(run: Directory, tracker: str, new: Callable[[], str]) -> str:
    """What the tracker calls this run: as before, or a new name that is kept."""
    known: dict[str, Any] = {}
    if run.exists(IDENTITIES):
        with suppress(ValueError, TypeError):
            known = dict(json.loads(run.read(IDENTITIES)))
    name = known.get(tracker)
    if isinstance(name, str) and re.fullmatch(r"\w{1,64}", name):
        return name
    known[tracker] = new()
    run.replace(IDENTITIES, json.dumps(known).encode())
    return str(known[tracker])
