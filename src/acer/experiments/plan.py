"""An experiment as data: its runs by environment, method, setting and seed, and how much of it a scale does."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, Protocol, Self

from acer import config as configuration
from acer.config import Config

Scale = Literal["smoke", "small", "medium", "paper"]


@dataclass(frozen=True)
class Job:
    """One run: what its curve is called, and its configuration."""

    method: str
    setting: int
    seed: int
    config: Config

    @property
    def name(self) -> str:
        """Its directory's."""
        env = self.config.env.replace("/", "-").replace(":", "-")
        return f"{env}-{self.method}-{self.setting}-{self.seed}"

    def changed(self, **settings: Any) -> Self:
        """The same job with other settings."""
        return replace(self, config=configuration.from_dict(vars(self.config) | settings))


@dataclass(frozen=True)
class Size:
    """How much of an experiment a scale does."""

    steps: int
    settings: int = 1
    longer: dict[str, int] = field(default_factory=dict)  # steps of environments that need more
    environments: tuple[str, ...] = ()  # those of the plan if none are named
    methods: tuple[str, ...] = ()  # likewise
    settings_of_all: dict[str, Any] = field(default_factory=dict)
    seeds: int = 1


@dataclass(frozen=True)
class Plan:
    """What can be chosen, and what each scale chooses."""

    kind: Literal["task", "game"]
    environments: tuple[str, ...]
    methods: tuple[str, ...]
    sizes: dict[Scale, Size]
    configure: "Configure"
    settings_are_drawn: bool = True  # so that there are several of them
    has: Callable[[str, str], bool] = lambda env, method: True  # whether a method is for an environment


@dataclass(frozen=True)
class Selection:
    """What is asked for instead of the scale's own; empty leaves it as it is."""

    tasks: tuple[str, ...] = ()
    games: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    settings: tuple[int, ...] = ()
    seeds: tuple[int, ...] = ()
    steps: int | None = None
    first: int | None = None  # of the environments, in the plan's order
    preset: str = ""
    changes: tuple[tuple[str, Any], ...] = ()  # settings by name, instead of the preset's and of those drawn


class Configure(Protocol):
    """Makes one run's configuration. preset: empty for the one made for such environments. overrides win."""

    def __call__(self, env: str, method: str, setting: int, seed: int, preset: str, **overrides: Any) -> Config: ...


def to_json(job: Job) -> str:
    """A job as one line, for another process."""
    return json.dumps({**asdict(job), "config": json.loads(configuration.to_json(job.config))})


def from_json(line: str) -> Job:
    """The job that `to_json` wrote."""
    values = json.loads(line)
    return Job(**{**values, "config": configuration.from_dict(values["config"])})
