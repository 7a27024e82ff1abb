"""The same seed gives the same bits as it did: nothing that was only moved has changed a number."""

import json

import pytest

import bits

KNOWN = json.loads(bits.FILE.read_text())


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "cheetah", pytest.param("pong", marks=pytest.mark.slow)])
def test_parameters_after_twenty_thousand_steps(env):
    here = KNOWN.get(bits.machine())
    if here is None:
        pytest.skip(f"no hashes of this kind of machine ({bits.machine()}); `python tests/bits.py` adds them")
    assert bits.parameters(env, **bits.RUNS[env]) == here[env]
