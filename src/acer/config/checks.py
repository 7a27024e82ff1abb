"""From names and values to a whole configuration: preset, algorithm, what the user gave; what cannot be meant is
refused, each with a line that says what to change."""

import math
from typing import Any

from acer.config.algorithms import ALGORITHMS
from acer.config.guesses import guess
from acer.config.presets import PRESETS
from acer.config.setting import check_choice, check_value, coerced, flag_name
from acer.config.settings import SETTINGS, Config
from acer.config.shares import team_size
from acer.errors import SettingsError


def defaults(env: str, continuous: bool, preset: str = "classic", algo: str = "acer", **overrides: Any) -> Config:
    """The configuration of a preset and an algorithm for a kind of action, with some settings given by hand."""
    check_choice("preset", preset, PRESETS)
    check_choice("algo", algo, ALGORITHMS)
    of_preset = PRESETS[preset]["any"] | PRESETS[preset]["continuous" if continuous else "discrete"]
    settings = {**of_preset, **ALGORITHMS[algo].changes, "preset": preset, "algo": algo}
    base = from_dict({"env": env, **settings})
    together = overrides.get("environments")
    if type(together) is int and together > 0:
        settings["trajectories_per_update"] = _trajectories(base, together)
    config = from_dict({"env": env, **settings, **overrides})
    for name, of in SETTINGS.items():
        if of.when and getattr(config, name) != getattr(base, name) and not of.when.holds(config, continuous):
            raise SettingsError(f"{flag_name(name)} has no meaning here: it is for {of.when.said}; leave it out")
    return config


def _trajectories(preset: Config, environments: int) -> int:
    """Of an update, for another number of environments than the preset's: what divides both; or, where the preset has
    more of them than environments, the multiple that comes nearest from below."""
    wanted = preset.trajectories_per_update
    if environments <= wanted and preset.environments < wanted:
        return environments * (wanted // environments)
    return math.gcd(wanted, environments)


def from_dict(values: dict[str, Any]) -> Config:
    """A checked configuration; every name and every type is looked at."""
    check_names(values)
    return validate(Config(**{name: coerced(SETTINGS[name], value) for name, value in values.items()}))


def check_names(values: dict[str, Any]) -> None:
    """Refuses names that are not settings."""
    for name in values:
        if name not in SETTINGS:
            raise SettingsError(f"unknown setting {name!r}{guess(name, SETTINGS)}")


def validate(config: Config) -> Config:
    """Each value within its bounds, then all of them together."""
    if not config.env:
        raise SettingsError("no environment given; name one, for example CartPole-v1 (`acer envs` lists all)")
    for name, of in SETTINGS.items():
        check_value(of, getattr(config, name))
    _check_experience(config)
    _check_algorithm(config)
    return config


def _check_experience(c: Config) -> None:
    _need(c.environments % c.trajectories_per_update == 0 or c.trajectories_per_update % c.environments == 0,
          f"--environments {c.environments} must be a multiple of "
          f"--trajectories-per-update {c.trajectories_per_update}, or the other way round")  # fmt: skip
    _need(c.replay_capacity >= c.trajectory_length,
          f"--replay-capacity {c.replay_capacity} holds no trajectory of "
          f"--trajectory-length {c.trajectory_length}")  # fmt: skip
    _need(c.burn_in < c.trajectory_length,
          f"--burn-in {c.burn_in} leaves nothing to learn of --trajectory-length {c.trajectory_length}")  # fmt: skip
    _need(not c.replay_per_environment or c.trajectories_per_update == 1,
          "--replay-per-environment replays one trajectory at a time: use --trajectories-per-update 1")  # fmt: skip
    _need(c.home == "local" or c.device == "cpu", f"--home {c.home} is for CPUs: leave out --device")
    _need(c.on_policy or c.replay_ratio > 0, "nothing would be learnt with --no-on-policy and --replay-ratio 0")
    capacity = team_size(c) * c.environments * (c.replay_capacity // c.trajectory_length) * c.trajectory_length
    _need(c.replay_ratio == 0 or c.replay_start <= capacity,
          f"--replay-start {c.replay_start} is never reached: the memory holds {capacity} steps")  # fmt: skip


def _check_algorithm(c: Config) -> None:
    algo = ALGORITHMS[c.algo]
    if not algo.replay:
        _need(c.replay_ratio == 0, f"{c.algo} has no replay: leave out --replay-ratio, or use tis or acer")
        _need(c.on_policy, f"{c.algo} learns on-policy: leave out --no-on-policy")
    if algo.trust_region is False:
        _need(c.trust_region == "none",
              f"{c.algo} has no trust region: leave out --trust-region, or use another --algo")  # fmt: skip
    if algo.trust_region:
        _need(c.trust_region != "none", f"{c.algo} has a trust region: use {c.algo.removeprefix('trust-')} for none")
    for name in algo.fixed:
        fixed = algo.changes[name]
        _need(getattr(c, name) == fixed,
              f"{c.algo} means {flag_name(name)} {fixed}: leave it out, or use --algo acer")  # fmt: skip

    _need(c.correction_gradient == "score" or c.truncation == 0,
          "--correction-gradient reparametrised takes all of the gradient from the critic: "
          "use --truncation 0")  # fmt: skip

    _need(not (c.squashed and c.bounded_mean), "--squashed keeps all of the action within its range: "
          "leave out --bounded-mean")  # fmt: skip
    _need(c.entropy_unit == "rewards" or c.delta_unit == "errors",
          "--entropy-unit errors is the unit of δ: use --delta-unit errors")  # fmt: skip
    _need(c.act_with == "live" or algo.replay,
          f"{c.algo} learns from what the live network did: leave out --act-with")  # fmt: skip


def _need(holds: bool, message: str) -> None:
    if not holds:
        raise SettingsError(message)
