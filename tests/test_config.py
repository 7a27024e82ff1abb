"""Settings: presets, names, files, and what is refused."""

import dataclasses
import json
import math

import pytest

from acer import config as configuration
from acer.config import ALGORITHMS, PRESETS, Config, defaults, from_dict
from acer.errors import SettingsError


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_every_name_with_every_preset_is_a_whole_configuration(preset, algo, continuous):
    config = defaults("X", continuous, preset, algo)
    assert from_dict(json.loads(configuration.to_json(config))) == config


def test_a_number_too_large_for_a_float_is_said_in_one_line():
    with pytest.raises(SettingsError, match="--gamma must be a number"):
        from_dict({"env": "X", "gamma": 10**400})


def test_the_papers_constants():
    atari, control = defaults("X", False, "atari"), defaults("X", True, "control")
    assert (atari.trajectory_length, atari.truncation, atari.delta, atari.alpha) == (20, 10, 1, 0.99)
    assert (atari.entropy_weight, atari.gamma, atari.replay_capacity, atari.replay_ratio) == (0.001, 0.99, 50_000, 4)
    assert (atari.environments, atari.hidden, atari.on_policy) == (16, (512,), True)
    assert (control.trajectory_length, control.truncation, control.alpha, control.sigma) == (50, 5, 0.995, 0.3)
    assert (control.sdn_samples, control.gamma, control.replay_capacity, control.on_policy) == (5, 0.99, 5_000, False)
    assert 10**-4 <= control.learning_rate <= 10**-3.3
    assert 0.1 <= control.delta <= 2


def test_every_field_has_a_sentence_with_its_source():
    from acer.config import descriptions

    texts = descriptions()
    assert list(texts) == [field.name for field in dataclasses.fields(Config)]
    for name in list(texts)[3:]:
        assert any(word in texts[name] for word in ("Section", "Appendix", "Algorithm", "ours", "Mnih")), name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rte": 1.0}, "did you mean 'learning_rate'"),
        ({"learning_rate": "fast"}, "--learning-rate must be a number"),
        ({"learning_rate": -1.0}, "must be positive"),
        ({"learning_rate": math.nan}, "--learning-rate must be"),
        ({"learning_rate": math.inf}, "finite"),
        ({"steps": 1.5}, "whole number"),
        ({"steps": True}, "whole number"),
        ({"workers": 1}, "true or false"),
        ({"hidden": [64, 0]}, "--hidden"),
        ({"hidden": "64"}, "list of whole numbers"),
        ({"gamma": 1.5}, "between 0 and 1"),
        ({"trust_region": "sometimes"}, "one of projection, penalty, none"),
        ({"environments": 6, "trajectories_per_update": 4}, "multiple of"),
        ({"replay_capacity": 5}, "holds no trajectory"),
        ({"replay_start": 10**9}, "never reached"),
        ({"on_policy": False, "replay_ratio": 0.0}, "nothing would be learnt"),
        ({"algo": "a3c", "replay_ratio": 4.0}, "a3c has no replay"),
        ({"algo": "tis", "trust_region": "projection"}, "no trust region"),
        ({"algo": "trust-tis", "trust_region": "none"}, "trust-tis has a trust region"),
        ({"algo": "a3c", "truncation": 3.0}, "--truncation has no meaning here"),
        ({"algo": "a3c", "returns": "degris"}, "--returns has no meaning here"),
        ({"tis_bound": 2.0}, "--tis-bound has no meaning here"),
        ({"kl_weight": 2.0}, "--kl-weight has no meaning here"),
        ({"trust_region": "penalty", "delta": 0.5}, "--delta has no meaning here"),
        ({"sigma": 0.5}, "--sigma has no meaning here"),
        ({"sdn_samples": 3}, "--sdn-samples has no meaning here"),
        ({"algo": "no-truncation", "truncation": 5.0}, "--truncation inf"),
        ({"algo": "no-retrace", "returns": "retrace"}, "--returns importance"),
        ({"algo": "ppo"}, "one of acer, a3c"),
        ({"preset": "mujoco"}, "one of classic, atari, control"),
    ],
)
def test_what_cannot_be_meant_is_refused(settings, message):
    with pytest.raises(SettingsError, match=message) as error:
        defaults("X", False, **settings)
    assert "\n" not in str(error.value)


def test_replay_may_begin_when_the_memory_is_full():
    assert defaults("X", False, environments=4, replay_capacity=100, replay_start=400).replay_start == 400


@pytest.mark.parametrize(
    ("preset", "environments", "trajectories"),
    [("efficient", n, m) for n, m in ((1, 8), (2, 8), (3, 6), (4, 8), (5, 5), (6, 6), (8, 8), (12, 4), (16, 8))]
    + [("classic", n, m) for n, m in ((1, 1), (2, 2), (6, 2), (16, 4), (20, 4))],
)
def test_an_update_has_about_as_many_trajectories_with_other_numbers_of_environments(
    preset, environments, trajectories
):
    assert defaults("X", False, preset, environments=environments).trajectories_per_update == trajectories


def test_the_average_network_has_its_decay_where_it_acts():
    assert defaults("X", False, trust_region="none", act_with="average", alpha=0.5).alpha == 0.5
    with pytest.raises(SettingsError, match="--alpha has no meaning here"):
        defaults("X", False, trust_region="none", alpha=0.5)
