"""A batch of equal MuJoCo bodies, stepped together in native threads.

MuJoCo's own batched rollout makes all substeps of all bodies in one call. Every control step begins without solver warm
starts, so a body's state is time, positions and velocities and nothing else: what is saved is restored exactly.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import mujoco
import mujoco.rollout
import numpy as np
from numpy.typing import NDArray

FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS.value


class Physics:
    """`count` copies of a model. Positions, velocities and sensors are views of the bodies as they stand.

    After `mj_step` sensors are one substep behind. Where a task reads sensors, one more substep is made and only its
    sensors are kept: they belong to the state before it, which is the one that counts.
    """

    def __init__(self, model: mujoco.MjModel, count: int, substeps: int, threads: int) -> None:
        self.model, self.count, self.substeps = model, count, substeps
        self._extra = 1 if model.nsensordata else 0
        self._size = mujoco.mj_stateSize(model, FULL)
        steps = substeps + self._extra
        self.state = np.zeros((count, self._size))  # time, qpos, qvel
        self._states = np.zeros((count, steps, self._size))
        self._sensors = np.zeros((count, steps, model.nsensordata))
        self._controls = np.zeros((count, steps, model.nu))
        self._models = [model] * count
        self.sensors = np.zeros((count, model.nsensordata))
        self._rollout: mujoco.rollout.Rollout | None = None
        self._employ(1)
        if min(threads, count) > 1:  # where waking threads costs more than they save, one does it all
            alone = self._seconds()
            self._employ(min(threads, count))
            if self._seconds() > alone:
                self._employ(1)

    @property
    def qpos(self) -> NDArray[np.float64]:
        return self.state[:, 1 : 1 + self.model.nq]

    @property
    def qvel(self) -> NDArray[np.float64]:
        return self.state[:, 1 + self.model.nq : 1 + self.model.nq + self.model.nv]

    def step(self, controls: NDArray[Any]) -> NDArray[np.bool_]:
        """Applies controls [N, nu] for one control step; says whose physics did not survive it and stayed put."""
        self._controls[:] = controls[:, None]
        self._run(self._models, self.substeps + self._extra, self.state, self._controls, self._states, self._sensors)
        new = self._states[:, self.substeps - 1]
        # MuJoCo begins anew when numbers explode: its clock tells.
        wanted = self.state[:, 0] + self.substeps * self.model.opt.timestep
        broken: NDArray[np.bool_] = ~(np.abs(new[:, 0] - wanted) < 1e-6)
        good = ~broken if broken.any() else slice(None)
        self.state[good] = new[good]
        self.sensors[good] = self._sensors[good, -1]
        return broken

    def place(
        self,
        which: NDArray[np.int64],
        qpos: NDArray[np.float64],
        qvel: NDArray[np.float64],
        settle: int = 0,
    ) -> None:
        """Puts some bodies into given states, lets them settle for some substeps without control, reads sensors."""
        count = len(which)
        start = np.concatenate((np.zeros((count, 1)), qpos, qvel), axis=1)
        steps = settle + 1
        states = np.zeros((count, steps, self._size))
        sensors = np.zeros((count, steps, self.model.nsensordata))
        controls = np.zeros((count, steps, self.model.nu))
        if settle or self._extra:
            self._run([self.model] * count, steps, start, controls, states, sensors)
        self.state[which] = states[:, settle - 1] if settle else start
        self.state[which, 0] = 0
        self.sensors[which] = sensors[:, -1]

    def restore(self, state: NDArray[np.float64], sensors: NDArray[np.float64]) -> None:
        """Takes over `state` and `sensors` as they were."""
        self.state[:] = state
        self.sensors[:] = sensors

    def close(self) -> None:
        if self._rollout is not None:
            self._rollout.close()
            self._rollout = None

    def _employ(self, threads: int) -> None:
        self.close()
        self._data = [mujoco.MjData(self.model) for _ in range(threads)]
        self._rollout = mujoco.rollout.Rollout(nthread=threads if threads > 1 else 0)
        self._chunk = -(-self.count // threads)

    def _seconds(self) -> float:
        """What a step takes, from the model's own pose."""
        self.place(np.arange(self.count), np.tile(self.model.qpos0, (self.count, 1)), np.zeros_like(self.qvel))
        took = []
        for _ in range(7):
            began = time.perf_counter()
            self._run(self._models, len(self._states[0]), self.state, self._controls, self._states, self._sensors)
            took.append(time.perf_counter() - began)
        self.state[:] = 0
        return sorted(took)[3]

    def _run(
        self,
        models: list[mujoco.MjModel],
        steps: int,
        start: NDArray[np.float64],
        controls: NDArray[np.float64],
        states: NDArray[np.float64],
        sensors: NDArray[np.float64],
    ) -> None:
        assert self._rollout is not None
        self._rollout.rollout(
            models,
            self._data,
            start,
            controls,
            skip_checks=True,
            nstep=steps,
            state=states,
            sensordata=sensors,
            chunk_size=self._chunk,
        )


def load(path: str, change: Callable[[mujoco.MjSpec], None] | None = None) -> mujoco.MjModel:
    """Compiles a model file, changed first if asked."""
    spec = mujoco.MjSpec.from_file(path)
    for sensor in list(spec.sensors):
        spec.delete(sensor)
    if change is not None:
        change(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecated attributes in the files of others
        return spec.compile()
