"""What the humanoid's reward pays for postures set by hand, from lying to standing: results/control/postures.csv.

    python benchmarks/humanoid_postures.py

Each body is put on the floor with its lowest point, at rest; nothing is simulated. Beside the reward stands what it
would be without its terms for hips and knees.
"""

from collections.abc import Iterator
from pathlib import Path

import mujoco
import numpy as np

from acer.envs.tasks import TASKS
from table import write

FILE = Path("results/control/postures.csv")
COLUMNS = ["posture", "head", "pelvis_over_feet", "knees_over_feet", "without_legs", "reward"]

# Degrees by joint, and how far the torso leans forward.
POSTURES: dict[str, tuple[float, dict[str, float]]] = {
    "lying on the back": (-90, {}),
    "lying on the back, knees drawn up": (-90, {"hip_y": -50, "knee": -100}),
    "lying on the face": (90, {}),
    "on hands and knees": (80, {"hip_y": -80, "knee": -90, "shoulder1": -60, "shoulder2": -60}),
    "leaning back, legs straight": (-45, {"hip_y": -45}),
    "sitting upright, legs straight": (0, {"hip_y": -90}),
    "sitting, knees drawn up": (-25, {"hip_y": -110, "knee": -110}),
    "kneeling upright": (0, {"knee": -90}),
    "kneeling on one knee": (0, {"knee": -90, "right_hip_y": -90}),
    "squatting": (30, {"hip_y": -110, "knee": -120, "ankle_y": 30}),
    "half squatting": (20, {"hip_y": -70, "knee": -80, "ankle_y": 25}),
    "standing": (0, {}),
}


def placed(model: mujoco.MjModel, lean: float, joints: dict[str, float]) -> mujoco.MjData:
    """The body in that posture, with its lowest point on the floor."""
    data = mujoco.MjData(model)
    half = np.radians(lean) / 2
    data.qpos[:7] = [0, 0, 5, np.cos(half), 0, np.sin(half), 0]
    for number in range(1, model.njnt):
        name = model.joint(number).name
        degrees = joints.get(name, joints.get(name.removeprefix("right_").removeprefix("left_"), 0.0))
        low, high = model.jnt_range[number]
        data.qpos[model.jnt_qposadr[number]] = np.clip(np.radians(degrees), low, high)
    mujoco.mj_forward(model, data)
    data.qpos[2] -= lowest(model, data)
    mujoco.mj_forward(model, data)
    return data


def lowest(model: mujoco.MjModel, data: mujoco.MjData) -> float:
    """The height of the body's lowest point; it consists of spheres and capsules."""
    own = model.geom_bodyid > 0
    radius, length = model.geom_size[own, 0], model.geom_size[own, 1]
    along = np.where(model.geom_type[own] == mujoco.mjtGeom.mjGEOM_CAPSULE, length, 0) * np.abs(data.geom_xmat[own, 8])
    return float((data.geom_xpos[own, 2] - along - radius).min())


def rows() -> Iterator[tuple[str, tuple[float, ...]]]:
    """Each posture's numbers, as COLUMNS has them."""
    task = TASKS["humanoid"]()
    model = task.model()
    for name, posture in POSTURES.items():
        data = placed(model, *posture)
        torso = data.body("torso")
        frame = torso.xmat.reshape(3, 3)
        seen = np.zeros((1, task.observation))
        seen[0, 48:84] = np.concatenate([frame.T @ (data.body(part).xpos - torso.xpos) for part in task.moving])
        seen[0, 84], seen[0, 85:88] = torso.xpos[2] + task.head * frame[2, 2], frame[2]
        (reward,), _ = task.judge(seen, np.zeros((1, task.action)))
        ((hips, knees),) = task.on_its_legs(seen).mean(2)
        yield name, (seen[0, 84], hips * task.hips, knees * task.knees, reward - 0.5 * (hips + knees), reward)


def main() -> None:
    table = [[name, *(f"{value:.2f}" for value in numbers)] for name, numbers in rows()]
    for row in table:
        print(*row, sep="\t")
    write(FILE, COLUMNS, table)


if __name__ == "__main__":
    main()
