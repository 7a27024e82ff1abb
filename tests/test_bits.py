"""The same seed gives the same bits as it did: nothing that was only moved has changed a number."""

import json

import pytest

import bits

KNOWN = json.loads(bits.FILE.read_text())


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in bits.RUNS if name.startswith("pong")]


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "cheetah", *SLOW])
def test_parameters_after_twenty_thousand_steps(name):
    here = KNOWN.get(bits.machine(), {})
    if name not in here:
        pytest.skip(f"no hash of this kind of machine ({bits.machine()}); `python tests/bits.py` adds it")
    assert bits.parameters(name, **bits.RUNS[name]) == here[name]
