"""What the parts of a checkpoint may contain. Its hashes are a stranger's word like the rest: each array and number is
looked at before anything uses it. Every function raises ValueError, KeyError or TypeError for what makes no sense."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acer.config import Config
from acer.envs import ActionSpec, ObservationSpec
from acer.learner.actor_learner import ActorState, Agent
from acer.learner.metrics import PROGRESS

MOST = 1 << 53  # of anything that is counted: beyond, a float would not hold it
STREAMS = {"act", "replay", "learn"}

Array = NDArray[Any]


def count(state: Mapping[str, Any], name: str) -> int:
    """A number of things."""
    value = state[name]
    if type(value) is not int or not 0 <= value < MOST:
        raise ValueError(f"{name} is {value!r}")
    return value


def number(state: Mapping[str, Any], name: str, least: float = 0.0) -> float:
    """A finite number."""
    value = state[name]
    if type(value) not in (int, float) or not (math.isfinite(value) and value >= least and abs(value) < 1e300):
        raise ValueError(f"{name} is {value!r}")
    return float(value)


def flag(state: Mapping[str, Any], name: str) -> bool:
    value = state[name]
    if type(value) is not bool:
        raise ValueError(f"{name} is {value!r}")
    return value


def check_meter(state: Mapping[str, Any]) -> None:
    """What `Meter.state` gives."""
    for name in ("episodes", "updates", "replays"):
        count(state, name)
    if type(state["recent"]) is not list or len(state["recent"]) > 100:
        raise ValueError("recent is no list of 100 episodes at most")
    for episode in state["recent"]:
        episode_return, length = episode
        number({"a return": episode_return}, "a return", -math.inf)
        count({"a length": length}, "a length")
    since = state["since_row"]
    count(since, "steps")
    for name, pair in since["diagnostics"].items():
        total, times = pair
        if name not in PROGRESS or type(total) not in (int, float) or count({name: times}, name) < 1:
            raise ValueError(f"diagnostics have {name}: {pair!r}")
        float(total)


def check_actor(actor: ActorState, agent: Agent, config: Config) -> None:
    """What one actor-learner has beside the parameters."""
    if actor.streams.keys() != STREAMS:
        raise ValueError(f"random streams {sorted(actor.streams)}")
    for state in actor.streams.values():
        np.random.PCG64().state = state
    _check_run(actor.run, agent, config.environments)
    _check_replay(actor.replay, agent)


def _check_run(run: Mapping[str, Array], agent: Agent, n: int) -> None:
    """Where the environments stand. What an environment of ours adds of its own, it checks itself."""
    single = np.dtype(np.float64)
    layout: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
        "observations": ((n, *agent.observation.shape), agent.observation.dtype),
        "alive": ((n,), np.dtype(np.bool_)),
        "returns": ((n,), single),
        "lengths": ((n,), np.dtype(np.int64)),
        "unit": ((2,), single),
    }
    if agent.network.remembers:
        layout["memory"] = ((n, agent.network.remembers), np.dtype(np.float32))
    if any(name.startswith("env.") for name in run):
        layout |= {"env.dead": ((n,), np.dtype(np.bool_)), "env.roots": ((n,), np.dtype(np.int64)),
                   "env.episodes": ((n,), np.dtype(np.int64))}  # fmt: skip
    for name, (shape, dtype) in layout.items():
        array = run[name]
        if array.shape != shape or array.dtype != dtype:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}")
    for name, array in run.items():
        _check_finite(name, array)
        if name in ("lengths", "env.lengths", "env.roots", "env.episodes", "env.steps") and not _within(array, 0, MOST):
            raise ValueError(f"{name} has numbers that are none of a count")
    if "env.dead" in run and (run["env.dead"] == run["alive"]).any():
        raise ValueError("environments that are alive and dead")
    if "env.lengths" in run and run["env.lengths"].shape != (n,):
        raise ValueError("as many episodes as environments are needed")


def _check_replay(replay: Mapping[str, Array], agent: Agent) -> None:
    """The replay memory's plain arrays; shapes and dtypes are its own business."""
    for name, array in replay.items():
        _check_finite(name, array)
    limits: dict[str, tuple[int, Any]] = {"discounts": (0, 1), "added": (0, MOST), "block_sizes": (0, MOST)}
    if agent.action.parts:
        most = np.array(agent.action.parts) - 1
        limits["actions"] = (0, most if len(most) > 1 else int(most[0]))
    for name, (least, most) in limits.items():
        if name in replay and not _within(replay[name], least, most):
            raise ValueError(f"the replay memory's {name} do not lie between {least} and {most}")


def _within(array: Array, least: float, most: float | Array) -> bool:
    return array.dtype.kind in "iuf" and bool(((array >= least) & (array <= most)).all())


def _check_finite(name: str, array: Array) -> None:
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} has {array.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{name} has numbers that are not finite")


def needed_memory(config: Config, observation: ObservationSpec, action: ActionSpec) -> int:
    """Bytes that a run takes at least, beside its networks: one rollout, one batch, and the replay memory's rows."""
    single = math.prod(observation.shape) * observation.dtype.itemsize
    numbers = 4 * (action.size + 4)
    steps = config.trajectory_length * max(config.environments, config.trajectories_per_update)
    batch = config.trajectory_length * config.trajectories_per_update * max(config.hidden, default=1) * 4
    samples = config.sdn_samples * config.advantage_hidden * 4 * config.trajectory_length if action.continuous else 0
    replay = config.replay_capacity * config.environments * numbers if config.replay_ratio else 0
    return 2 * steps * (single + numbers) + batch + samples * config.trajectories_per_update + replay
