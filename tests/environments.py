"""Small environments that the tests train on, record, or break."""

import os
import signal
from typing import Any, ClassVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces


class Corridor(gym.Env[Any, Any]):
    """Walk right to the end of a short corridor; dict, tuple and discrete observations by choice."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, kind: str = "box", length: int = 5, render_mode: str | None = None) -> None:
        self.kind, self.length, self.render_mode = kind, length, render_mode
        box = spaces.Box(0, 1, (1,), np.float32)
        self.observation_space = {
            "box": box,
            "discrete": spaces.Discrete(length + 1, start=3),
            "dict": spaces.Dict({"where": box, "end": spaces.Discrete(2)}),
            "tuple": spaces.Tuple((box, spaces.MultiBinary(2))),
            "image": spaces.Box(0, 255, (40, 48, 3), np.uint8),
            "small-image": spaces.Box(0, 255, (8, 8, 3), np.uint8),
        }[kind]
        self.action_space = spaces.Discrete(2, start=1)
        self.at = 0

    def _observe(self) -> Any:
        where = np.array([self.at / self.length], np.float32)
        if self.kind == "discrete":
            return self.at + 3
        if self.kind == "dict":
            return {"where": where, "end": int(self.at == self.length)}
        if self.kind == "tuple":
            return (where, np.array([1, self.at % 2], np.int8))
        if self.kind in ("image", "small-image"):
            return np.full(self.observation_space.shape, 10 * self.at, np.uint8)
        return where

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return self._observe(), {}

    def step(self, action: int) -> Any:
        assert action in (1, 2)
        self.at = min(self.length, max(0, self.at + (1 if action == 2 else -1)))
        return self._observe(), float(self.at == self.length), self.at == self.length, False, {}

    def render(self) -> Any:
        return np.full((33, 64, 3), 40 * self.at, np.uint8)


class Target(gym.Env[Any, Any]):
    """One step: be near the target in a box of 2 × 1 actions with odd bounds."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1, 1, (2,), np.float64)
        self.action_space = spaces.Box(np.array([[0.0], [-3.0]]), np.array([[10.0], [1.0]]), dtype=np.float64)
        self.given: list[Any] = []

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(2), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        return np.zeros(2), -float(np.abs(action - np.array([[7.0], [0.0]])).sum()), True, False, {}


class Broken(gym.Env[Any, Any]):
    """Goes wrong in a chosen way at its tenth step."""

    def __init__(self, how: str = "nan-observation") -> None:
        self.how = how
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.full(1, np.nan if self.how == "nan-reset" else 0.0, np.float32), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        bad = self.steps == 10
        value = {"nan-observation": np.nan, "inf-observation": np.inf}.get(self.how, 0.0) if bad else 0.0
        reward = {"nan-reward": np.nan, "inf-reward": -np.inf}.get(self.how, 1.0) if bad else 1.0
        return np.full(1, value, np.float32), reward, self.steps % 7 == 0, False, {}


class NanObservation(Broken):
    def __init__(self) -> None:
        super().__init__("nan-observation")


class InfiniteReward(Broken):
    def __init__(self) -> None:
        super().__init__("inf-reward")


class NanAtReset(Broken):
    def __init__(self) -> None:
        super().__init__("nan-reset")


class Unbounded(Target):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class TupleAction(Target):
    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Tuple((spaces.Discrete(2), spaces.Discrete(3)))


class Dials(gym.Env[Any, Any]):
    """Ten steps; each shows where to turn every dial, and pays the share of those that are right. Best: 10."""

    def __init__(self, sizes: tuple[int, ...] = (3, 4, 2), binary: bool = False) -> None:
        self.sizes = np.array(sizes)
        self.action_space = spaces.MultiBinary(len(sizes)) if binary else spaces.MultiDiscrete(sizes)
        self.observation_space = spaces.MultiDiscrete(sizes)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps = 0
        self.shown = self.np_random.integers(self.sizes)
        return self.shown, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action), action
        reward = float((action == self.shown).mean())
        self.steps += 1
        self.shown = self.np_random.integers(self.sizes)
        return self.shown, reward, self.steps == 10, False, {}


class Market(gym.Env[Any, Any]):
    """Ten steps; each shows what the goods of every stall pay, and which are sold out: to ask for one of those is an
    error. They would pay best. Best by a policy: `best`, the most of what there is."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(self, stalls: tuple[int, ...] = (5,), render_mode: str | None = None) -> None:
        self.stalls, self.render_mode = stalls, render_mode
        self.action_space = spaces.Discrete(stalls[0]) if len(stalls) == 1 else spaces.MultiDiscrete(stalls)
        self.observation_space = spaces.Box(0, 2, (2 * sum(stalls),), np.float32)
        self.best = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.steps, self.best = 0, 0.0
        return self._open(), {}

    def action_masks(self) -> Any:
        return self.there

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        ends = np.cumsum(self.stalls)
        chosen = np.atleast_1d(action) + ends - self.stalls
        assert self.there[chosen].all(), f"{action} is sold out"
        reward = float(self.pays[chosen].sum())
        self.steps += 1
        self.best += float(sum(part.max() for part in np.split(np.where(self.there, self.pays, 0), ends[:-1])))
        over = self.steps == 10
        return self._open(), reward, over, False, {"best": self.best} if over else {}

    def render(self) -> Any:
        return np.full((32, 32, 3), 20 * self.steps, np.uint8)

    def _open(self) -> Any:
        count = sum(self.stalls)
        self.there = self.np_random.random(count) < 0.6
        for start, size in zip(np.cumsum((0, *self.stalls)), self.stalls, strict=False):
            self.there[start + self.np_random.integers(size)] = True
        self.pays = np.where(self.there, 0.0, 1.0) + self.np_random.random(count)
        return np.concatenate((self.pays, self.there)).astype(np.float32)


class TextObservation(Target):
    def __init__(self) -> None:
        super().__init__()
        self.observation_space = spaces.Text(5)


class Failing(Target):
    def __init__(self) -> None:
        raise RuntimeError("no licence for this simulator")


class Raising(Target):
    def step(self, action: Any) -> Any:
        self.given.append(action)
        if len(self.given) == 2:
            raise ZeroDivisionError("division by zero")
        return super().step(action)


class WrongShape(Target):
    def step(self, action: Any) -> Any:
        return (np.zeros(3), *super().step(action)[1:])


class OldStep(Target):
    def step(self, action: Any) -> Any:
        return super().step(action)[:4]


class NotAnEnvironment:
    pass


class Mortal(gym.Env[Any, Any]):
    """Lives through a number of steps, then raises, kills its process or ends it; the file it is given counts its
    deaths, and after `deaths` of them it lives on."""

    def __init__(self, file: str, how: str = "raise", steps: int = 50, deaths: int = 1) -> None:
        self.file, self.how, self.left, self.deaths = file, how, steps, deaths
        self.observation_space = spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.at += 1
        self.left -= 1
        if self.left == 0 and os.path.getsize(self.file) < self.deaths:
            with open(self.file, "a") as file:
                file.write("x")
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "leave":
                os._exit(0)
            raise ValueError("the gearbox is stuck")
        return np.zeros(1, np.float32), 1.0, self.at == 20, False, {}
