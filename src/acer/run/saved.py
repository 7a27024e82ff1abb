"""What is saved of a run, restored and checked: each thing is named here, once.

A checkpoint's hashes say that it is what was written, not that it makes sense. So every number is looked at before it
is taken over.
"""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from acer import config as configuration
from acer.config import Config
from acer.envs import ActionSpec, ObservationSpec
from acer.errors import CheckpointError, SettingsError, in_one_line
from acer.homes.local import Local
from acer.learner import algorithms
from acer.learner.actor_learner import Agent
from acer.learner.networks import Network
from acer.learner.parameters import views
from acer.machine import free_memory, versions
from acer.run import bits
from acer.run.checkpoint import Checkpoint, Layout
from acer.run.contents import check_meter, count, flag, needed_memory, number
from acer.run.logs import Meter


@dataclass
class Progress:
    """How far a run is, beside its parameters and its environments."""

    seconds: float = 0.0  # spent training, over all sessions of the run
    evaluations: int = 0
    evaluation_due: bool = False  # one was interrupted, and comes first when the run goes on
    best: float = -math.inf  # mean return of the best evaluation
    row_at: int = 0  # steps and seconds at the last row of progress.csv
    row_seconds: float = 0.0
    rows: dict[str, int] = field(default_factory=lambda: {"progress": 0, "episodes": 0, "eval": 0})  # of each CSV file

    def state(self) -> dict[str, Any]:
        return {**vars(self), "best": self.best if math.isfinite(self.best) else None, "rows": dict(self.rows)}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "Progress":
        return cls(
            seconds=number(state, "seconds"),
            evaluations=count(state, "evaluations"),
            evaluation_due=flag(state, "evaluation_due"),
            best=-math.inf if state["best"] is None else number(state, "best", least=-math.inf),
            row_at=count(state, "row_at"),
            row_seconds=number(state, "row_seconds") if "row_seconds" in state else number(state, "seconds"),
            rows={name: count(state["rows"], name) for name in cls().rows},
        )


# ------------------------------------------------------------------ state.json


def describe(config: Config, agent: Agent, home: Local, progress: Progress, meter: Meter) -> dict[str, Any]:
    """Everything that is neither tensor nor replay."""
    return {
        "config": json.loads(configuration.to_json(config)),
        "spaces": spaces(agent.observation, agent.action),
        "steps": home.steps,
        "skipped_updates": home.skipped,
        **progress.state(),
        "meter": meter.state(),
        "versions": versions(),
        "machine": bits.machine(),
    }


def restore(state: Mapping[str, Any], home: Local, meter: Meter) -> Progress:
    """Takes over what `describe` gave; raises ValueError, KeyError or TypeError for what makes no sense."""
    steps, skipped = count(state, "steps"), count(state, "skipped_updates")
    progress = Progress.restored(state)
    if progress.row_at > steps or progress.row_seconds > progress.seconds:
        raise ValueError("the last row is later than the run")
    check_meter(state["meter"])
    meter.restore(state["meter"])
    home.steps, home.skipped = steps, skipped
    return progress


def steps_of(checkpoint: Checkpoint) -> int:
    """Steps of the run that wrote it."""
    try:
        return count(checkpoint.state, "steps")
    except (ValueError, KeyError) as error:
        raise CheckpointError(f"{checkpoint.path} is damaged: {error}") from None


def spaces(observation: ObservationSpec, action: ActionSpec) -> dict[str, str]:
    """What a checkpoint remembers of its environment."""
    return {"observation": observation.describe(), "action": action.describe()}


# ------------------------------------------------------------------ tensors


def tensors(agent: Agent, home: Local) -> dict[str, Tensor]:
    """θ, θ_a and the mean of squares, by parameter, and the running normalisation; views, not copies."""
    named = {f"theta.{name}": p.data for name, p in agent.network.named_parameters()}
    named |= {f"average.{name}": p.data for name, p in agent.average.named_parameters()}
    named |= {f"square.{name}": view for name, view in views(agent.network, home.square).items()}
    if agent.moments is not None:
        named |= {f"moments.{name}": torch.from_numpy(np.atleast_1d(v)) for name, v in agent.moments.state().items()}
    return named


def load_tensors(checkpoint: Checkpoint, agent: Agent, home: Local) -> None:
    """Takes over networks, the optimiser's statistics and the running normalisation."""
    mine = tensors(agent, home)
    for name, value in checkpoint.tensors(mine).items():
        if not torch.isfinite(value).all():
            raise CheckpointError(f"{checkpoint.path} is damaged: {name} has numbers that are not finite")
        if name.startswith(("square.", "moments.variance", "moments.count")) and (value < 0).any():
            raise CheckpointError(f"{checkpoint.path} is damaged: {name} has negative numbers")
        mine[name].copy_(value)
    if agent.moments is not None:
        moments = {name: mine[f"moments.{name}"].numpy() for name in ("mean", "variance")}
        agent.moments.restore({"count": mine["moments.count"].numpy()[0], **moments})
        agent.use_moments()


def check_fits(checkpoint: Checkpoint, config: Config, observation: ObservationSpec, action: ActionSpec) -> None:
    """Refuses a checkpoint of another environment, or one whose tensors are not those of the configured network; the
    network is not made for that."""
    here, there = spaces(observation, action), checkpoint.state.get("spaces")
    if there != here:
        raise CheckpointError(
            f"{checkpoint.path} was made for another environment: its spaces are {there}, here they are {here}"
        )
    checkpoint.check_model(_layout(config, observation, action))
    need, free = needed_memory(config, observation, action), free_memory()
    if need > free:
        raise CheckpointError(
            f"{checkpoint.path} asks for {need / 1e9:,.1f} GB of memory, {free / 1e9:,.1f} are free: its trajectories, "
            "replay memory or layers are too large for this machine"
        )


def check_layers(config: Config, observation: ObservationSpec, action: ActionSpec) -> None:
    """Refuses layers that cannot fit before memory is taken for them; a user's own network is made as it is."""
    if algorithms.architecture(config, observation, algorithms.distribution(config, action)).own_torso:
        return
    layout = _layout(config, observation, action)
    need, free = 4 * sum(math.prod(shape) for shape, _ in layout.values()), free_memory()
    if need > free:
        raise SettingsError(
            f"the networks do not fit in memory ({need / 1e9:,.1f} GB, {free / 1e9:,.1f} are free): "
            "smaller --hidden or --memory-size"
        )


@contextlib.contextmanager
def layers_fit() -> Iterator[None]:
    """What PyTorch says of sizes for which there is no memory, or that it cannot even count, in one line."""
    try:
        yield
    except (RuntimeError, OverflowError) as error:
        if isinstance(error, RuntimeError) and not any(word in str(error) for word in ("alloc", "overflow")):
            raise
        raise SettingsError(
            f"the networks do not fit in memory ({in_one_line(error)}): smaller --hidden or --memory-size"
        ) from None


def _layout(config: Config, observation: ObservationSpec, action: ActionSpec) -> Layout:
    """Shapes and dtypes of what `tensors` gives."""
    architecture = algorithms.architecture(config, observation, algorithms.distribution(config, action))
    with torch.device("cpu" if architecture.own_torso else "meta"):  # a user's own network may need its numbers
        network = Network(architecture)
    shapes = {name: tuple(p.shape) for name, p in network.named_parameters()}
    average = {name.removeprefix("policy."): shape for name, shape in shapes.items() if name.startswith("policy.")}
    layout = {
        f"{kind}.{name}": (shape, "torch.float32") for kind in ("theta", "square") for name, shape in shapes.items()
    }
    layout |= {f"average.{name}": (shape, "torch.float32") for name, shape in average.items()}
    if config.normalize_observations:
        layout |= {f"moments.{name}": (observation.shape, "torch.float64") for name in ("mean", "variance")}
        layout["moments.count"] = ((1,), "torch.float64")
    return layout
