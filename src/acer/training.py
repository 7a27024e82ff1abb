"""Training: runs an actor-learner, logs, evaluates and saves."""

import contextlib
import dataclasses
import json
import platform
import signal
import time
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from acer import checkpoint
from acer import config as configuration
from acer.actor_learner import ActorLearner, Agent, Report
from acer.callbacks import Callback
from acer.config import Config
from acer.display import Display
from acer.envs import EnvBatch, ObservationSpec, make_batch, spaces_of
from acer.envs.registry import EnvMaker
from acer.errors import AcerError, CheckpointError, SettingsError
from acer.evaluation import Evaluation, evaluate
from acer.logs import EPISODES, EVALUATIONS, PROGRESS, Meter, Table, TensorBoard
from acer.machine import cores, keep_memory
from acer.networks import bfloat16_pays
from acer.parameters import views


class Training:
    """One run. With a directory it keeps logs and checkpoints there; without one it only learns."""

    def __init__(
        self,
        config: Config,
        env: str | EnvMaker | None = None,
        directory: Path | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.directory, self.callbacks = directory, callbacks
        self.env_source: str | EnvMaker = env or config.env
        observation, action = spaces_of(self.env_source, **configuration.environment_options(config))
        self.config = config = _with_precision(config, observation)
        init, self._learner_seeds, self._evaluation_seeds = np.random.SeedSequence(config.seed).spawn(3)
        self.agent = Agent(config, observation, action, int(init.generate_state(1)[0]))
        self._evaluation_env: EnvBatch | None = None
        use_threads(config, self.agent)
        keep_memory()
        self.meter = Meter()
        self.seconds = 0.0  # spent training, over all sessions of the run
        self.evaluations = 0
        self.stopping = False  # asked to, by a callback or a signal
        self.interrupted = False  # by a signal
        self._checkpointed = 0

    @cached_property
    def learner(self) -> ActorLearner:
        """The actor-learner with its batch of environments, made when there is something to learn."""
        env = self._make_batch(self.config.environments)
        return ActorLearner(self.agent, env, self._learner_seeds)

    def _make_batch(self, count: int) -> EnvBatch:
        return make_batch(self.env_source, count, self.config.workers, **configuration.environment_options(self.config))

    @property
    def steps(self) -> int:
        """Environment steps done."""
        return self.learner.steps if "learner" in vars(self) else 0

    def set_config(self, config: Config) -> None:
        """Another number of steps for the same run."""
        self.config = self.learner.config = config

    @classmethod
    def resume(
        cls,
        path: Path,
        env: str | EnvMaker | None = None,
        directory: Path | None = None,
        device: str | None = None,
    ) -> Self:
        """A run as its checkpoint left it; its environments begin new episodes.

        A run that ended before its first checkpoint begins again: nothing of it was learnt to last.
        """
        if checkpoint.never_saved(path):
            file = path / "config.json"
            return cls(config_of(file, {"config": configuration.read_file(file)}, device), env, directory)
        where = checkpoint.find(path)
        state = checkpoint.read_state(where)
        training = cls(config_of(where, state, device), env, directory)
        training.load(where, state)
        return training

    def run(self, shown: bool = False) -> None:
        """Trains until `config.steps`, or until asked to stop; saves at the end, however it comes."""
        asked = any(type(callback).on_update is not Callback.on_update for callback in self.callbacks)
        self.learner.on_update = self._updated if asked else None
        began, before = time.perf_counter(), self.seconds
        with _Logs(self) as logs, _stop_on_signals(self), Display(
            self.config.env, self.config.steps, self.steps, shown
        ) as display:  # fmt: skip
            first = last_row = self.steps
            last_time = began
            try:
                while self.steps < self.config.steps and not self.stopping:
                    report = self.learner.iterate()
                    now = time.perf_counter()
                    self.seconds = before + now - began
                    self.meter.add(report)
                    logs.episodes(self.steps, report.episodes)
                    self._rolled_out(report)
                    display.show(self.steps, self.meter.return_mean, (self.steps - first) / (now - began))
                    if self.steps - last_row >= self.config.log_every or self.steps >= self.config.steps:
                        logs.progress(self._row(now - last_time))
                        last_row, last_time = self.steps, now
                    if _due(self.config.eval_every, self.steps, report.steps) or self.steps >= self.config.steps:
                        self._log_evaluation(logs, display)
                    if _due(self.config.checkpoint_every, self.steps, report.steps):
                        self.checkpoint()
            finally:
                if last_row < self.steps:
                    logs.progress(self._row(time.perf_counter() - last_time))
                # An environment that fails has discarded its half-written trajectory: what is here is whole.
                if self._checkpointed < self.steps:
                    self.checkpoint()

    def evaluate(
        self, episodes: int, deterministic: bool = True, seeds: np.random.SeedSequence | None = None
    ) -> Evaluation:
        """Plays in environments of its own, on seeds of its own."""
        if episodes < 1:
            raise SettingsError(f"an evaluation needs at least one episode, not {episodes}")
        count = min(episodes, self.config.environments)
        if self._evaluation_env is None or self._evaluation_env.count != count:
            if self._evaluation_env is not None:
                self._evaluation_env.close()
            self._evaluation_env = self._make_batch(count)
        if seeds is None:
            root = self._evaluation_seeds
            seeds = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, self.evaluations))
            self.evaluations += 1
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
        home, network = self.agent.home, self.agent.network
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
            "spaces": self._spaces(),
            "steps": self.steps,
            "seconds": self.seconds,
            "evaluations": self.evaluations,
            "skipped_updates": self.learner.skipped,
            "meter": self.meter.state(),
            "random_streams": {name: rng.bit_generator.state for name, rng in self.learner.rngs.items()},
            "versions": {"acer": version("acer"), "torch": torch.__version__, "numpy": np.__version__,
                         "gymnasium": version("gymnasium"), "python": platform.python_version()},
        }  # fmt: skip

    def checkpoint(self) -> None:
        """Saves the whole run into its directory."""
        if self.directory is not None:
            root = self.directory / "checkpoints"
            root.mkdir(parents=True, exist_ok=True)
            replay = self.learner.replay.state()
            checkpoint.write_numbered(
                root, self.steps, self.tensors(), self.state(), replay, self.config.keep_checkpoints
            )
        self._checkpointed = self.steps

    def load(self, where: Path, state: dict[str, Any]) -> None:
        """Takes over learner, counters and, where the checkpoint has it, replay."""
        self.load_model(where, state)
        try:
            self.learner.restart(int(state["steps"]))
            self._checkpointed = self.steps
            self.learner.skipped = int(state["skipped_updates"])
            self.seconds, self.evaluations = float(state["seconds"]), int(state["evaluations"])
            self.meter.restore(state["meter"])
            for name, rng in self.learner.rngs.items():
                rng.bit_generator.state = state["random_streams"][name]
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{where / checkpoint.STATE} is damaged: {error!r}") from None
        if (where / checkpoint.REPLAY).exists():
            self.learner.replay.restore(checkpoint.read_replay(where))

    def load_model(self, where: Path, state: dict[str, Any]) -> None:
        """Takes over the networks and the optimiser's statistics only."""
        if state.get("spaces") != self._spaces():
            raise CheckpointError(
                f"{where} was made for another environment: its spaces are {state.get('spaces')}, "
                f"here they are {self._spaces()}"
            )
        tensors = self.tensors()
        for name, value in checkpoint.read_tensors(where, tensors).items():
            tensors[name].copy_(value)
        if self.agent.moments is not None:
            moments = {name: tensors[f"moments.{name}"].numpy() for name in ("mean", "variance")}
            self.agent.moments.restore({"count": tensors["moments.count"].numpy()[0], **moments})
            self.agent.use_moments()

    def _spaces(self) -> dict[str, Any]:
        return {"observation": self.agent.observation.describe(), "action": self.agent.action.describe()}

    # ------------------------------------------------------------------ moments of the run

    def _row(self, seconds: float) -> dict[str, Any]:
        return {
            "steps": self.steps, "seconds": self.seconds, **self.meter.row(seconds),
            "learning_rate": self.learner.rate(), "skipped_updates": self.learner.skipped,
        }  # fmt: skip

    def _evaluation_row(self, result: Evaluation) -> dict[str, Any]:
        return {
            "steps": self.steps, "seconds": self.seconds, "episodes": len(result.returns), "return_mean": result.mean,
            "return_std": result.std, "return_min": min(result.returns), "return_max": max(result.returns),
            "length_mean": float(np.mean(result.lengths)), "policy": "mode" if result.deterministic else "sampled",
        }  # fmt: skip

    def _log_evaluation(self, logs: "_Logs", display: Display) -> None:
        try:
            result = self.evaluate(self.config.eval_episodes)
        except KeyboardInterrupt:  # of the evaluation only: the run itself ends in order
            return
        logs.evaluation(self._evaluation_row(result))
        display.say(f"{self.steps:>12,} steps  evaluation {result.mean:,.1f} ± {result.std:,.1f}")

    def _rolled_out(self, report: Report) -> None:
        for callback in self.callbacks:
            if callback.on_rollout(self, report) is False:
                self.stopping = True

    def _updated(self, diagnostics: dict[str, float]) -> None:
        for callback in self.callbacks:
            if callback.on_update(self, diagnostics) is False:
                self.stopping = True


def config_of(where: Path, state: dict[str, Any], device: str | None = None) -> Config:
    """The configuration that a checkpoint was made with, on another device if one is given."""
    try:
        return configuration.from_dict(state["config"] | ({"device": device} if device else {}))
    except (AcerError, KeyError, TypeError) as error:
        raise CheckpointError(f"{where} has no usable configuration: {error}") from None


def _with_precision(config: Config, observation: ObservationSpec) -> Config:
    """The configuration with its precision decided, so that the run keeps it wherever it goes on."""
    if config.precision != "auto":
        return config
    convolutional = config.torso == "conv" or (config.torso == "auto" and observation.is_image)
    pays = convolutional and bfloat16_pays(config.device)
    return dataclasses.replace(config, precision="bfloat16" if pays else "float32")


def use_threads(config: Config, agent: Agent) -> None:
    """Sets PyTorch's threads for the process. Small networks are slower with more: handing work over costs more."""
    torch.set_num_threads(config.threads or (cores() if agent.architecture.convolutional else 1))


def extend(config: Config, steps: int) -> Config:
    """The same run, to another number of steps."""
    return configuration.from_dict(vars(config) | {"steps": steps})


def _due(every: int, steps: int, new: int) -> bool:
    """Whether a multiple of `every` lies among the last `new` steps."""
    return bool(every) and steps // every > (steps - new) // every


class _Logs:
    """The run's files, if it has a directory."""

    def __init__(self, training: Training) -> None:
        self._directory, self._from = training.directory, training.steps

    def __enter__(self) -> Self:
        if self._directory is not None:
            self._progress = Table(self._directory / "progress.csv", PROGRESS, self._from)
            self._evaluations = Table(self._directory / "eval.csv", EVALUATIONS, self._from)
            self._episodes = Table(self._directory / "episodes.csv", EPISODES, self._from)
            self._board = TensorBoard(self._directory / "tensorboard", self._from)
        return self

    def progress(self, row: dict[str, Any]) -> None:
        if self._directory is not None:
            self._progress.add(row)
            self._board.add("train", row)

    def episodes(self, steps: int, finished: list[tuple[float, int]]) -> None:
        if self._directory is not None and finished:
            self._episodes.add(*({"steps": steps, "return": r, "length": n} for r, n in finished))

    def evaluation(self, row: dict[str, Any]) -> None:
        if self._directory is not None:
            self._evaluations.add(row)
            self._board.add("eval", row)

    def __exit__(self, *_: object) -> None:
        if self._directory is not None:
            self._board.close()


@contextlib.contextmanager
def _stop_on_signals(training: Training) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run after the current iteration; a second one ends it at once."""

    def ask(number: int, frame: FrameType | None) -> None:
        if training.interrupted:
            raise KeyboardInterrupt
        training.stopping = training.interrupted = True

    try:
        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread: whoever runs us there handles signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
