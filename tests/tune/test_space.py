"""What is searched: as it is written, and by default."""

import pytest

from acer import config as configuration
from acer.config import ALGORITHMS, PRESETS, from_dict
from acer.errors import SettingsError
from acer.tune import space

DISCRETE = configuration.defaults("CartPole-v1", False)


def read(text, base=DISCRETE, continuous=False, given=()):
    (dimension,) = space.own([text], base, continuous, given).values()
    return dimension


def test_ranges_and_choices_are_read():
    rate = read("learning-rate=1e-4..1e-2:log")
    assert (rate.name, rate.low, rate.high, rate.log) == ("learning_rate", 1e-4, 1e-2, True)
    length = read("trajectory_length=5..40")
    assert length.ends == [5, 40] and all(type(end) is int for end in length.ends) and not length.log
    assert read("replay_ratio=1,4,8").ends == [1, 4, 8]
    assert read("torso=auto, mlp").ends == ["auto", "mlp"]
    assert read("layer_norm=true,false").ends == [True, False]
    assert read("hidden=[64,64],[256]").ends == [[64, 64], [256]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("learning_rate", "--search takes NAME="),
        ("learnig_rate=1..2", "did you mean 'learning_rate'"),
        ("seed=1,2", "--search seed is not possible"),
        ("algo=acer,a3c", "--search algo is not possible"),
        ("learning_rate=1e-2..1e-4", "does not rise"),
        ("learning_rate=0..1e-2:log", "must begin above 0"),
        ("learning_rate=1e-4..1e-2:ln", "only log"),
        ("learning_rate=low..high", "is not LOW..HIGH in numbers"),
        ("learning_rate=1e-3", "names no two different values"),
        ("replay_ratio=4,4", "names no two different values"),
        ("learning_rate=-1..1", "must be positive"),
        ("trajectory_length=1.5..4", "give whole ends"),
        ("torso=1..2", "it is no number"),
        ("returns=retrace,tree", "must be one of"),
        ("trajectories_per_update=1,3", "must be a multiple"),
        ("sigma=0.1..1", "it is for continuous actions"),
        ("gamma=0.9,0.99", "both given and searched"),
    ],
)
def test_mistakes_are_told_before_anything_runs(text, said):
    with pytest.raises(SettingsError, match=said.replace("(", r"\(")):
        space.own([text], DISCRETE, False, ["gamma"])


def test_the_default_space_can_be_a_part_of_ones_own():
    found = space.own(["default", "learning_rate=1e-3..2e-3", "gamma=0.9,0.99"], DISCRETE, False, ["alpha"])
    assert found["learning_rate"].text == "1e-3..2e-3" and found["gamma"].ends == [0.9, 0.99]
    assert "delta" in found and "alpha" not in found


@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("algo", ALGORITHMS)
def test_default_spaces_hold_their_preset_and_nothing_that_is_refused(preset, algo, continuous):
    base = configuration.defaults("X", continuous, preset, algo)
    found = space.default(base, continuous, ())
    assert "learning_rate" in found
    assert ("sigma" in found) == continuous
    for name, dimension in found.items():
        assert len(dimension.ends) > 1
        for value in dimension.ends:
            from_dict(vars(base) | {name: value})
            configuration.defaults("X", continuous, preset, algo, **{name: value})  # it has a meaning
        assert dimension.stored(getattr(base, name)) is not None, name
    assert ("replay_ratio" in found) == ALGORITHMS[algo].replay
    assert ("delta" in found) == (ALGORITHMS[algo].trust_region is not False)


def test_what_is_given_is_not_searched():
    assert "learning_rate" not in space.default(DISCRETE, False, ["learning_rate"])


def test_the_papers_space():
    assert space.texts_of(space.paper(DISCRETE)) == {"learning_rate": f"0.0001..{10**-3.3!r}:log", "delta": "0.1..2.0"}
    assert list(space.paper(configuration.defaults("X", True, algo="a3c"))) == ["learning_rate"]
