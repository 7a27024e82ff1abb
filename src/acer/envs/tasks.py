"""The paper's six control tasks (Appendix E.1): bodies, how an episode begins, what is observed and paid.

Bodies come from the model files that dm_control ships; the three-link arm is our own. Where the paper gives no number,
the task's docstring has ours.
"""

import sys
from dataclasses import dataclass
from functools import cache
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from acer.errors import EnvironmentFault, install

if TYPE_CHECKING:
    import mujoco

    from acer.envs.physics import Physics

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Start:
    """How an episode begins."""

    qpos: Array
    qvel: Array
    target: Array


class Task:
    """What a body should do. Arrays are batched: [N, …]."""

    body: ClassVar[str]  # dm_control's model file
    substeps: ClassVar[int]  # physics steps in a control step
    observation: ClassVar[int]
    action: ClassVar[int]
    target: ClassVar[int] = 0  # numbers that say where the target is
    settle: ClassVar[int] = 0  # physics steps without control before an episode
    camera: ClassVar[str] = "side"

    def model(self) -> "mujoco.MjModel":
        from acer.envs.physics import load

        return load(_suite(self.body), self.change)

    def change(self, spec: "mujoco.MjSpec") -> None:
        """What is different from the model file."""

    def start(self, rng: np.random.Generator, model: "mujoco.MjModel") -> Start:
        raise NotImplementedError

    def observe(self, p: "Physics", target: Array) -> Array:
        raise NotImplementedError

    def judge(self, seen: Array, action: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Reward [N] and whether the episode ends early [N], from what `observe` gave."""
        raise NotImplementedError


class CartpoleSwingup(Task):
    """Balance the pole upright in the middle of the track, from a random angle, by pushing the cart.

    Slider ±1.2. Pays 1 when the pole is within 5° of upright and the cart within 0.05 of the centre. The cart begins
    at the centre.
    """

    body, substeps, observation, action, camera = "cartpole.xml", 2, 10, 1, "fixed"

    def change(self, spec: "mujoco.MjSpec") -> None:
        spec.joint("slider").range = [-1.2, 1.2]

    def start(self, rng: np.random.Generator, model: "mujoco.MjModel") -> Start:
        return Start(np.array([0.0, rng.uniform(-np.pi, np.pi)]), np.zeros(2), np.zeros(0))

    def observe(self, p: "Physics", target: Array) -> Array:
        (x, angle), (speed, turn) = p.qpos.T, p.qvel.T
        sine, cosine = np.sin(angle), np.cos(angle)
        tip, velocity = (x + sine, cosine), (speed + turn * cosine, -turn * sine)
        return np.stack((x, speed, np.arctan2(sine, cosine), turn, sine, cosine, *tip, *velocity), axis=1)

    def judge(self, seen: Array, action: Array) -> tuple[Array, NDArray[np.bool_]]:
        x, cosine = seen[:, 0], seen[:, 5]
        paid = (cosine >= np.cos(np.radians(5))) & (np.abs(x) <= 0.05)
        return paid.astype(np.float64), np.zeros(len(seen), np.bool_)


class Reacher3(Task):
    """Hold the tip of a planar three-link arm at a target.

    Links of 0.12, 0.12 and 0.10 m. The target is where the tip of an arm with random angles would be, so it can always
    be reached. Pays 1 within 0.05 m of it.
    """

    substeps, observation, action, target, camera = 2, 8, 3, 2, "fixed"
    links = np.array([0.12, 0.12, 0.10])

    def model(self) -> "mujoco.MjModel":
        from acer.envs.physics import load

        with resources.as_file(resources.files("acer.envs.data").joinpath("reacher3.xml")) as path:
            return load(str(path))

    def tip(self, angles: Array) -> Array:
        """Where the arm ends [N, 2] for its joints' angles [N, 3]."""
        absolute = np.cumsum(angles, axis=-1)
        return np.stack((np.cos(absolute) @ self.links, np.sin(absolute) @ self.links), axis=-1)

    def start(self, rng: np.random.Generator, model: "mujoco.MjModel") -> Start:
        arm, goal = rng.uniform(-np.pi, np.pi, (2, 3))
        return Start(arm, np.zeros(3), self.tip(goal))

    def observe(self, p: "Physics", target: Array) -> Array:
        wrapped = np.mod(p.qpos + np.pi, 2 * np.pi) - np.pi
        return np.concatenate((wrapped, p.qvel, target - self.tip(p.qpos)), axis=1)

    def judge(self, seen: Array, action: Array) -> tuple[Array, NDArray[np.bool_]]:
        near = np.hypot(seen[:, 6], seen[:, 7]) <= 0.05
        return near.astype(np.float64), np.zeros(len(seen), np.bool_)


class Cheetah(Task):
    """Run forward: r = v_x − 0.1 ‖a‖². Joints begin within 0.1 rad of rest, velocities with a deviation of 0.1."""

    body, substeps, observation, action = "cheetah.xml", 2, 17, 6

    def start(self, rng: np.random.Generator, model: "mujoco.MjModel") -> Start:
        qpos = np.concatenate((np.zeros(3), rng.uniform(-0.1, 0.1, 6)))
        return Start(qpos, 0.1 * rng.standard_normal(9), np.zeros(0))

    def observe(self, p: "Physics", target: Array) -> Array:
        return np.concatenate((p.qpos[:, 1:], p.qvel), axis=1)

    def judge(self, seen: Array, action: Array) -> tuple[Array, NDArray[np.bool_]]:
        return seen[:, 8] - 0.1 * np.square(action).sum(1), np.zeros(len(seen), np.bool_)


class Fish(Task):
    """Swim to a target: r = −d − 0.1 (1 − cos to the vertical) / 2 − 0.01 ‖a‖², d from mouth to target.

    The fish begins level at the middle, facing any direction, its joints within 0.2 rad of rest; the target is uniform
    in a box of 0.8 × 0.8 m, 0.1 to 0.3 m high.
    """

    body, substeps, observation, action, target, camera = "fish.xml", 10, 24, 5, 3, "tracking_top"
    mouth = np.array([0.0, 0.0745, 0.0])  # in the torso's frame

    def start(self, rng: np.random.Generator, model: "mujoco.MjModel") -> Start:
        heading = rng.uniform(-np.pi, np.pi) / 2
        pose = [0, 0, 0.1, np.cos(heading), 0, 0, np.sin(heading)]
        goal = rng.uniform((-0.4, -0.4, 0.1), (0.4, 0.4, 0.3))
        return Start(np.concatenate((pose, rng.uniform(-0.2, 0.2, 7))), np.zeros(13), goal)

    def to_target(self, p: "Physics", target: Array, frame: Array) -> Array:
        """From mouth to target in the torso's frame [N, 3]."""
        vectors: Array = into(frame, target - p.qpos[:, :3]) - self.mouth
        return vectors

    def observe(self, p: "Physics", target: Array) -> Array:
        frame = rotation(p.qpos[:, 3:7])
        velocity = into(frame, p.qvel[:, :3])
        turning = p.qvel[:, 3:6]  # MuJoCo has a free body's angular velocity in its own frame
        parts = (self.to_target(p, target, frame), p.qpos[:, 7:], p.qvel[:, 6:], frame[:, 2, 2:], velocity, turning)
        return np.concatenate(parts, axis=1)

    def judge(self, seen: Array, action: Array) -> tuple[Array, NDArray[np.bool_]]:
        distance, vertical = np.sqrt(np.square(seen[:, :3]).sum(1)), seen[:, 17]
        reward = -distance - 0.1 * (1 - vertical) / 2 - 0.01 * np.square(action).sum(1)
        return reward, np.zeros(len(seen), np.bool_)


class Walker(Task):
    """Walk forward without falling: r = v_x − 0.05 ‖a‖² − |z − 1.2| − 0.5 (1 − cos of the torso's angle).

    Ends with a reward of −5 when the torso is below 0.8 m, above 2 m, or leans by more than 1 rad. Joints begin within
    0.05 rad of standing.
    """

    body, substeps, observation, action = "walker.xml", 10, 24, 6
    height = 1.3  # of the torso when its slider is at 0

    def start(self, rng: np.random.Generator, model: "mujoco.MjModel") -> Start:
        qpos = np.concatenate((np.zeros(3), rng.uniform(-0.05, 0.05, 6)))
        return Start(qpos, np.zeros(9), np.zeros(0))

    def orientations(self, p: "Physics") -> Array:
        """Angles of torso, thighs, legs and feet in the plane [N, 7]; the joints turn the other way round."""
        torso = p.qpos[:, 2:3]
        right, left = (torso - np.cumsum(p.qpos[:, i : i + 3], axis=1) for i in (3, 6))
        return np.concatenate((torso, right, left), axis=1)

    def observe(self, p: "Physics", target: Array) -> Array:
        angles = self.orientations(p)
        return np.concatenate((p.qpos[:, :1] + self.height, p.qvel, np.sin(angles), np.cos(angles)), axis=1)

    def judge(self, seen: Array, action: Array) -> tuple[Array, NDArray[np.bool_]]:
        z, speed, upright = seen[:, 0], seen[:, 2], seen[:, 17]  # the cosine of the torso's angle
        fallen = (z < 0.8) | (z > 2.0) | (upright < np.cos(1.0))
        reward = speed - 0.05 * np.square(action).sum(1) - np.abs(z - 1.2) - 0.5 * (1 - upright)
        return np.where(fallen, -5.0, reward), fallen


class Humanoid(Task):
    """Get up: r = min(h, 1.4) / 1.4 + 0.25 (1 + torso's vertical) + 0.5 (hips + knees) − 0.02 ‖a‖², h the head's
    height.

    hips, knees: how high they are above the feet, in parts of what that is when standing, 0 to 1, mean of both legs.
    So every posture on the way up pays more than the one before: lying, sitting, squatting, standing. Begins lying: the
    spine level, any heading and any side down, random joint angles, dropped from 0.9 m and left alone for 1.5 s. 1.4 m
    is the head's height when standing. Nothing is seen in the world's frame but the vertical.
    """

    body, substeps, observation, action, settle = "humanoid.xml", 5, 94, 21, 300
    moving = ("lower_waist", "pelvis", "right_thigh", "right_shin", "right_foot", "left_thigh", "left_shin",
              "left_foot", "right_lower_arm", "right_hand", "left_lower_arm", "left_hand")  # fmt: skip
    head = 0.19  # above the torso, in its frame
    hips, knees = 0.83, 0.39  # above the feet when standing

    def change(self, spec: "mujoco.MjSpec") -> None:
        import mujoco

        body = mujoco.mjtObj.mjOBJ_XBODY
        for name in self.moving:
            spec.add_sensor(
                name=name,
                type=mujoco.mjtSensor.mjSENS_FRAMEPOS,
                objtype=body,
                objname=name,
                reftype=body,
                refname="torso",
            )
        for kind in (mujoco.mjtSensor.mjSENS_SUBTREELINVEL, mujoco.mjtSensor.mjSENS_SUBTREECOM):
            spec.add_sensor(type=kind, objtype=mujoco.mjtObj.mjOBJ_BODY, objname="torso")

    def start(self, rng: np.random.Generator, model: "mujoco.MjModel") -> Start:
        # Turned about its own vertical by one angle, laid down, turned about the world's by another.
        total, difference = rng.uniform(-np.pi, np.pi, 2)  # halves of the two angles' sum and difference
        turn = np.sqrt(0.5) * np.array([np.cos(total), np.sin(difference), np.cos(difference), np.sin(total)])
        pose = [0, 0, 0.9, *turn]
        low, high = model.jnt_range[1:].T
        return Start(np.concatenate((pose, rng.uniform(low, high))), np.zeros(27), np.zeros(0))

    def observe(self, p: "Physics", target: Array) -> Array:
        frame = rotation(p.qpos[:, 3:7])
        velocity, turning = into(frame, p.qvel[:, :3]), p.qvel[:, 3:6]
        bodies, flow = p.sensors[:, :36], into(frame, p.sensors[:, 36:39])
        centre = into(frame, p.sensors[:, 39:42] - p.qpos[:, :3])
        parts = (p.qpos[:, 7:], p.qvel[:, 6:], velocity, turning, bodies, self.head_height(p, frame)[:, None],
                 frame[:, 2], flow, centre)  # fmt: skip
        return np.concatenate(parts, axis=1)

    def head_height(self, p: "Physics", frame: Array) -> Array:
        return p.qpos[:, 2] + self.head * frame[:, 2, 2]

    def on_its_legs(self, seen: Array) -> Array:
        """How high hips and knees are above the feet, in parts of standing, 0 to 1 each; both legs [N, 2, 2]."""
        heights = np.einsum("nbi,ni->nb", seen[:, 48:84].reshape(-1, len(self.moving), 3), seen[:, 85:88])
        pelvis, *knees = (heights[:, self.moving.index(name)] for name in ("pelvis", "right_shin", "left_shin"))
        feet = [heights[:, self.moving.index(name)] for name in ("right_foot", "left_foot")]
        hips = [(pelvis - foot) / self.hips for foot in feet]
        lower = [(knee - foot) / self.knees for knee, foot in zip(knees, feet, strict=True)]
        parts: Array = np.stack((np.stack(hips, 1), np.stack(lower, 1)), 1).clip(0, 1)
        return parts

    def judge(self, seen: Array, action: Array) -> tuple[Array, NDArray[np.bool_]]:
        height, vertical = seen[:, 84], seen[:, 87]
        legs = 0.5 * self.on_its_legs(seen).mean(2).sum(1)
        reward = np.minimum(height, 1.4) / 1.4 + 0.25 * (1 + vertical) + legs - 0.02 * np.square(action).sum(1)
        return reward, np.zeros(len(seen), np.bool_)


TASKS: dict[str, type[Task]] = {
    "cartpole-swingup": CartpoleSwingup,
    "reacher3": Reacher3,
    "cheetah": Cheetah,
    "fish": Fish,
    "walker": Walker,
    "humanoid": Humanoid,
}


def rotation(quaternion: Array) -> Array:
    """Matrices [N, 3, 3] of unit quaternions [N, 4], (w, x, y, z): columns are the body's axes in the world."""
    w, x, y, z = quaternion.T
    rows = (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
            2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
            2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y))  # fmt: skip
    return np.stack(rows, axis=1).reshape(-1, 3, 3)


def into(frame: Array, vectors: Array) -> Array:
    """World vectors [N, 3] in the body's frame."""
    turned: Array = np.einsum("nij,ni->nj", frame, vectors)
    return turned


@cache
def _suite(name: str) -> str:
    """dm_control's model file of that name. The package itself is not imported: it would load a renderer."""
    found = find_spec("dm_control")
    if found is None or not found.submodule_search_locations:
        how = install("control")
        if sys.version_info >= (3, 13):
            how = "pip install --no-deps dm_control (it asks for labmaze, which Python 3.13 has no wheel of)"
        raise EnvironmentFault(f"the control tasks need dm_control's models: {how}")
    return str(Path(found.submodule_search_locations[0]) / "suite" / name)
