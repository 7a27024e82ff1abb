"""Videos and film strips of a policy at play."""

import dataclasses
import itertools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import gymnasium as gym
import imageio_ffmpeg
import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from acer.config import environment_options
from acer.envs import EnvBatch, make_one
from acer.envs.episodes import MASKS
from acer.envs.family import Pictures
from acer.envs.guests import hosted
from acer.envs.others import EnvMaker
from acer.envs.registry import family_of, make_batch
from acer.errors import EnvironmentFault, SettingsError
from acer.learner.actor_learner import Agent
from acer.run.outputs import beside, check_writable


def record(
    agent: Agent, source: str | EnvMaker, output: Path, episodes: int, seed: int, deterministic: bool
) -> list[float]:
    """Plays episodes one after the other into one file; returns their returns.

    By the file's ending: a video (.mp4) at the environment's own speed, or a film strip (.png).
    """
    if episodes < 1:
        raise SettingsError(f"a video needs at least one episode, not {episodes}")
    if not output.parent.is_dir():
        raise SettingsError(f"cannot write {output}: {output.parent} is not a directory")
    if output.suffix not in (".mp4", ".png"):
        raise SettingsError(f"cannot write {output}: the ending must be .mp4 for a video or .png for a film strip")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames only: pygame needs no screen
    check_writable(output)
    stage = stage_of(source, agent)
    returns: list[float] = []
    try:
        with beside(output) as finished:
            frames = _play(agent, stage, episodes, seed, deterministic, returns)
            if output.suffix == ".png":
                _write_strip(frames, finished)
            else:
                untitled = finished.with_name("untitled.mp4")
                _write_video(frames, untitled, stage.fps)
                scores = ", ".join(f"{value:,.0f}" for value in returns)
                name = source if isinstance(source, str) else agent.config.env
                _entitle(untitled, finished, f"{name}, {agent.config.algo}: {scores}")
    finally:
        stage.close()
    return returns


def stage_of(source: str | EnvMaker, agent: Agent) -> "Stage":
    """What is filmed: the environment's own rendering, or its family's pictures of it."""
    pictures = family_of(source).pictures
    if pictures is not None:
        options = environment_options(dataclasses.replace(agent.config, env=str(source)))
        return Shown(make_batch(source, 1, **options), pictures(source, **options))
    try:
        return _Rendered(make_one(source, **agent.config.env_kwargs | {"render_mode": "rgb_array"}), agent)
    except EnvironmentFault as error:
        if "render_mode" not in str(error):
            raise
        raise EnvironmentFault(f"{source} cannot be filmed: it has to take render_mode='rgb_array' ({error})") from None


def _write_video(frames: Iterator[NDArray[np.uint8]], output: Path, fps: float) -> None:
    first = next(frames)
    height, width = (size - size % 2 for size in first.shape[:2])  # the codec wants even sizes
    writer = imageio_ffmpeg.write_frames(
        str(output), (width, height), fps=fps, codec="libx264", quality=7, macro_block_size=1
    )
    writer.send(None)
    try:
        for frame in itertools.chain([first], frames):
            writer.send(np.ascontiguousarray(frame[:height, :width]))
    finally:
        writer.close()


def _write_strip(frames: Iterator[NDArray[np.uint8]], output: Path, count: int = 8) -> None:
    """Frames at even distances, side by side. Of a long game only some are ever kept."""
    kept: list[NDArray[np.uint8]] = []
    distance = 1
    for number, frame in enumerate(frames):
        if number % distance == 0:
            kept.append(frame[::2, ::2] if len(frame) > 400 else frame)
        if len(kept) == 16 * count:
            kept, distance = kept[::2], 2 * distance
    picks = np.linspace(0, len(kept) - 1, count).round().astype(int)
    plt.imsave(output, np.concatenate([kept[i] for i in picks], axis=1))


class Stage(Protocol):
    """One environment that can be looked at."""

    fps: float

    def reset(self, seed: int) -> tuple[NDArray[Any], list[NDArray[np.uint8]]]:
        """The first observation [1, …], encoded, and what it looks like."""

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, list[NDArray[np.uint8]]]:
        """Observation, raw reward, whether the episode is over, and the frames since the last step."""

    def masks(self) -> NDArray[np.bool_] | None:
        """Which choices are legal now [1, n], if the environment says so."""

    def close(self) -> None: ...


class _Rendered:
    """Any Gymnasium environment that renders itself."""

    def __init__(self, env: gym.Env[Any, Any], agent: Agent) -> None:
        self.env, self.agent = env, agent
        self.fps = env.metadata.get("render_fps") or 30
        self.masked = env.has_wrapper_attr(MASKS)

    def reset(self, seed: int) -> tuple[NDArray[Any], list[NDArray[np.uint8]]]:
        with hosted("cannot reset"):
            raw, _ = self.env.reset(seed=seed)
            return self.agent.observation.encode_one(raw), [self._frame()]

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, list[NDArray[np.uint8]]]:
        with hosted("cannot step"):
            raw, reward, terminated, truncated, _ = self.env.step(self.agent.action.decode(action)[0])
            x = self.agent.observation.encode_one(raw)
            return x, float(reward), bool(terminated or truncated), [self._frame()]

    def _frame(self) -> NDArray[np.uint8]:
        with hosted("cannot render"):
            frame = self.env.render()
        if not isinstance(frame, np.ndarray) or frame.ndim != 3:
            raise EnvironmentFault("cannot render: the environment has no rgb_array frames")
        return frame

    def masks(self) -> NDArray[np.bool_] | None:
        if not self.masked:
            return None
        with hosted("cannot tell action_masks"):
            return np.asarray(self.env.get_wrapper_attr(MASKS)(), np.bool_).reshape(1, -1)

    def close(self) -> None:
        with hosted("cannot close"):
            self.env.close()


class Shown:
    """An environment that does not render itself, and another that shows what it does."""

    def __init__(self, batch: EnvBatch, pictures: Pictures) -> None:
        self.batch, self.pictures = batch, pictures
        self.fps = pictures.fps

    def reset(self, seed: int) -> tuple[NDArray[Any], list[NDArray[np.uint8]]]:
        frames = self.pictures.reset(seed)
        return self.batch.reset([seed]), frames

    def step(self, action: NDArray[Any]) -> tuple[NDArray[Any], float, bool, list[NDArray[np.uint8]]]:
        frames = self.pictures.step(action)
        step = self.batch.step(action)
        return step.observations, float(step.rewards[0]), bool(step.ends_episode[0]), frames

    def masks(self) -> NDArray[np.bool_] | None:
        return self.batch.masks()

    def close(self) -> None:
        self.batch.close()
        self.pictures.close()


def _play(
    agent: Agent, stage: Stage, episodes: int, seed: int, deterministic: bool, returns: list[float]
) -> Iterator[NDArray[np.uint8]]:
    seeds, acting = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(acting)
    for episode_seed in seeds.generate_state(episodes) >> 1:
        x, frames = stage.reset(int(episode_seed))
        yield from frames
        total, steps, over, memory = 0.0, 0, False, agent.memory(1)
        while not over and steps < agent.config.eval_limit:
            noise = None if deterministic else agent.distribution.noise(rng, (1,))
            action, _ = agent.act(x, noise, stage.masks(), memory)
            x, reward, over, frames = stage.step(action)
            total, steps = total + reward, steps + 1
            yield from frames
        returns.append(total)


def _entitle(partial: Path, output: Path, title: str) -> None:
    """Copies the finished video with a title inside, which players show."""
    ffmpeg = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", "-i", str(partial), "-c", "copy"]
    run = subprocess.run(
        [*ffmpeg, "-metadata", f"title={title}", "-f", "mp4", str(output)], capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise SettingsError(f"cannot write {output}: {' '.join(run.stderr.split())}")
