"""The six control tasks: stepping beside bare `mj_step`, training beside its roofline and Stable-Baselines3."""

import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from acer.bench.contenders import pair
from acer.bench.measure import Parts, alternate, at_once, medians, meet, peer_speed, ratio, report
from acer.config import Config, defaults
from acer.envs.control import ControlVectorEnv
from acer.envs.tasks import TASKS
from acer.errors import AcerError
from acer.machine import cores

ENVIRONMENTS, STEPS = 16, 1_000


def control(turns: int, peers: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """Steps per second of each task alone, and of training on cheetah with the control preset."""
    config = defaults("cheetah", continuous=True, preset="control")
    parts: list[Parts] = []

    def own() -> dict[str, float]:
        """The roofline has bare stepping instead of the batch's."""
        measured = pair(config, 6_400, 40)
        bare_parts = measured.bare | {"environments": measured.steps / bare(config.env, cores())}
        parts.append((measured.own, bare_parts))
        return {"acer": measured.speed, "roofline": measured.steps / sum(bare_parts.values())}

    contenders: list[Callable[[], dict[str, float]]] = [own]
    for name in TASKS:
        for where, threads in (("", cores()), (" on one core", 1)):
            contenders.append(partial(both, name, where, threads))
    if peers:
        if find_spec("stable_baselines3") is None:
            raise AcerError("the peer is missing: pip install stable-baselines3; --no-peers measures without it")
        contenders.append(lambda: {"sb3 sac": stable_baselines("SAC", config, 1_000)})
        contenders.append(lambda: {"sb3 ppo": stable_baselines("PPO", config, 32_768)})
    results = alternate(contenders, turns, say)
    middle = medians(results)
    return report("control", config, results, parts, ["sb3 sac", "sb3 ppo"]) | {
        "stepping": {name: middle[f"stepping {name}"] for name in TASKS},
        "stepping_fraction": {name: ratio(results, f"stepping {name}", f"bare {name}") for name in TASKS},
        "stepping_fraction_on_one_core": {
            name: ratio(results, f"stepping {name} on one core", f"bare {name} on one core") for name in TASKS
        },
    }


def both(name: str, where: str, threads: int) -> dict[str, float]:
    """A task's batch and its bare cost, one after the other."""
    return {f"stepping {name}{where}": stepping(name, threads), f"bare {name}{where}": bare(name, threads)}


def stepping(name: str, threads: int) -> float:
    """Environment steps per second of the batch with random controls, episodes' ends included."""
    env = ControlVectorEnv(name, ENVIRONMENTS, threads)
    env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (STEPS, ENVIRONMENTS, env.task.action))
    for action in actions[:50]:
        env.step(action)
    began = time.perf_counter()
    for action in actions:
        env.step(action)
    elapsed = time.perf_counter() - began
    env.close()
    return STEPS * ENVIRONMENTS / elapsed


def bare(name: str, processes: int) -> float:
    """Environment steps per second of `mj_step` and a final `mj_forward` alone, in processes that begin together."""
    shares = [len(part) for part in np.array_split(range(ENVIRONMENTS), processes) if len(part)]
    speeds: list[float] = at_once(_bare, [(name, share, part) for part, share in enumerate(shares)])
    return sum(speeds)


def _bare(name: str, count: int, part: int) -> float:
    """The same bodies under the same kind of controls; who falls is put where an episode of the task begins."""
    import mujoco

    env = ControlVectorEnv(name, count)
    env.reset(seed=part)
    physics, actions = env.physics, np.random.default_rng(part).uniform(-1, 1, (STEPS, count, env.task.action))
    model, substeps = physics.model, physics.substeps
    bodies = [mujoco.MjData(model) for _ in range(count)]
    plan = []  # controls, and where bodies begin anew instead
    for action in actions:
        begun = np.flatnonzero(env.steps == 0)
        plan.append((action, list(zip(begun, physics.qpos[begun], physics.qvel[begun], strict=True))))
        env.step(action)
    meet()
    began = time.perf_counter()
    for action, starts in plan:
        for i, qpos, qvel in starts:
            bodies[i].qpos[:], bodies[i].qvel[:] = qpos, qvel
        for body, control in zip(bodies, action, strict=True):
            body.ctrl[:] = control
            mujoco.mj_step(model, body, substeps)
            mujoco.mj_forward(model, body)
    return STEPS * count / (time.perf_counter() - began)


def stable_baselines(algorithm: str, config: Config, steps: int) -> float:
    """Environment steps per second of Stable-Baselines3 with its own defaults on the same task."""
    arguments = [algorithm, config.env, config.environments, steps]
    return peer_speed(sys.executable, "peer_sb3.py", arguments, "Stable-Baselines3")
