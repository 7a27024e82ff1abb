"""Training: a run's loop. Workers learn wherever the parameters live; the loop logs, evaluates and saves."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from acer.config import Config, from_dict
from acer.console import warn
from acer.envs.others import EnvMaker
from acer.envs.watchdog import watch_steps
from acer.errors import FAILED, CheckpointError, EnvironmentFault, LearningFault, ParameterServerLost, SettingsError
from acer.homes.supervisor import Workers
from acer.learner.actor_learner import ActorLearner, Agent
from acer.machine import SpareHandles, check_room_for_threads, keep_standard_streams
from acer.run import checkpoint, saved, store
from acer.run.callbacks import Callback, RunView
from acer.run.checkpoint import Checkpoint, Snapshot
from acer.run.directory import RunDirectory
from acer.run.display import Display
from acer.run.evaluation import Evaluation
from acer.run.logs import Logs
from acer.run.record import Record, due
from acer.run.signals import stop_on_signals
from acer.run.state import RunState
from acer.run.trackers import check as check_trackers


class Training:
    """One run. With a directory it keeps logs and checkpoints there; without one it only learns."""

    def __init__(self, config: Config, env: str | EnvMaker | None = None, loaded: Checkpoint | None = None) -> None:
        """loaded: a checkpoint that is going to be loaded; it must fit before memory is taken for the networks."""
        self.state = RunState(config, env, loaded)
        self.callbacks: Sequence[Callback] = ()
        self.files: RunDirectory | None = None
        self.stopping = False  # a callback or a signal asked for it
        self.interrupted = False  # a signal did
        self._extended = False  # True once --steps was raised after the run began
        self._checkpointed = 0  # steps of the last checkpoint
        self._went_back = False  # to a checkpoint, after the parameters were lost elsewhere
        self._logs: Logs | None = None
        self._saver: store.Saver | None = None
        self._workers: Workers | None = None  # while the run goes on
        self._spare = SpareHandles()

    @property
    def config(self) -> Config:
        return self.state.config

    @property
    def agent(self) -> Agent:
        return self.state.agent

    @property
    def learner(self) -> ActorLearner:
        """The actor-learner of this process."""
        return self.state.learner

    @property
    def steps(self) -> int:
        """Environment steps done, by all actor-learners."""
        return self.state.steps

    @property
    def metrics(self) -> dict[str, Any]:
        """What the next row of progress.csv would say now."""
        return self.state.row(final=True)

    @property
    def directory(self) -> Path | None:
        """Where the run keeps its files."""
        return None if self.files is None else self.files.path

    def extend(self, steps: int) -> None:
        """The same run, to another number of steps."""
        self.state.set_config(from_dict(vars(self.config) | {"steps": steps}))
        self._extended = True

    def begin(self, directory: Path, numbered: bool = False) -> Path:
        """Takes an empty directory for a new run, and says which; a mistake leaves nothing behind.

        numbered: one that is in use gives way to the next, directory-2, directory-3, …
        """
        check_trackers(self.config.track, has_directory=True)
        self._open_workers()
        create = RunDirectory.create_next if numbered else RunDirectory.create
        try:
            self.files = create(directory, self.config)
        except SettingsError:
            self._end_workers()
            raise
        self.state.progress.best = saved.Progress().best
        return self.files.path

    def load(self, loaded: Checkpoint) -> None:
        """Takes over the whole run: learner, counters, replay memory, unfinished episodes."""
        self.state.load(loaded)
        self._checkpointed = self.steps

    def close(self) -> None:
        """Ends the environments, and lets others have the directory."""
        self.state.close()
        if self.files is not None:
            self.files.release()

    # ------------------------------------------------------------------ the loop

    def run(self, shown: bool = False) -> None:
        """Trains until `config.steps`, or until asked to stop; saves at the end, however it comes."""
        while True:
            try:
                return self._session(shown)
            except ParameterServerLost as error:
                self._go_back(error)

    def _session(self, shown: bool) -> None:
        """From the workers' start to their end."""
        config = self.config
        check_trackers(config.track, self.files is not None)
        try:
            check_room_for_threads()
            workers = self._open_workers()
            display = Display(config.env, config.steps, self.steps, shown)
            loss = "the run is at its last checkpoint"
            watchdog = watch_steps(config.env, config.step_limit, self.state.busy_since, self._save_what_stands, loss)
            with self._writing() as logs, stop_on_signals(self) as keep_signals, watchdog, display:
                record = Record(self.state, logs, display, self._call, self.evaluate)
                is_saved = self._train(workers, record, keep_signals)
                if self.steps >= config.steps:
                    record.last_evaluation()
        finally:
            self._end_workers()
        if not is_saved:
            raise CheckpointError(f"the last checkpoint could not be written: make room, then resume {self.directory}")

    def _train(self, workers: Workers, record: Record, keep_signals: Callable[[], None]) -> bool:
        """Trajectories, rows, evaluations and checkpoints until the end; whether the last checkpoint was written."""
        config, progress = self.config, self.state.progress
        began, before = time.perf_counter(), progress.seconds
        first, checked, last_save = self.steps, self.steps, began
        whole = True  # no iteration is half done
        try:
            if self.state.kind.can_lose_parameters and self.files is not None and self.files.never_saved():
                self.checkpoint()
            workers.start(self.state.actors)
            self.state.actors = []
            if progress.evaluation_due and record.evaluation():
                self.checkpoint(best=True)
            while self.steps < config.steps and not self.stopping:
                whole = False
                reports = workers.wait()
                whole = True
                keep_signals()
                keep_standard_streams()
                used_up = self._spare.needed()
                now = time.perf_counter()
                progress.seconds = before + now - began
                record.take(reports)
                if used_up:
                    raise EnvironmentFault(f"{config.env}: it leaves no file handle to others; resume in a new process")
                new, checked = self.steps - checked, self.steps
                speed = (self.steps - first) / (now - began)
                record.display.show(self.steps, self.state.meter.return_mean, speed, workers.members, workers.note)
                record.row_if_due(speed, workers.note)
                progress.evaluation_due = due(config.eval_every, self.steps, new)
                best = progress.evaluation_due and record.evaluation()
                by_time = config.checkpoint_minutes and now - last_save >= 60 * config.checkpoint_minutes
                if best or by_time or due(config.checkpoint_every, self.steps, new):
                    self.checkpoint(best)
                    last_save = now
        except ParameterServerLost:
            whole = False
            raise
        except (EnvironmentFault, LearningFault) as error:
            error.exit_code = FAILED
            whole = True  # they end an iteration between two trajectories or two updates
            raise
        finally:
            self._spare.needed()
            try:
                if whole:
                    self._stop(workers, record)
            finally:
                self._end_workers()
            progress.seconds = before + time.perf_counter() - began
            record.last_row()
            is_saved = self._saver is None or self._saver.wait()
        return is_saved

    def _save_what_stands(self) -> None:
        """For a process that ends in the middle of a step, which an environment does not give back."""
        self.state.give_up_episodes()
        self._spare.needed()
        if self._checkpointed < self.steps:
            self.checkpoint()
        if self._saver is not None:
            self._saver.wait()

    def _open_workers(self) -> Workers:
        """Makes what the run needs, so that a mistake shows itself before anything is written."""
        state = self.state
        watched = any(callback.watches_updates for callback in self.callbacks)
        if state.kind.in_process:
            state.learner.on_update = partial(self._call, "on_update") if watched else None
        elif watched:
            raise SettingsError("on_update sees the updates of one process: use home='local', or on_rollout")
        if self._workers is None:
            self._workers = state.kind.workers(state.start(self._went_back))
        return self._workers

    def _stop(self, workers: Workers, record: Record) -> None:
        """Ends the workers after their trajectories, and saves where they stand."""
        record.take(workers.stop())
        self.fetch()
        if self._checkpointed < self.steps:
            self.checkpoint()
        if not self.state.kind.in_process:
            self.state.actors = workers.states()

    def _end_workers(self) -> None:
        """Ends what is left of the workers; the next session has others."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.kill()

    def fetch(self) -> None:
        """Brings the parameters from their home, if that is elsewhere: until then `agent` has older ones."""
        if self._workers is not None:
            self._workers.fetch()
            self.agent.use_moments()

    def _go_back(self, why: ParameterServerLost) -> None:
        """Goes on from the last checkpoint, in this process, after the parameters were lost elsewhere."""
        if self.directory is None or store.is_unsaved_run(self.directory):
            raise LearningFault(f"{why}, and there is no checkpoint to go on from") from None
        loaded = store.find(self.directory, warn)
        warn(f"{why}; going on from {loaded.path}")
        self._went_back = True
        self.load(loaded)

    # ------------------------------------------------------------------ what is told and written

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Logs]:
        """The run's tables, to which it adds; its directory is ours alone meanwhile."""
        progress = self.state.progress
        ours: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if self.files is not None:
            ours = self.files.writing(self.steps, self.state.asked if self._extended else None)
        with ours as files, Logs(files, progress.rows, self.steps, self.config) as logs:
            self._logs = logs
            if files is not None:
                self._spare.take()
            try:
                yield logs
            finally:
                self._spare.free()
                progress.rows, self._logs = logs.rows(), None

    def _call(self, moment: str, what: Any) -> None:
        """Tells the user's callbacks; one that returns False ends the run after this iteration."""
        view = RunView(self)
        for callback in self.callbacks:
            if getattr(callback, moment)(view, what) is False:
                self.stopping = True

    def evaluate(
        self, episodes: int, deterministic: bool = True, seeds: np.random.SeedSequence | None = None
    ) -> Evaluation:
        """Plays in environments of its own, on seeds of its own."""
        self.fetch()
        result = self.state.evaluate(episodes, deterministic, seeds, lambda: self.interrupted)
        self._call("on_evaluation", result)
        return result

    # ------------------------------------------------------------------ saving

    def snapshot(self, fetch: bool = True) -> Snapshot:
        """The whole run at this moment, copied; without `fetch`, with the parameters that were fetched last."""
        if fetch:
            self.fetch()
        if self._logs is not None:
            self.state.progress.rows = self._logs.rows()
        return self.state.snapshot(self._workers)

    def checkpoint(self, best: bool = False) -> None:
        """Saves the whole run into its directory while it goes on; never with parameters that are not finite."""
        if self.files is not None:
            snapshot = self.snapshot(fetch=not best)  # the best are those that were evaluated
            self.state.check_finite()
            if self._saver is None or self._saver.run is not self.files.files:
                self._saver = store.Saver(self.files.files, self.config.keep_checkpoints, warn)
            self._saver.save(self.steps, snapshot, best, self._logs.flush if self._logs else None)
        self._checkpointed = self.steps

    def save_model(self, path: Path) -> None:
        """Writes the agent without its run; of what exists, only saved models are replaced."""
        self.fetch()
        checkpoint.save(path, Snapshot(self.state.tensors(), self.state.describe()))
