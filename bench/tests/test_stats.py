# SPDX-License-Identifier: MIT
"""Against values that are known."""

from __future__ import annotations

import math

import numpy
import pytest
from coffer_bench import stats


def test_ratios_are_taken_within_a_round() -> None:
    assert stats.ratios({1: 2.0, 2: 20.0, 4: 8.0}, {1: 1.0, 2: 10.0, 3: 7.0}) == [2.0, 2.0]
    assert stats.ratios({1: 2.0}, {1: 0.0}) == [] and stats.ratios({}, {1: 1.0}) == []


def test_a_slow_round_that_slows_both_changes_nothing() -> None:
    ours, others = {1: 10.0, 2: 500.0, 3: 11.0}, {1: 5.0, 2: 250.0, 3: 5.5}
    assert stats.estimate(stats.ratios(ours, others)) == stats.Estimate(2.0, 2.0, 2.0, 3)


def test_the_median_and_its_interval() -> None:
    found = stats.estimate([1.0, 1.1, 1.2, 1.3, 5.0])
    assert found.value == 1.2 and found.count == 5
    # Of five values, the medians of nearly all draws lie between the least and the greatest.
    assert 1.0 <= found.low <= 1.1 and 1.3 <= found.high <= 5.0
    assert found == stats.estimate([1.0, 1.1, 1.2, 1.3, 5.0])  # the same on every call


def test_the_interval_covers_what_it_should() -> None:
    """Of a hundred samples of 15 with median 1, about 95 intervals contain 1."""
    chance = numpy.random.default_rng(3)
    found = [stats.estimate(list(numpy.exp(chance.normal(0, 0.1, 15)))) for _ in range(100)]
    assert 88 <= sum(1 for one in found if one.low <= 1 <= one.high) <= 100
    wide = [one.high - one.low for one in found]
    assert 0.05 < numpy.mean(wide) < 0.3


def test_another_middle() -> None:
    """Of ten ratios the lowest and the highest do not count, and two that undo each other leave one."""
    values = [0.001, *[0.5, 2.0] * 4, 1000.0]
    found = stats.estimate(values, stats.trimmed_mean)
    assert found.value == pytest.approx(1.0) and 0.1 < found.low < 0.5 and 2 < found.high < 10
    assert stats.trimmed_mean([[1.0, 4.0], [9.0, 1.0]], axis=1) == pytest.approx([2.0, 3.0])


def test_one_sample_has_no_interval_and_none_no_estimate() -> None:
    found = stats.estimate([1.5])
    assert found.value == 1.5 and math.isnan(found.low) and not found.above and not found.below
    assert stats.estimate([]) is None and stats.mean_of_rows([[], []]) is None


def test_geometric_mean() -> None:
    assert stats.geometric_mean([1, 4]) == pytest.approx(2)
    assert math.isnan(stats.geometric_mean([]))


def test_the_mean_of_rows_is_of_their_medians() -> None:
    found = stats.mean_of_rows([[2, 2, 100], [0.5, 0.5, 0.5], []])
    assert found.value == pytest.approx(1.0) and found.count == 2
    assert found.low <= found.value <= found.high
    assert stats.mean_of_rows([[2.0], [8.0]]).value == pytest.approx(4.0)
