"""A batch of equal MuJoCo bodies, stepped together on several cores.

MuJoCo's own batched rollout makes all substeps of many bodies in one call. Every control step begins without solver
warm starts, so a body's state is time, positions and velocities and nothing else: what is saved is restored exactly.
"""

import contextlib
import itertools
import statistics
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import mujoco
import mujoco.rollout
import numpy as np
from numpy.typing import NDArray

FULL = mujoco.mjtState.mjSTATE_FULLPHYSICS.value
# States [B, n] and controls [B, T, nu], and room for the states [B, T, n] and sensors [B, T, m] that they lead to.
Piece = tuple[NDArray[np.float64], ...]


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
        self.sensors = np.zeros((count, model.nsensordata))
        self._hand = Hand(model)
        self._helpers: list[Helper] = []
        self._pieces = 1
        if min(threads, count) > 1:  # where waking others costs more than they save, one does it all
            self._helpers = [Helper(model) for _ in range(min(threads, count) - 1)]
            self._pieces = self._fastest(1, len(self._helpers) + 1, count)
            if self._pieces == 1:
                self.close()
        self._step = self._cut(self.state, self._controls, self._states, self._sensors)

    @property
    def qpos(self) -> NDArray[np.float64]:
        return self.state[:, 1 : 1 + self.model.nq]

    @property
    def qvel(self) -> NDArray[np.float64]:
        return self.state[:, 1 + self.model.nq : 1 + self.model.nq + self.model.nv]

    def step(self, controls: NDArray[Any]) -> NDArray[np.bool_]:
        """Applies controls [N, nu] for one control step; says whose physics did not survive it and stayed put."""
        self._controls[:] = controls[:, None]
        self._run(self._step)
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
            self._run(self._cut(start, controls, states, sensors))
        self.state[which] = states[:, settle - 1] if settle else start
        self.state[which, 0] = 0
        self.sensors[which] = sensors[:, -1]

    def restore(self, state: NDArray[np.float64], sensors: NDArray[np.float64]) -> None:
        """Takes over `state` and `sensors` as they were."""
        self.state[:] = state
        self.sensors[:] = sensors

    def close(self) -> None:
        """Sends the helpers home."""
        while self._helpers:
            self._helpers.pop().close()

    def _fastest(self, *numbers: int) -> int:
        """Into how many pieces a step is best cut, tried in turn from the model's own pose onwards."""
        self.place(np.arange(self.count), np.tile(self.model.qpos0, (self.count, 1)), np.zeros_like(self.qvel))
        took: dict[int, list[float]] = {number: [] for number in numbers}
        controls = np.random.default_rng(0).uniform(-1, 1, (20 * len(numbers), self.count, self.model.nu))
        for self._pieces, control in zip(numbers * 20, controls, strict=True):
            self._step = self._cut(self.state, self._controls, self._states, self._sensors)
            began = time.perf_counter()
            self.step(control)
            took[self._pieces].append(time.perf_counter() - began)
        self.state[:], self.sensors[:] = 0, 0
        return min(took, key=lambda number: statistics.median(took[number]))

    def _cut(self, *work: NDArray[np.float64]) -> list[Piece]:
        count = len(work[0])
        edges = np.linspace(0, count, min(self._pieces, count) + 1).astype(int)
        return [tuple(array[i:j] for array in work) for i, j in itertools.pairwise(edges)]

    def _run(self, pieces: list[Piece]) -> None:
        """From one heap every hand takes the next piece, so that nobody waits for long."""
        heap = pieces.copy()
        helpers = self._helpers if len(heap) > 1 else ()
        for helper in helpers:
            helper.begin(heap)
        self._hand.work(heap)
        for helper in helpers:
            helper.wait()


class Hand:
    """Steps bodies, one after the other."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self._model, self._data = model, mujoco.MjData(model)
        self._rollout = mujoco.rollout.Rollout(nthread=0)

    def work(self, heap: list[Piece]) -> None:
        """Takes pieces as long as there are any."""
        with contextlib.suppress(IndexError):
            while True:
                start, controls, states, sensors = heap.pop()
                self._rollout.rollout(
                    [self._model] * len(start), [self._data], start, controls,
                    skip_checks=True, nstep=controls.shape[1], state=states, sensordata=sensors,
                )  # fmt: skip


class Helper(Hand):
    """A hand in a thread of its own, asleep between heaps. (In MuJoCo's own pool the caller does nothing but wait.)"""

    def __init__(self, model: mujoco.MjModel) -> None:
        super().__init__(model)
        self._heap: list[Piece] | None = None
        self._error: Exception | None = None
        self._go, self._done = threading.Lock(), threading.Lock()
        self._go.acquire()
        self._done.acquire()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def begin(self, heap: list[Piece]) -> None:
        self._heap = heap
        self._go.release()

    def wait(self) -> None:
        self._done.acquire()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._heap = None
        self._go.release()
        self._thread.join()

    def _serve(self) -> None:
        while True:
            self._go.acquire()
            if self._heap is None:
                return
            try:
                self.work(self._heap)
            except Exception as error:
                self._error = error
            self._done.release()


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
