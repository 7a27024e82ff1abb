"""The Python interface: `ACER("CartPole-v1").learn(50_000)`, in the shape that users of Stable-Baselines3 know."""

from inspect import signature
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from acer import config as configuration
from acer.config import Config, options_for, speaking_python
from acer.config.guesses import guess
from acer.config.setting import check_choice
from acer.envs import spaces_of
from acer.envs.sources import AnyEnv, source_of
from acer.errors import SettingsError
from acer.learner.actor_learner import Agent
from acer.machine import versions
from acer.run import opening, store, trust
from acer.run.callbacks import Callbacks, as_callbacks
from acer.run.card import card
from acer.run.evaluation import Evaluation
from acer.run.export import SUFFIX, Check, Format, export
from acer.run.training import Training


class ACER:
    """An agent for one environment: learns, acts, is saved and loaded.

    `env` is a Gymnasium id, `module:Class`, or a function that makes an environment. An environment that is made
    already, or a vector of them, is taken as a model: the agent trains in others like it. One of ale-py's is played as
    its id is. Settings are those of `acer.Config`; what is not given comes from the preset. `verbose` is that of each
    `learn`.
    """

    @speaking_python()
    def __init__(
        self, env: AnyEnv, *, preset: str | None = None, algo: str = "acer", verbose: int = 0, **settings: Any
    ) -> None:
        source = source_of(env)
        settings = source.settings | settings
        configuration.check_names(settings)
        _, action = spaces_of(source.env, **options_for(source.env, settings))
        config = configuration.defaults(source.name, action.continuous, preset or source.preset, algo, **settings)
        self._adopt(Training(config, source.env), verbose)

    def _adopt(self, training: Training, verbose: int = 0) -> None:
        self._training, self._verbose = training, verbose
        self._rng = np.random.default_rng(np.random.SeedSequence(training.config.seed).spawn(4)[3])

    @classmethod
    def of(cls, training: Training) -> Self:
        """The agent of a run."""
        model = cls.__new__(cls)
        model._adopt(training)
        return model

    @property
    def config(self) -> Config:
        """The settings, all of them."""
        return self._training.config

    @property
    def agent(self) -> Agent:
        """Networks and spaces."""
        return self._training.agent

    @property
    def steps(self) -> int:
        """Environment steps learnt from so far."""
        return self._training.steps

    @speaking_python()
    def learn(
        self,
        steps: int | None = None,
        *,
        out: str | Path | None = None,
        callbacks: Callbacks = (),
        progress: bool = False,
        total_timesteps: int | None = None,
        callback: Callbacks = (),
        progress_bar: bool = False,
        verbose: int | None = None,
        **others: Any,
    ) -> Self:
        """Trains for `steps` more steps (by default to `config.steps`); with `out`, logs and checkpoints go there.

        A callback is a `Callback`, or a function of the run and the report that is called after each rollout.
        `total_timesteps`, `callback`, and `progress_bar` or `verbose`, are Stable-Baselines3's words for `steps`,
        `callbacks` and `progress`. A learning rate that falls to 0 does so by the end of each call.
        """
        for name in others:
            raise SettingsError(f"learn takes no {name!r}{guess(name, signature(self.learn).parameters)}")
        if total_timesteps is not None:
            if steps is not None:
                raise SettingsError("steps and total_timesteps mean the same: give one of them")
            steps = total_timesteps
        verbose = self._verbose if verbose is None else verbose
        training = self._training
        if steps is not None:
            if steps < 1:
                raise SettingsError(f"learn needs at least one step, not {steps}")
            training.extend(self.steps + steps)
        training.callbacks = [*as_callbacks(callbacks), *as_callbacks(callback)]
        if out is not None:
            training.begin(Path(out))
        training.stopping = training.interrupted = False
        training.run(shown=progress or progress_bar or verbose > 0)
        if training.interrupted:
            training.interrupted = False
            raise KeyboardInterrupt
        return self

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        action_masks: NDArray[np.bool_] | None = None,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Actions for one observation or a batch of them, as the environment takes them.

        A recurrent policy takes what it remembered, `state`, and gives what it remembers now: arrays [n, …] for n
        observations, as Stable-Baselines3's recurrent policies do. Without it, and where `episode_start` says so, it
        remembers nothing. Other policies hand `state` back.

        action_masks: which choices are legal, for one observation or each of the batch, as sb3-contrib has it: those of
        all parts of an action one after the other.
        """
        agent = self._training.agent
        agent.observation.check(observation)
        one = agent.observation.holds(observation)
        x = (
            agent.observation.encode_one(observation)
            if one
            else agent.observation.encode(observation, agent.observation.count(observation))
        )
        noise = None if deterministic else agent.distribution.noise(self._rng, (len(x),))
        masks = None if action_masks is None else self._masks(action_masks, len(x))
        memory = self._remembered(state, episode_start, len(x))
        actions = agent.action.decode(agent.act(x, noise, masks, memory)[0])
        return (actions[0] if one else actions), state if memory is None else (memory,)

    def _remembered(
        self, state: tuple[NDArray[Any], ...] | None, episode_start: NDArray[np.bool_] | None, count: int
    ) -> NDArray[np.float32] | None:
        """What a recurrent policy remembers of `count` environments, in an array of its own."""
        nothing = self._training.agent.memory(count)
        if not nothing.size:
            return None
        memory = nothing if state is None else np.array(state[0], np.float32)
        if memory.shape != nothing.shape:
            raise SettingsError(f"state has an array of shape {memory.shape}, expected {nothing.shape}")
        if not np.isfinite(memory).all():
            raise SettingsError("state has NaN or infinity")
        if episode_start is not None:
            starts = np.asarray(episode_start, np.bool_).reshape(-1)
            if len(starts) not in (1, count):
                raise SettingsError(f"episode_start has {len(starts)} entries for {count} observations")
            memory[np.broadcast_to(starts, count)] = 0
        return memory

    def _masks(self, masks: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
        """Masks given by the user as [count, n]."""
        action = self._training.agent.action
        legal = np.asarray(masks, np.bool_)
        if action.continuous or legal.size != count * action.size:
            expected = "none, for actions are continuous" if action.continuous else f"({count}, {action.size})"
            raise SettingsError(f"action_masks has shape {legal.shape}, expected {expected}")
        legal = legal.reshape(count, action.size)
        if not all(part.any(1).all() for part in np.split(legal, np.cumsum(action.parts)[:-1], axis=1)):
            raise SettingsError("action_masks leaves no legal action")
        return legal

    @speaking_python()
    def evaluate(self, episodes: int = 20, deterministic: bool = True, seed: int | None = None) -> Evaluation:
        """Plays episodes in environments of its own; without a seed each call has new ones."""
        seeds = None if seed is None else np.random.SeedSequence(seed)
        return self._training.evaluate(episodes, deterministic, seeds)

    def save(self, path: str | Path) -> None:
        """Writes the model (safetensors and JSON) as a directory; of existing ones, only saved models are replaced."""
        self._training.save_model(Path(path))

    @speaking_python()
    def export(self, path: str | Path, to: Format = "onnx") -> Check:
        """Writes the policy for programs without acer: an ONNX file, or PyTorch's own (`to="torch"`).

        It takes raw observations, `action_masks` if the environment has them, and what a recurrent policy remembers; it
        gives the mode action as the environment takes it, the statistics φ, and what is remembered now. The file is
        compared with `predict` when it is written.
        """
        check_choice("to", to, SUFFIX)
        return export(self.agent, self._training.state.masked(), Path(path), to)

    def card(self, evaluation: Evaluation) -> str:
        """A model card with these scores: the README.md that the Hugging Face Hub expects beside a saved model."""
        agent = self.agent
        return card(self.config, self._training.state.trained, agent.observation, agent.action, versions(), evaluation)

    @classmethod
    @speaking_python()
    def load(
        cls,
        path: str | Path,
        env: AnyEnv | None = None,
        resume: bool = False,
        best: bool = False,
        **outward: Any,
    ) -> Self:
        """A saved model, or the latest (or best) checkpoint of a run.

        With `resume` the replay memory, the unfinished episodes and all counters come along, so that `learn` goes on
        where the run stopped, in its directory; otherwise `learn` begins anew from the saved parameters.

        outward: settings that reach outside this process, which a file may not decide (`acer resume --help`).
        """
        for name in outward:
            if name not in trust.OUTWARD:
                raise SettingsError(f"load takes no {name!r}; it takes {', '.join(trust.OUTWARD)}")
        source = None if env is None else source_of(env).env
        if resume:
            run = store.run_of(Path(path))
            directory = run if (run / store.CONFIG).is_file() else None
            training = opening.resume(Path(path), source, directory, outward)
            if training.files is not None:
                training.files.release()  # until `learn`, which looks whether it has moved on
            return cls.of(training)
        return cls.of(opening.load(Path(path), source, outward, best))

    def close(self) -> None:
        """Ends the environments."""
        self._training.close()
