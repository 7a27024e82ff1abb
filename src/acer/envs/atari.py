"""The paper's 57 Atari games as batches, with the preprocessing of Mnih et al. 2015.

ale-py's vector environment steps the emulators in native threads. Its defaults are not Mnih's: every option that
matters is passed here, by name.
"""

import re
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from acer.envs.batch import EnvBatch, pack_episodes, unpack_episodes
from acer.envs.episodes import seed_of
from acer.envs.family import Family
from acer.envs.scores import GAMES
from acer.errors import EnvironmentFault, install

if TYPE_CHECKING:
    from ale_py.vector_env import AtariVectorEnv

IDS = re.compile(r"(ale_py:)?(ALE/\w+-v5|\w+NoFrameskip-v4)")  # ale-py's own, played with Mnih's preprocessing too
FRAME_SKIP = 4
FRAME_CAP = 108_000  # emulator frames of one episode: half an hour of play


class AtariBatch(EnvBatch):
    """`count` emulators of one game: grey 84×84, four frames stacked, raw scores.

    With `life_loss`, the return ends where a life is lost though the game goes on: discount 0, next step live. The
    reported episode is the whole game either way.
    """

    def __init__(
        self,
        game: str,
        count: int,
        *,
        sticky_actions: float = 0.0,
        full_action_set: bool = False,
        life_loss: bool = False,
        threads: int = 0,
    ) -> None:
        self.life_loss = life_loss
        self._lives = np.zeros(count, np.int32)
        self._roots, self._episodes = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self._actions: list[list[int]] = [[] for _ in range(count)]
        super().__init__(emulators(game, count, sticky_actions, full_action_set, num_threads=threads), game)

    def state(self) -> dict[str, NDArray[Any]]:
        actions = [np.array(taken, np.int64) for taken in self._actions]
        return pack_episodes(self._roots, self._episodes, actions) | {"dead": self._dead.copy()}

    def restore(self, state: dict[str, NDArray[Any]]) -> NDArray[Any]:
        """Plays the unfinished episodes again, so that all arrive at once: a shorter one begins later."""
        episodes = unpack_episodes(state)
        if len(episodes) != self.count or not self.action.takes(state["actions"]):
            raise ValueError("actions that the game does not take")
        self._roots, self._episodes = state["roots"].copy(), state["episodes"].copy()
        self._actions = [actions.tolist() for _, _, actions in episodes]
        longest = max(len(actions) for actions in self._actions)
        waiting = longest - state["lengths"]
        raw, info = self._begin(np.ones(self.count, np.bool_))
        for t in range(longest + 1):
            if t and (waiting == t).any():
                raw, info = self._begin(waiting == t)
            if t < longest:
                actions = [of[t - wait] if t >= wait else 0 for of, wait in zip(self._actions, waiting, strict=True)]
                raw, _, _, _, info = self.env.step(np.array(actions, np.int64))
        self._lives, self._dead = info["lives"].copy(), state["dead"].copy()
        return self._encode(raw)

    def _reset(self, seeds: list[int] | None, options: dict[str, Any] | None = None) -> Any:
        new = np.ones(self.count, np.bool_) if options is None else options["reset_mask"]
        if seeds is None:
            self._episodes[new] += 1
        else:
            self._roots[new], self._episodes[new] = seeds, 0
        for i in np.flatnonzero(new):
            self._actions[i] = []
        raw, info = self._begin(new)
        self._lives[new] = info["lives"][new]
        return raw

    def _step(self, actions: NDArray[Any]) -> Any:
        """Where a new episode begins, the emulator has begun one of its own: it is begun again, with its own seed."""
        result = self.env.step(actions)
        for i in np.flatnonzero(~self._dead):
            self._actions[i].append(int(actions[i]))
        if not self._dead.any():
            return result
        new = self._dead.copy()
        raw = self._reset(None, {"reset_mask": new})
        return raw, *result[1:4], {"lives": np.where(new, self._lives, result[4]["lives"])}

    def _begin(self, which: NDArray[np.bool_]) -> Any:
        """Begins the present episode of some environments; gives the observations of all."""
        return self.env.reset(seed=self._seeds(which), options=None if which.all() else {"reset_mask": which})  # type: ignore[arg-type]

    def _seeds(self, which: NDArray[np.bool_]) -> NDArray[np.int64]:
        # One for each: an integer would give environment i the seed plus i, so that neighbouring runs share streams.
        return np.array([seed_of(int(self._roots[i]), int(self._episodes[i])) for i in np.flatnonzero(which)], np.int64)

    def _ends_return(self, terminated: NDArray[np.bool_], info: dict[str, Any]) -> NDArray[np.bool_]:
        lost = (info["lives"] < self._lives) & ~self._dead
        self._lives = info["lives"].copy()
        return terminated | lost if self.life_loss else terminated


class Colour:
    """A game in colour: an emulator with the same seed and actions shows every frame, also those that the agent
    skips."""

    fps = 60.0

    def __init__(self, game: str, sticky_actions: float, full_action_set: bool, **_: Any) -> None:
        self.env = emulators(
            game, 1, sticky_actions, full_action_set,
            grayscale=False, img_height=210, img_width=160, stack_num=1, frameskip=1, maxpool=False,
        )  # fmt: skip

    def reset(self, seed: int) -> list[NDArray[np.uint8]]:
        raw, _ = self.env.reset(seed=np.array([seed]))
        return [_enlarged(raw)]

    def step(self, action: NDArray[Any]) -> list[NDArray[np.uint8]]:
        frames = []
        for _ in range(FRAME_SKIP):
            raw, _, terminated, truncated, _ = self.env.step(action)
            frames.append(_enlarged(raw))
            if terminated[0] or truncated[0]:
                break
        return frames

    def close(self) -> None:
        self.env.close()


def _enlarged(raw: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The only frame of the only emulator, three times as large each way."""
    enlarged: NDArray[np.uint8] = raw[0, 0].repeat(3, axis=0).repeat(3, axis=1)
    return enlarged


def emulators(game: str, count: int, sticky_actions: float, full_action_set: bool, **options: Any) -> "AtariVectorEnv":
    """The emulators of a game; `options` go on to ale-py."""
    try:
        from ale_py import ALEInterface, LoggerMode
        from ale_py.vector_env import AtariVectorEnv
    except ImportError as error:
        raise EnvironmentFault(f"{game} needs the Atari emulator: {install('atari')} ({error})") from None
    ALEInterface.setLoggerMode(LoggerMode.Error)
    return AtariVectorEnv(
        _rom(game),
        count,
        **{
            "grayscale": True,
            "img_height": 84,
            "img_width": 84,
            "stack_num": 4,
            "frameskip": FRAME_SKIP,
            "maxpool": True,
            "noop_max": 30,
            "use_fire_reset": False,
            "episodic_life": False,  # would restart the game at a lost life
            "life_loss_info": False,  # would say terminated where the next step is real
            "reward_clipping": False,  # the learner's business; it hides the score
            "max_num_frames_per_episode": FRAME_CAP,
            "repeat_action_probability": sticky_actions,
            "full_action_space": full_action_set,
            **options,
        },
    )


def canonical(name: str) -> str:
    """The plain name of one of the paper's games; of another its id."""
    if not IDS.fullmatch(name):
        return name
    rom = _rom(name)
    return rom if rom in GAMES else name.removeprefix("ale_py:")


def _rom(name: str) -> str:
    """The game as the emulator knows it."""
    if not IDS.fullmatch(name):
        return name
    try:
        import ale_py
    except ImportError as error:
        raise EnvironmentFault(f"{name} needs the Atari emulator: {install('atari')} ({error})") from None
    gym.register_envs(ale_py)
    return str(gym.spec(name.removeprefix("ale_py:")).kwargs["game"])


ATARI = Family(
    knows=lambda name: name in GAMES or IDS.fullmatch(name) is not None,
    names=lambda: list(GAMES),
    preset=lambda _: "atari",
    batch=lambda name, count, threads, **options: AtariBatch(name, count, threads=threads, **options),
    options=("sticky_actions", "full_action_set", "life_loss"),
    canonical=canonical,
    pictures=Colour,
    human_scores=True,
)
