"""Statistics over settings, seeds and games."""

import math

import numpy as np
import pytest

from acer.experiments import statistics


def test_the_best_sixth():
    assert [statistics.best_count(n) for n in (1, 2, 6, 8, 9, 12, 30)] == [1, 1, 1, 1, 2, 2, 5]
    assert statistics.best(np.array([1.0, 5.0, 3.0, 5.0]), 3).tolist() == [1, 3, 2]


def test_interquartile_mean_by_hand():
    assert statistics.interquartile_mean(np.array([4.0, 100.0, 2.0, -50.0])) == 3  # the middle two
    assert statistics.interquartile_mean(np.array([7.0])) == 7
    # Of six, 1.5 are cut at each end: half of 2 and of 16, all of 4 and 8.
    assert statistics.interquartile_mean(np.array([1.0, 2, 4, 8, 16, 32])) == pytest.approx((1 + 4 + 8 + 8) / 3)
    both = statistics.interquartile_mean(np.array([[1.0, 2, 3, 4], [0, 0, 10, 10]]))
    assert both.tolist() == [2.5, 5.0]
    often = statistics.interquartile_mean(np.array([8.0, 1, 4, 9]), np.array([2, 0, 1, 1]))
    assert often == statistics.interquartile_mean(np.array([4.0, 8, 8, 9])) == 8


def test_bootstrap_intervals():
    assert all(math.isnan(bound) for bound in statistics.bootstrap(np.array([1.0])))
    assert statistics.bootstrap(np.full(9, 3.0)) == (3.0, 3.0)
    values = np.random.default_rng(0).normal(size=400)
    low, high = statistics.bootstrap(values)
    assert low < statistics.interquartile_mean(values) < high
    # The theory's: of normal values the mean of the middle half has 1.195 times the mean's variance.
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(1.195) * values.std() / 20, rel=0.1)
    assert statistics.bootstrap(values) == (low, high)


def test_values_of_a_group_are_drawn_together():
    values = np.random.default_rng(0).normal(size=40)
    alone = statistics.bootstrap(values)
    ten_times = statistics.bootstrap(np.repeat(values, 10), np.repeat(range(40), 10))
    assert ten_times == pytest.approx(alone, abs=0.05)  # no narrower: the same 40
    assert all(math.isnan(bound) for bound in statistics.bootstrap(values, [3] * 40))
