"""What the humanoid's reward pays for postures set by hand, from lying to standing: results/control/postures.csv.

    python benchmarks/humanoid_postures.py

Each body is put on the floor with its lowest point, at rest; nothing is simulated. Beside today's reward stands one
with two more terms, each at most a half: how high the pelvis is above the feet, and how high the knees are above them,
in parts of what they are when standing.
"""

from pathlib import Path

import mujoco
import numpy as np

from acer.envs.tasks import TASKS
from table import write

FILE = Path("results/control/postures.csv")
COLUMNS = ["posture", "head", "pelvis_over_feet", "knees_over_feet", "reward", "with_legs"]

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


def measured(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[float, float, float, float]:
    """Heights of the head, of the pelvis and the knees above the feet, and today's reward."""
    task = TASKS["humanoid"]
    seen = np.zeros((1, task.observation))
    vertical = data.body("torso").xmat[8]
    head = data.body("torso").xpos[2] + 0.19 * vertical
    seen[0, 84], seen[0, 87] = head, vertical
    (reward,), _ = task().judge(seen, np.zeros((1, task.action)))

    def height(part: str) -> float:
        return float(np.mean([data.body(f"{side}_{part}").xpos[2] for side in ("right", "left")]))

    feet = height("foot")
    return float(head), float(data.body("pelvis").xpos[2] - feet), height("shin") - feet, float(reward)


def main() -> None:
    model = TASKS["humanoid"]().model()
    of = {name: measured(model, placed(model, *posture)) for name, posture in POSTURES.items()}
    _, hip, knee, _ = of["standing"]
    rows = []
    for name, (head, pelvis, knees, reward) in of.items():
        legs = 0.5 * np.clip(pelvis / hip, 0, 1) + 0.5 * np.clip(knees / knee, 0, 1)
        rows.append([name, *(f"{value:.2f}" for value in (head, pelvis, knees, reward, reward + legs))])
        print(*rows[-1], sep="\t")
    write(FILE, COLUMNS, rows)


if __name__ == "__main__":
    main()
