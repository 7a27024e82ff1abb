"""The Ray cluster that a run works on: one that is named, or one that is started here and ends with the run.

Whoever reaches a cluster's ports can run code on its machines. A Ray that is started here therefore listens on the
loopback interface only, with a token (Ray's own default since it has tokens). Joining takes the token that Ray finds
in RAY_AUTH_TOKEN or ~/.ray/auth_token. An address is host:port or `auto`: Ray would import a module that an address
of the form name://… names.
"""

import logging
import math
import os
import re
import socket
import sys
from typing import Any

import ray
from ray.exceptions import RayError

from acer.config import Config
from acer.console import warn
from acer.errors import SettingsError, in_one_line
from acer.homes.supervisor import check_memory
from acer.machine import cores

PROCESS_BYTES = 350 << 20  # of one actor-learner's process, measured with CartPole-v1
QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}  # what Ray is to say of itself
ADDRESS = re.compile(r"auto|(\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}", re.ASCII)
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # 0: Ray's processes listen on 127.0.0.1 only, on Linux too


def connect(config: Config, actors: int, again: bool) -> bool:
    """Joins the cluster, or starts one on this machine; whether it is our own, to be ended with the run.

    again: the run had begun on the cluster, which may have become too small for a while."""
    need = actors * config.cpus_per_actor
    if ray.is_initialized():
        if not again:
            check_room(need, actors)
        return False
    if not config.ray_address:
        check_memory(actors, PROCESS_BYTES)
        _start(max(cores(), math.ceil(need)))
        return True
    join(config.ray_address)
    if not again:
        try:
            check_room(need, actors)
        except SettingsError:
            ray.shutdown()
            raise
    return True


def _start(cpus: int) -> None:
    """Starts a Ray that nobody but this machine can reach."""
    from ray._private import ray_constants

    before = os.environ.get(LOOPBACK), ray_constants.ENABLE_RAY_CLUSTER
    os.environ[LOOPBACK], ray_constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        ray.init(
            address="local",
            num_cpus=cpus,
            include_dashboard=False,
            runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}},
            **QUIET,
        )
    except Exception as error:  # Ray raises no narrower one if the machine is too busy for its processes to begin
        raise SettingsError(
            f"Ray does not start on this machine ({in_one_line(error)}); try again when it is less busy, or start a "
            "cluster yourself and name it by --ray-address"
        ) from None
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before[1]
        if before[0] is None:
            del os.environ[LOOPBACK]
        else:
            os.environ[LOOPBACK] = before[0]
    address = ray.get_runtime_context().gcs_address
    if not address.startswith("127."):
        ray.shutdown()
        raise SettingsError(
            f"this version of Ray ({ray.__version__}) would listen at {address}, not on the loopback interface only: "
            "start a cluster yourself, behind a firewall, and name it by --ray-address"
        )


def join(address: str) -> None:
    """Joins a cluster that is there."""
    if not ADDRESS.fullmatch(address):
        raise SettingsError(f"--ray-address must be host:port, or auto for this machine's cluster, not {address}")
    reason = _unreachable(address)
    if not reason:
        try:
            ray.init(address=address, **QUIET)
        except RayError as error:
            raise SettingsError(
                f"the Ray cluster at --ray-address {address} refused ({in_one_line(error)}); put its token into "
                "RAY_AUTH_TOKEN, with RAY_AUTH_MODE=token"
            ) from None
        except (ConnectionError, ValueError, RuntimeError) as error:
            reason = str(error).splitlines()[0]
    if reason:
        raise SettingsError(
            f"no Ray cluster at --ray-address {address} ({reason}); start one with `ray start --head`, or leave the "
            "address out to run on this machine"
        )
    if os.environ.get("RAY_AUTH_MODE", "").lower() != "token":
        warn(
            f"the Ray cluster at {address} is joined without a token: whoever reaches its ports can run code on its "
            "machines; see docs/scaling.md"
        )


def _unreachable(address: str) -> str:
    """Why host:port does not answer; empty if it does, or if the address is `auto`."""
    host, _, port = address.rpartition(":")
    if not host:
        return ""
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        return str(error)
    return ""


def check_room(need: float, actors: int) -> None:
    """Refuses more actor-learners than the cluster has CPUs."""
    has = ray.cluster_resources().get("CPU", 0.0)  # type: ignore[no-untyped-call]
    if need > has:
        raise SettingsError(
            f"{actors} actor-learners need {need:g} CPUs and the Ray cluster has {has:g}: use fewer --actors, or "
            "--cpus-per-actor below 1 if their simulators mostly wait"
        )
