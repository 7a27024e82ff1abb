"""The paper's 57 Atari games as batches, with the preprocessing of Mnih et al. 2015.

ale-py's vector environment steps the emulators in native threads. Its defaults are not Mnih's: every option that
matters is passed here, by name.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from acer.envs.batch import EnvBatch
from acer.errors import EnvironmentFault
from acer.scores import GAMES

if TYPE_CHECKING:
    from ale_py.vector_env import AtariVectorEnv

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
        super().__init__(emulators(game, count, sticky_actions, full_action_set, num_threads=threads), game)

    def _reset(self, seeds: list[int] | None, options: dict[str, Any] | None = None) -> Any:
        # An integer would give environment i the seed plus i, so that neighbouring runs share streams.
        raw, info = self.env.reset(seed=None if seeds is None else np.array(seeds), options=options)  # type: ignore[arg-type]
        self._lives = info["lives"].copy()
        return raw

    def _ends_return(self, terminated: NDArray[np.bool_], info: dict[str, Any]) -> NDArray[np.bool_]:
        lost = (info["lives"] < self._lives) & ~self._dead
        self._lives = info["lives"].copy()
        return terminated | lost if self.life_loss else terminated


def emulators(game: str, count: int, sticky_actions: float, full_action_set: bool, **options: Any) -> "AtariVectorEnv":
    """The emulators of a game; `options` go on to ale-py."""
    try:
        from ale_py import ALEInterface, LoggerMode
        from ale_py.vector_env import AtariVectorEnv
    except ImportError as error:
        raise EnvironmentFault(f"{game} needs the Atari emulator: pip install 'acer[atari]' ({error})") from None
    ALEInterface.setLoggerMode(LoggerMode.Error)
    return AtariVectorEnv(
        game,
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


__all__ = ["FRAME_CAP", "FRAME_SKIP", "GAMES", "AtariBatch", "emulators"]
