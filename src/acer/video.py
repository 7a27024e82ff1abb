"""Videos of a policy at play."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import imageio_ffmpeg
import numpy as np
from numpy.typing import NDArray

from acer.actor_learner import Agent
from acer.envs import make_one
from acer.envs.registry import EnvMaker
from acer.errors import AcerError, EnvironmentFault, SettingsError


def record(
    agent: Agent, source: str | EnvMaker, output: Path, episodes: int, seed: int, deterministic: bool
) -> list[float]:
    """Plays episodes one after the other into one MP4 file, at the environment's own speed; returns their returns."""
    if episodes < 1:
        raise SettingsError(f"a video needs at least one episode, not {episodes}")
    if not output.parent.is_dir():
        raise SettingsError(f"cannot write {output}: {output.parent} is not a directory")
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # frames only: pygame needs no screen
    env = make_one(source, render_mode="rgb_array")
    returns: list[float] = []
    frames = _play(agent, env, episodes, seed, deterministic, returns)
    try:
        first = next(frames)
        height, width = (size - size % 2 for size in first.shape[:2])  # the codec wants even sizes
        writer = imageio_ffmpeg.write_frames(
            str(output),
            (width, height),
            fps=env.metadata.get("render_fps") or 30,
            codec="libx264",
            quality=7,
            macro_block_size=1,
        )
        writer.send(None)
        try:
            for frame in itertools.chain([first], frames):
                writer.send(np.ascontiguousarray(frame[:height, :width]))
        finally:
            writer.close()
    finally:
        env.close()
    return returns


def _play(
    agent: Agent, env: gym.Env[Any, Any], episodes: int, seed: int, deterministic: bool, returns: list[float]
) -> Iterator[NDArray[np.uint8]]:
    seeds, acting = np.random.SeedSequence(seed).spawn(2)
    rng = np.random.default_rng(acting)
    for episode_seed in seeds.generate_state(episodes) >> 1:
        raw, _ = env.reset(seed=int(episode_seed))
        yield _render(env)
        total, steps, over = 0.0, 0, False
        while not over and steps < agent.config.eval_limit:
            noise = None if deterministic else agent.distribution.noise(rng, (1,))
            action, _ = agent.act(agent.observation.encode_one(raw), noise)
            raw, reward, terminated, truncated, _ = env.step(agent.action.decode(action)[0])
            total, steps, over = total + float(reward), steps + 1, terminated or truncated
            yield _render(env)
        returns.append(total)


def _render(env: gym.Env[Any, Any]) -> NDArray[np.uint8]:
    try:
        frame = env.render()
    except AcerError:
        raise
    except Exception as error:
        raise EnvironmentFault(f"cannot render: {type(error).__name__}: {' '.join(str(error).split())}") from error
    if not isinstance(frame, np.ndarray) or frame.ndim != 3:
        raise EnvironmentFault("cannot render: the environment has no rgb_array frames")
    return frame
