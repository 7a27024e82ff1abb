"""What is searched: for each setting a range or a choice, written as on the command line.

`1e-4..1e-2:log` is a range, uniform in the logarithm; `0.1..2` one that is uniform; `1,2,4` a choice. Choices of
lists are lists: `[64,64],[256,256]`.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from acer.config import AGENT_SETTINGS, ALGORITHMS, SETTINGS, Config, check_names, from_dict
from acer.config.setting import coerced
from acer.errors import SettingsError
from acer.experiments.random_search import DELTAS, LEARNING_RATES

if TYPE_CHECKING:
    from optuna import Trial

DEFAULT = "default"  # stands for the default space among a user's own

# By kind of action and by preset; what has no meaning for an algorithm is left out.
SPACES: dict[str, dict[str, str]] = {
    "any": {"learning_rate": "1e-4..5e-3:log", "replay_ratio": "1,2,4,8", "trajectory_length": "10,20,50",
            "trajectories_per_update": "1,2,4", "delta": "0.03..3:log", "alpha": "0.9,0.97,0.99,0.995,0.999"},
    "discrete": {"entropy_weight": "1e-4..3e-2:log"},
    "continuous": {"sigma": "0.1..1:log"},
    "classic": {"reward_scale": "1e-3..1:log"},
    "control": {"reward_scale": "1e-2..1:log"},
    "atari": {"learning_rate": "5e-5..1e-3:log", "replay_ratio": "1,2,4", "trajectory_length": "10,20"},
    "efficient": {"learning_rate": "1e-4..3e-3:log", "replay_ratio": "8,16,32", "trajectory_length": "8,16,32",
                  "trajectories_per_update": "4,8,16", "target_rate": "3e-3..1e-1:log"},
    "paper": {"learning_rate": "5e-5..2e-3:log"},
}  # fmt: skip
PAPER = {"learning_rate": f"{LEARNING_RATES[0]!r}..{LEARNING_RATES[1]!r}:log", "delta": f"{DELTAS[0]}..{DELTAS[1]}"}
"""The paper's random search (Section 6)."""

SEARCHED = tuple(name for name in AGENT_SETTINGS if name not in ("steps", "env_kwargs", "home", "actors"))


@dataclass(frozen=True)
class Range:
    """Numbers between two, which belong to it."""

    name: str
    text: str
    low: float
    high: float
    log: bool

    @property
    def ends(self) -> list[Any]:
        """Values that all lie between."""
        return [self._of(self.low), self._of(self.high)]

    def suggest(self, trial: "Trial") -> Any:
        if SETTINGS[self.name].hint is int:
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.log)

    def stored(self, value: Any) -> Any:
        """A setting's value as the study has it; None if it lies outside."""
        return value if isinstance(value, int | float) and self.low <= value <= self.high else None

    def setting(self, stored: Any) -> Any:
        return stored

    def _of(self, value: float) -> float | int:
        return int(value) if SETTINGS[self.name].hint is int else value


@dataclass(frozen=True)
class Choice:
    """One of several values, each as its text."""

    name: str
    texts: tuple[str, ...]

    @property
    def text(self) -> str:
        return ",".join(self.texts)

    @property
    def ends(self) -> list[Any]:
        return [self.setting(text) for text in self.texts]

    def suggest(self, trial: "Trial") -> Any:
        return self.setting(trial.suggest_categorical(self.name, self.texts))

    def stored(self, value: Any) -> Any:
        return next((text for text in self.texts if coerced(SETTINGS[self.name], self.setting(text)) == value), None)

    def setting(self, stored: Any) -> Any:
        return _json_or_text(stored)


Space = dict[str, Range | Choice]


def default(base: Config, continuous: bool, given: Iterable[str]) -> Space:
    """The space for a preset and a kind of action, without the settings that were given."""
    texts = SPACES["any"] | SPACES["continuous" if continuous else "discrete"] | SPACES[base.preset]
    space: Space = {}
    for name, text in texts.items():
        of = SETTINGS[name]
        if name in given or not (of.when is None or of.when.holds(base, continuous)):
            continue
        dimension = _read(name, text)
        fitting = [value for value in dimension.ends if _fits(base, name, value)]
        if isinstance(dimension, Choice):
            dimension = Choice(name, tuple(t for t in dimension.texts if dimension.setting(t) in fitting))
        if len(fitting) > 1:
            space[name] = dimension
    return space


def own(texts: Iterable[str], base: Config, continuous: bool, given: Iterable[str]) -> Space:
    """The space that a user wrote, as `name=range` or `name=choice` each; checked at its ends."""
    space: Space = {}
    fixed = set(given)
    for text in texts:
        if text == DEFAULT:
            space = default(base, continuous, fixed) | space
            continue
        name, sign, values = text.partition("=")
        name = name.strip().replace("-", "_")
        if not sign:
            raise SettingsError(f"--search takes NAME=LOW..HIGH, NAME=LOW..HIGH:log or NAME=A,B,C, not {text!r}")
        check_names({name: values})
        if name not in SEARCHED:
            raise SettingsError(f"--search {name} is not possible: only what makes another agent is searched")
        if name in fixed:
            raise SettingsError(f"{name} is both given and searched: leave out one of them")
        of = SETTINGS[name]
        if of.when is not None and not of.when.holds(base, continuous):
            raise SettingsError(f"--search {name} has no meaning here: it is for {of.when.said}; leave it out")
        space[name] = _read(name, values)
        for value in space[name].ends:
            from_dict(vars(base) | {name: value})
    return space


def paper(base: Config) -> Space:
    """The paper's: learning rate and, where there is a trust region, δ."""
    names = ["learning_rate", *(["delta"] if ALGORITHMS[base.algo].trust_region is not False else [])]
    return {name: _read(name, PAPER[name]) for name in names}


def texts_of(space: Space) -> dict[str, str]:
    return {name: dimension.text for name, dimension in space.items()}


def _read(name: str, text: str) -> Range | Choice:
    values, colon, scale = text.partition(":")
    low, dots, high = values.partition("..")
    if not dots:
        return _choice(name, text)
    hint = SETTINGS[name].hint
    if hint not in (int, float):
        raise SettingsError(f"--search {name}: it is no number, so it has choices: {name}=A,B,C")
    if colon and scale != "log":
        raise SettingsError(f"--search {name}: after the colon only log is possible, not {scale!r}")
    try:
        numbers = float(low), float(high)
    except ValueError:
        raise SettingsError(f"--search {name}: {values!r} is not LOW..HIGH in numbers") from None
    if not numbers[0] < numbers[1] or not all(map(math.isfinite, numbers)):
        raise SettingsError(f"--search {name}: {values!r} does not rise from one finite number to another")
    if colon and numbers[0] <= 0:
        raise SettingsError(f"--search {name}: a logarithmic range must begin above 0, not at {low}")
    if hint is int and not all(number.is_integer() for number in numbers):
        raise SettingsError(f"--search {name} is a whole number: give whole ends, not {values!r}")
    return Range(name, text, *numbers, log=bool(colon))


def _choice(name: str, text: str) -> Choice:
    try:
        values = json.loads(f"[{text}]")
        texts = [json.dumps(value) for value in values] if any(isinstance(v, list) for v in values) else None
    except ValueError:
        texts = None
    parts = texts or [part.strip() for part in text.split(",")]
    if len(parts) < 2 or len(set(parts)) < len(parts) or not all(parts):
        raise SettingsError(f"--search {name}: {text!r} names no two different values; to set it, use its own flag")
    return Choice(name, tuple(parts))


def _json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _fits(base: Config, name: str, value: Any) -> bool:
    try:
        from_dict(vars(base) | {name: value})
    except SettingsError:
        return False
    return True
