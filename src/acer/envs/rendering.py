"""Pictures of MuJoCo bodies, with a screen or without one."""

import importlib
import os
import sys
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from acer.errors import EnvironmentFault


class Camera:
    """Looks at a model through one of its cameras. Without a screen it draws in memory (OSMesa)."""

    def __init__(self, model: mujoco.MjModel, name: str, width: int = 640, height: int = 480) -> None:
        self.model, self.width, self.height = model, width, height
        self._data = mujoco.MjData(model)
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        self._gl = _context(width, height)
        self._gl.make_current()
        self._scene = mujoco.MjvScene(model, maxgeom=2_000)
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN, self._context)
        self._view = mujoco.MjvCamera()
        self._view.type = mujoco.mjtCamera.mjCAMERA_FIXED
        self._view.fixedcamid = model.camera(name).id

    def picture(self, qpos: NDArray[Any]) -> NDArray[np.uint8]:
        """The body at `qpos`, [height, width, 3]."""
        self._gl.make_current()
        self._data.qpos[:] = qpos
        mujoco.mj_forward(self.model, self._data)
        every = mujoco.mjtCatBit.mjCAT_ALL
        mujoco.mjv_updateScene(self.model, self._data, mujoco.MjvOption(), None, self._view, every, self._scene)
        area = mujoco.MjrRect(0, 0, self.width, self.height)
        pixels = np.empty((self.height, self.width, 3), np.uint8)
        mujoco.mjr_render(area, self._scene, self._context)
        mujoco.mjr_readPixels(pixels, None, area, self._context)
        return pixels[::-1]

    def close(self) -> None:
        self._gl.free()


def _context(width: int, height: int) -> Any:
    """MuJoCo's own choice of renderer (MUJOCO_GL), or OSMesa where there is no screen."""
    screenless = sys.platform == "linux" and not os.environ.get("DISPLAY")
    name = os.environ.get("MUJOCO_GL") or ("osmesa" if screenless else "glfw")
    try:
        return importlib.import_module(f"mujoco.{name}").GLContext(width, height)
    except Exception as error:
        raise EnvironmentFault(
            f"cannot render with {name} ({type(error).__name__}); without a screen MuJoCo needs OSMesa: "
            "apt install libosmesa6"
        ) from error
