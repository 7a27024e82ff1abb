"""Training: runs actor-learners wherever their parameters live, logs, evaluates and saves."""

import contextlib
import dataclasses
import json
import math
import os
import signal
import time
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from acer import config as configuration
from acer.config import Config
from acer.console import warn
from acer.envs import ActionSpec, EnvBatch, ObservationSpec, spaces_of
from acer.envs.registry import EnvMaker
from acer.errors import (
    FAILED,
    AcerError,
    CheckpointError,
    EnvironmentFault,
    LearningFault,
    ParameterServerLost,
    SettingsError,
    in_one_line,
)
from acer.homes.local import InProcess, Local
from acer.homes.shared import WorkerProcesses
from acer.homes.supervisor import Workers, warn_of_new_episodes
from acer.learner import algorithms
from acer.learner.actor_learner import (
    ActorLearner,
    ActorState,
    Agent,
    Report,
    environments,
    find_device,
    learning_rate,
    use_threads,
)
from acer.learner.networks import Network, faster_precision
from acer.learner.parameters import views
from acer.machine import keep_memory, lock, signals_go_to, versions
from acer.run import checkpoint
from acer.run.callbacks import Callback
from acer.run.checkpoint import Snapshot
from acer.run.display import Display
from acer.run.evaluation import Evaluation, evaluate
from acer.run.logs import Logs, Meter, column_pairs, put_aside


class Training:
    """One run. With a directory it keeps logs and checkpoints there; without one it only learns."""

    def __init__(
        self,
        config: Config,
        env: str | EnvMaker | None = None,
        directory: Path | None = None,
        callbacks: Sequence[Callback] = (),
        saved: tuple[Path, dict[str, Any]] | None = None,
    ) -> None:
        """saved: a checkpoint that is going to be loaded; it must fit before memory is taken for the networks."""
        self.directory, self.callbacks = directory, callbacks
        self.env_source: str | EnvMaker = env or config.env
        observation, action = spaces_of(self.env_source, **configuration.environment_options(config))
        use_threads(config, observation)  # first of all: how many there are decides how numbers round
        self.config = config = _decided(config, observation)
        if saved is not None:
            check_fits(config, observation, action, *saved)
        init, self._learner_seeds, self._evaluation_seeds = np.random.SeedSequence(config.seed).spawn(3)
        try:
            make_home = partial(Local, start=config.rmsprop_start)
            self.agent = Agent(config, observation, action, int(init.generate_state(1)[0]), make_home)
        except RuntimeError as error:  # PyTorch's word for no memory
            if "alloc" not in str(error):
                raise
            raise SettingsError(f"the networks do not fit in memory ({in_one_line(error)}): smaller --hidden") from None
        self._evaluation_env: EnvBatch | None = None
        keep_memory()
        self.meter = Meter()
        self.seconds = 0.0  # spent training, over all sessions of the run
        self.evaluations = 0
        self._extended = False  # to another number of steps than config.json has
        self._evaluation_due = False  # it was interrupted, and comes first when the run goes on
        self.stopping = False  # asked to, by a callback or a signal
        self.interrupted = False  # by a signal
        self.best = -math.inf  # mean return of the best evaluation
        self._checkpointed = 0
        self._row_at, self._row_seconds = 0, 0.0  # steps and seconds at the last row of progress.csv
        self._rows = {"progress": 0, "episodes": 0, "eval": 0}  # of each CSV file
        self._logs: Logs | None = None
        self._saver: checkpoint.Saver | None = None
        self._workers: Workers | None = None  # while the run goes on
        self._went_back = False  # to a checkpoint, after the parameters were lost elsewhere
        self._parts: list[ActorState | None] = []  # what other processes' actor-learners held when they were stopped

    @property
    def home(self) -> Local:
        """θ, θ_a and the optimiser's statistics in this process: their home, or a copy that the workers fetches."""
        assert isinstance(self.agent.home, Local)
        return self.agent.home

    @cached_property
    def learner(self) -> ActorLearner:
        """The actor-learner of this process with its batch of environments, made when there is something to learn."""
        return ActorLearner(self.agent, environments(self.config, self.env_source), self._learner_seeds)

    def open(self) -> None:
        """Makes what the run needs, so that a mistake shows itself before anything is written."""
        asked = any(type(callback).on_update is not Callback.on_update for callback in self.callbacks)
        if self.config.home == "local":
            self.learner.on_update = self._updated if asked else None
        elif asked:
            raise SettingsError("on_update sees the updates of one process: use home='local', or on_rollout")
        if self._workers is None:
            self._workers = self._make_workers()

    def begin(self, directory: Path) -> None:
        """Takes an empty directory for a new run; a mistake leaves nothing behind."""
        self.open()
        try:
            claim(directory, self.config)
        except SettingsError:
            self.dismiss()
            raise
        self.directory, self.best = directory, -math.inf

    def dismiss(self) -> None:
        """Ends what is left of the workers; the next run has another."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers.kill()

    def _make_workers(self) -> Workers:
        config, seeds = self.config, self._learner_seeds
        if config.home == "local":
            return InProcess(self.learner)
        if config.home == "shared":
            return WorkerProcesses(config, self.env_source, self.home, seeds)
        try:
            from acer.homes.ray import RayWorkers
        except ImportError as error:
            raise SettingsError(f"--home ray needs Ray: pip install '.[ray]' ({error})") from None
        return RayWorkers(config, self.env_source, self.home, seeds, self._went_back)

    @property
    def steps(self) -> int:
        """Environment steps done, by all actor-learners."""
        return self.home.steps

    def set_config(self, config: Config) -> None:
        """Another number of steps for the same run."""
        self.config = self.agent.config = config
        self._extended = True

    @classmethod
    def resume(
        cls,
        path: Path,
        env: str | EnvMaker | None = None,
        directory: Path | None = None,
        device: str | None = None,
    ) -> Self:
        """A run as its newest good checkpoint left it, unfinished episodes included.

        A run that ended before its first checkpoint, or lost them all, begins again; its curves are put aside.
        """
        if checkpoint.never_saved(path):
            file = path / "config.json"
            config = config_of(file, {"config": configuration.read_file(file)}, device)
            rows = column_pairs(path / "progress.csv", "steps", "steps") if (path / "progress.csv").exists() else []
            if any(steps >= config.steps for steps, _ in rows):
                raise CheckpointError(f"{path} came to its end, and its checkpoints are gone: nothing to go on from")
            return cls(config, trusted(config, env, file), directory)
        where, state = checkpoint.find(path, warn)
        return cls.take_up(where, state, env, directory, device)

    @classmethod
    def take_up(
        cls,
        where: Path,
        state: dict[str, Any],
        env: str | EnvMaker | None = None,
        directory: Path | None = None,
        device: str | None = None,
    ) -> Self:
        """A run as a checkpoint left it; `where` and `state` are what `checkpoint.find` gave."""
        config = config_of(where, state, device)
        training = cls(config, trusted(config, env, where), directory, saved=(where, state))
        training.load(where, state)
        return training

    def run(self, shown: bool = False) -> None:
        """Trains until `config.steps`, or until asked to stop; saves at the end, however it comes."""
        while True:
            try:
                return self._run(shown)
            except ParameterServerLost as error:
                self._go_back(error)

    def _run(self, shown: bool) -> None:
        self.open()
        assert self._workers is not None
        try:
            self._train(self._workers, shown)
        finally:
            self.dismiss()

    def _train(self, workers: Workers, shown: bool) -> None:
        config = self.config
        began, before = time.perf_counter(), self.seconds
        with _alone_in(self.directory), self._writing() as logs, _stop_on_signals(self), Display(
            config.env, config.steps, self.steps, shown
        ) as display:  # fmt: skip
            if self.directory is not None:
                if self._extended:
                    checkpoint.replace_text(self.directory / "config.json", configuration.to_json(config))
                checkpoint.forget_after(self.directory / "checkpoints", self.steps)
            first, checked, last_save = self.steps, self.steps, began
            whole = True  # no iteration is half done
            try:
                if config.home == "ray" and self.directory is not None and checkpoint.never_saved(self.directory):
                    self.checkpoint()  # whose parameters can be lost needs one from the beginning
                workers.start(self._parts)
                self._parts = []
                if self._evaluation_due and self._log_evaluation(logs, display):
                    self.checkpoint(best=True)
                while self.steps < config.steps and not self.stopping:
                    whole = False
                    reports = workers.wait()
                    whole = True
                    now = time.perf_counter()
                    self.seconds = before + now - began
                    self._take(reports, logs)
                    new, checked = self.steps - checked, self.steps
                    speed = (self.steps - first) / (now - began)
                    display.show(self.steps, self.meter.return_mean, speed, workers.members)
                    if self.steps - self._row_at >= config.log_every:
                        logs.progress(self._row())
                        self._row_at, self._row_seconds = self.steps, self.seconds
                    self._evaluation_due = _due(config.eval_every, self.steps, new)
                    best = self._evaluation_due and self._log_evaluation(logs, display)
                    by_time = config.checkpoint_minutes and now - last_save >= 60 * config.checkpoint_minutes
                    if best or by_time or _due(config.checkpoint_every, self.steps, new):
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
                try:
                    if whole:
                        self._take(workers.stop(), logs)
                        self.fetch()
                        if self._checkpointed < self.steps:
                            self.checkpoint()
                        if config.home != "local":
                            self._parts = workers.parts()
                finally:
                    self.dismiss()
                self.seconds = before + time.perf_counter() - began
                # What ends a run is not part of it: if it goes on, these rows give way to those of a run that never
                # stopped.
                if self._row_at < self.steps:
                    logs.progress(self._row(final=True), final=True)
                saved = self._saver is None or self._saver.wait()
            if self.steps >= config.steps:
                try:
                    self._log_evaluation(logs, display, final=True)
                except EnvironmentFault as error:
                    error.exit_code = FAILED
                    raise
            if not saved:
                raise CheckpointError(f"the last checkpoint could not be written; the run is in {self.directory} as it "
                                      "was before: make room and resume it")  # fmt: skip

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Logs]:
        """The run's files, to which it adds; how many rows are its own is known afterwards, too."""
        if self.directory is not None and checkpoint.never_saved(self.directory):
            put_aside(self.directory)
        with Logs(self.directory, self._rows, self.steps) as logs:
            self._logs = logs
            try:
                yield logs
            finally:
                self._rows, self._logs = logs.rows(), None

    def fetch(self) -> None:
        """Brings the parameters from their home, if that is elsewhere: until then `agent` has older ones."""
        if self._workers is not None:
            self._workers.fetch()
            self.agent.use_moments()

    def _take(self, reports: list[Report], logs: Logs) -> None:
        """Takes down what actor-learners report."""
        for report in reports:
            self.meter.add(report)
            logs.episodes(report.total, report.episodes)
            self._rolled_out(report)

    def _go_back(self, why: ParameterServerLost) -> None:
        """Goes on from the last checkpoint, in this process, after the parameters were lost elsewhere."""
        if self.directory is None or checkpoint.never_saved(self.directory):
            raise LearningFault(f"{why}, and there is no checkpoint to go on from") from None
        where, state = checkpoint.find(self.directory, warn)
        warn(f"{why}; going on from {where}")
        self._went_back = True
        self.load(where, state)

    def evaluate(
        self, episodes: int, deterministic: bool = True, seeds: np.random.SeedSequence | None = None
    ) -> Evaluation:
        """Plays in environments of its own, on seeds of its own."""
        if episodes < 1:
            raise SettingsError(f"an evaluation needs at least one episode, not {episodes}")
        count = min(episodes, self.config.environments * configuration.team_size(self.config))
        if self._evaluation_env is None or self._evaluation_env.count != count:
            if self._evaluation_env is not None:
                self._evaluation_env.close()
            self._evaluation_env = environments(self.config, self.env_source, count)
        if seeds is None:
            root = self._evaluation_seeds
            seeds = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, self.evaluations))
            self.evaluations += 1
        self.fetch()
        result = evaluate(
            self.agent,
            self._evaluation_env,
            episodes,
            seeds,
            deterministic,
            self.config.eval_limit,
            interrupted=lambda: self.interrupted,
        )
        for callback in self.callbacks:
            if callback.on_evaluation(self, result) is False:
                self.stopping = True
        return result

    def close(self) -> None:
        """Ends the environments."""
        if "learner" in vars(self):
            self.learner.rollout.env.close()
        if self._evaluation_env is not None:
            self._evaluation_env.close()

    # ------------------------------------------------------------------ saving

    def tensors(self) -> dict[str, Tensor]:
        """θ, θ_a and the mean of squares, by parameter; views, not copies."""
        home, network = self.home, self.agent.network
        named = {f"theta.{name}": p.data for name, p in network.named_parameters()}
        named |= {f"average.{name}": p.data for name, p in self.agent.average.named_parameters()}
        named |= {f"square.{name}": view for name, view in views(network, home.square).items()}
        if self.agent.moments is not None:
            named |= {
                f"moments.{name}": torch.from_numpy(np.atleast_1d(v)) for name, v in self.agent.moments.state().items()
            }
        return named

    def state(self) -> dict[str, Any]:
        """Everything that is neither tensor nor replay."""
        return {
            "config": json.loads(configuration.to_json(self.config)),
            "spaces": spaces(self.agent.observation, self.agent.action),
            "steps": self.steps,
            "seconds": self.seconds,
            "evaluations": self.evaluations,
            "evaluation_due": self._evaluation_due,
            "best": self.best if math.isfinite(self.best) else None,
            "skipped_updates": self.home.skipped,
            "rows": self._rows_now(),
            "row_at": self._row_at,
            "row_seconds": self._row_seconds,
            "meter": self.meter.state(),
            "versions": versions(),
        }

    def _rows_now(self) -> dict[str, int]:
        return self._logs.rows() if self._logs else self._rows

    def snapshot(self, fetch: bool = True) -> Snapshot:
        """The whole run at this moment, copied; without `fetch`, with the parameters that were fetched last."""
        parts = self._parts
        if fetch:
            self.fetch()
        if self._workers is not None:
            parts = self._workers.parts()
        elif "learner" in vars(self):
            parts = [self.learner.state()]
        tensors = {name: tensor.clone() for name, tensor in self.tensors().items()}
        return Snapshot(tensors, self.state(), parts)

    def checkpoint(self, best: bool = False) -> None:
        """Saves the whole run into its directory while it goes on; never with parameters that are not finite."""
        if self.directory is not None:
            snapshot = self.snapshot(fetch=not best)  # the best are those that were evaluated
            if not torch.isfinite(self.home.theta).all():
                raise LearningFault(
                    f"the parameters are not finite at step {self.steps:,}: not saved; the last checkpoint is good"
                )
            root = self.directory / "checkpoints"
            if self._saver is None or self._saver.root != root:
                self._saver = checkpoint.Saver(root, self.config.keep_checkpoints, warn)
            self._saver.save(self.steps, snapshot, best)
        self._checkpointed = self.steps

    def save_model(self, path: Path) -> None:
        """Writes the agent without its run."""
        self.fetch()
        checkpoint.write(path, Snapshot(self.tensors(), self.state()))

    def load(self, where: Path, state: dict[str, Any]) -> None:
        """Takes over the whole run: learner, counters, replay memory, unfinished episodes."""
        self.load_model(where, state)
        others = 0
        try:
            self.home.steps = self._checkpointed = int(state["steps"])
            self.home.skipped = int(state["skipped_updates"])
            self.seconds, self.evaluations = float(state["seconds"]), int(state["evaluations"])
            self._evaluation_due = bool(state["evaluation_due"])
            self.best = -math.inf if state["best"] is None else float(state["best"])
            self.meter.restore(state["meter"])
            self._rows = {name: int(state["rows"][name]) for name in self._rows}
            self._row_at, self._row_seconds = int(state["row_at"]), float(state.get("row_seconds", self.seconds))
            self._parts = checkpoint.read_parts(where, state, configuration.team_size(self.config))
            if self.config.home == "local":
                (part,) = self._parts
                if part is None:
                    raise CheckpointError(f"{where} is a model without its run")
                others = self.learner.restore(part)
                self._parts = []
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, OSError) as error:
            raise CheckpointError(f"{where} is damaged: {type(error).__name__}: {error}") from None
        warn_of_new_episodes(self.config, others)

    def load_model(self, where: Path, state: dict[str, Any]) -> None:
        """Takes over the networks and the optimiser's statistics only."""
        tensors = self.tensors()
        for name, value in checkpoint.read_tensors(where, tensors).items():
            tensors[name].copy_(value)
        if self.agent.moments is not None:
            moments = {name: tensors[f"moments.{name}"].numpy() for name in ("mean", "variance")}
            self.agent.moments.restore({"count": tensors["moments.count"].numpy()[0], **moments})
            self.agent.use_moments()

    # ------------------------------------------------------------------ moments of the run

    def _row(self, final: bool = False) -> dict[str, Any]:
        return {
            "steps": self.steps, "seconds": self.seconds,
            **self.meter.row(self.seconds - self._row_seconds, final),
            "learning_rate": learning_rate(self.config, self.steps), "skipped_updates": self.home.skipped,
        }  # fmt: skip

    def _evaluation_row(self, result: Evaluation) -> dict[str, Any]:
        return {
            "steps": self.steps, "seconds": self.seconds, "episodes": len(result.returns), "return_mean": result.mean,
            "return_std": result.std, "return_min": min(result.returns), "return_max": max(result.returns),
            "length_mean": float(np.mean(result.lengths)), "policy": "mode" if result.deterministic else "sampled",
        }  # fmt: skip

    def _log_evaluation(self, logs: Logs, display: Display, final: bool = False) -> bool:
        """Whether it is the best so far."""
        before = self.evaluations
        try:
            result = self.evaluate(self.config.eval_episodes, deterministic=self.config.eval_policy == "mode")
        except KeyboardInterrupt:  # of the evaluation only: the run itself ends in order
            self.evaluations = before
            return False
        self._evaluation_due = False
        if final:
            self.evaluations = before
        row = self._evaluation_row(result)
        logs.evaluation(row, final)
        display.say(f"{self.steps:>12,} steps  evaluation ({row['policy']}) {result.mean:,.1f} ± {result.std:,.1f}")
        if final or result.mean <= self.best:
            return False
        self.best = result.mean
        return True

    def _rolled_out(self, report: Report) -> None:
        for callback in self.callbacks:
            if callback.on_rollout(self, report) is False:
                self.stopping = True

    def _updated(self, diagnostics: dict[str, float]) -> None:
        for callback in self.callbacks:
            if callback.on_update(self, diagnostics) is False:
                self.stopping = True


def claim(directory: Path, config: Config) -> None:
    """Takes an output directory for a new run; one that is in use is never overwritten."""
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            run = (directory / "config.json").is_file()
            hint = f"; to go on with it: acer resume {directory}" if run else ""
            raise SettingsError(f"{directory} exists and is not empty: choose another --out{hint}")
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "config.json").write_text(configuration.to_json(config))
    except OSError as error:
        raise SettingsError(f"cannot write to {directory}: {error.strerror}; choose another --out") from None


def config_of(where: Path, state: dict[str, Any], device: str | None = None) -> Config:
    """The configuration that a checkpoint was made with, on another device if one is given."""
    try:
        return configuration.from_dict(state["config"] | ({"device": device} if device else {}))
    except (AcerError, KeyError, TypeError) as error:
        raise CheckpointError(f"{where} has no usable configuration: {error}") from None


def trusted(config: Config, env: str | EnvMaker | None, where: Path) -> str | EnvMaker | None:
    """The environment to use. Code that a file names is not run because the file says so: the user has to."""
    if env is None and ":" in config.env:
        importable = "<" not in config.env and not config.env.startswith(("__main__:", "functools:"))
        raise CheckpointError(
            f"{where} was made with {config.env}, code of your own, which is not run because a file names it; "
            f"if you trust it, name it yourself: --env {config.env if importable else 'module:Class'}, in Python env=…"
        )
    return env


def spaces(observation: ObservationSpec, action: ActionSpec) -> dict[str, str]:
    """What a checkpoint remembers of its environment."""
    return {"observation": observation.describe(), "action": action.describe()}


def check_fits(
    config: Config, observation: ObservationSpec, action: ActionSpec, where: Path, state: dict[str, Any]
) -> None:
    """Refuses a checkpoint of another environment, or one whose tensors are not those of the configured network; the
    network is not made for that."""
    here = spaces(observation, action)
    if state.get("spaces") != here:
        raise CheckpointError(
            f"{where} was made for another environment: its spaces are {state.get('spaces')}, here they are {here}"
        )
    with torch.device("meta"):
        architecture = algorithms.architecture(config, observation, action)
        network = Network(architecture)
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters()}
    average = {name.removeprefix("policy."): shape for name, shape in shapes.items() if name.startswith("policy.")}
    expected = {
        f"{kind}.{name}": (shape, "torch.float32") for kind in ("theta", "square") for name, shape in shapes.items()
    }
    expected |= {f"average.{name}": (shape, "torch.float32") for name, shape in average.items()}
    if config.normalize_observations:
        expected |= {f"moments.{name}": (observation.shape, "torch.float64") for name in ("mean", "variance")}
        expected["moments.count"] = ((1,), "torch.float64")
    checkpoint.check_model(where, expected)


def _decided(config: Config, observation: ObservationSpec) -> Config:
    """The configuration with its precision and its number of actor-learners decided, so that the run keeps them
    wherever it goes on."""
    if config.home != "local":
        config = dataclasses.replace(config, actors=configuration.team_size(config))
    if config.precision != "auto":
        return config
    if not algorithms.is_convolutional(config, observation):
        return dataclasses.replace(config, precision="float32")
    return dataclasses.replace(config, precision=faster_precision(find_device(config.device)))


def extend(config: Config, steps: int) -> Config:
    """The same run, to another number of steps."""
    return configuration.from_dict(vars(config) | {"steps": steps})


def _due(every: int, steps: int, new: int) -> bool:
    """Whether a multiple of `every` lies among the last `new` steps."""
    return bool(every) and steps // every > (steps - new) // every


@contextlib.contextmanager
def _alone_in(directory: Path | None) -> Iterator[None]:
    """Refuses a directory in which another process trains."""
    if directory is None:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        if not lock(descriptor):
            raise SettingsError(f"another process is training in {directory}: wait for it, or stop it")
        yield
    finally:
        os.close(descriptor)


def _stop_on_signals(training: Training) -> contextlib.AbstractContextManager[None]:
    """Ctrl-C and SIGTERM end the run after the current iteration; a second one ends it at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        if training.interrupted:
            raise KeyboardInterrupt
        training.stopping = training.interrupted = True

    return signals_go_to(ask, signal.SIGINT, signal.SIGTERM)
