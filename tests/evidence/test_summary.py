"""Medians, intervals, noise floors and verdicts: repeatable, honest about skipped steps and about doubt."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_records import candidate, samples
from stages import count

from experiments.evidence.candidate import Sample
from experiments.evidence.rules.v1.summary import (
    comparisons,
    interval_of,
    noise_floors,
    ratio_interval,
    rounds_of,
    summarise,
    verdict,
)


def test_the_summary_of_samples() -> None:
    taken = samples(100.0, 1)
    found = summarise("a", taken)
    assert found is not None
    step = found.intervals["step_ms"]
    assert step.median == statistics.median(sample.values["step_ms"] for sample in taken)
    assert step.low <= step.median <= step.high
    assert step.quartile_low <= step.median <= step.quartile_high
    assert (found.samples, found.skipped, found.rounds) == (15, 0, 3)
    assert "busy_ms" not in found.intervals


def test_the_same_samples_give_the_same_interval_and_another_name_another_draw() -> None:
    rounds = rounds_of(samples(100.0, 1), "step_ms")
    assert interval_of(rounds, "a") == interval_of(rounds, "a")
    assert interval_of(rounds, "a") != interval_of(rounds, "b")


def test_skipped_steps_are_counted_and_never_averaged_in() -> None:
    taken = samples(100.0, 1)
    skipped = Sample(round=0, position=0, step=99, values={"step_ms": 9999.0}, skipped=True)
    with_skip, without = summarise("a", (*taken, skipped)), summarise("a", taken)
    assert with_skip is not None
    assert without is not None
    assert with_skip.intervals["step_ms"] == without.intervals["step_ms"]
    assert (with_skip.samples, with_skip.skipped) == (15, 1)


def test_no_sample_is_no_summary_and_no_value_is_no_interval() -> None:
    assert summarise("a", ()) is None
    found = summarise("a", (Sample(round=0, position=0, step=0),))
    assert found is not None
    assert found.intervals == {}
    assert interval_of({}, "a") is None


def test_one_sample_is_its_own_interval() -> None:
    found = interval_of({0: [5.0]}, "a")
    assert found is not None
    assert (found.low, found.median, found.high) == (5.0, 5.0, 5.0)


def test_rounds_that_disagree_widen_the_interval_more_than_steps_that_do() -> None:
    between = interval_of({0: [90.0] * 6, 1: [100.0] * 6, 2: [110.0] * 6}, "a")
    within = interval_of({turn: [90.0, 100.0, 110.0] * 2 for turn in range(3)}, "a")
    assert between is not None
    assert within is not None
    assert between.high - between.low >= within.high - within.low
    assert (between.low, between.high) == (90.0, 110.0)


@pytest.mark.parametrize(
    ("low", "high", "floor", "expected"),
    [
        (0.80, 0.90, 0.05, "faster"),
        (1.10, 1.20, 0.05, "slower"),
        (0.97, 1.03, 0.05, "same"),
        (0.90, 0.97, 0.05, "ambiguous"),
        (1.03, 1.20, 0.05, "ambiguous"),
        (0.90, 1.20, 0.05, "ambiguous"),
        (0.50, 0.60, None, "ambiguous"),
        (1.0, 1.0, 0.0, "same"),
        (0.76, 1.24, 0.25, "same"),
        (0.97, 1.03, 0.26, "ambiguous"),
        (0.40, 1.60, 1.09, "ambiguous"),
        (2.20, 2.40, 1.09, "slower"),
    ],
)
def test_the_verdict(low: float, high: float, floor: float | None, expected: str) -> None:
    assert verdict(low, high, floor) == expected


def test_the_noise_floor_is_the_far_end_of_the_twin() -> None:
    baseline, again = candidate("a", "baseline", 100.0, 1), candidate("a2", "baseline_again", 103.0, 2)
    floors = {floor.quantity: floor for floor in noise_floors((baseline, again))}
    assert 0.03 <= floors["step_ms"].relative < 0.05
    assert floors["step_ms"].samples == 30
    assert (floors["step_ms"].baseline, floors["step_ms"].again) == ("a", "a2")
    assert "busy_ms" not in floors  # nobody measured it


def test_without_a_finished_pair_there_is_no_floor() -> None:
    baseline, again = candidate("a", "baseline", 100.0, 1), candidate("a2", "baseline_again", 100.0, 2)
    assert noise_floors((baseline,)) == ()
    assert noise_floors((again,)) == ()
    assert noise_floors((baseline, replace(again, status="failed"))) == ()


def test_one_pair_of_values_is_no_noise_floor_and_its_verdict_is_open() -> None:
    pair = [
        candidate("a", "baseline", 100.0, 1),
        candidate("a again", "baseline_again", 100.0, 2),
        candidate("b", "candidate", 10.0, 3),
    ]
    once = [replace(c, samples=c.samples[:1]) for c in pair]
    assert noise_floors(once) == ()
    assert {found.verdict for found in comparisons(once)} == {"ambiguous"}
    assert noise_floors([replace(c, samples=c.samples[:2]) for c in pair])


def test_candidates_are_compared_with_the_baseline() -> None:
    measured = (
        candidate("a", "baseline", 100.0, 1),
        candidate("a2", "baseline_again", 100.1, 2),
        candidate("slow", "candidate", 130.0, 3),
        candidate("fast", "candidate", 70.0, 4),
        candidate("alike", "candidate", 100.0, 1),
        candidate("lost", "candidate", 100.0, 5, status="failed"),
    )
    found = {c.candidate: c for c in comparisons(measured) if c.quantity == "step_ms"}
    assert {name: c.verdict for name, c in found.items()}["slow"] == "slower"
    assert found["fast"].verdict == "faster"
    assert found["alike"].verdict in ("same", "ambiguous")
    assert "lost" not in found
    assert "a2" not in found
    assert found["slow"].ratio == pytest.approx(1.3, rel=0.01)


def test_without_a_floor_every_verdict_is_ambiguous() -> None:
    measured = (candidate("a", "baseline", 100.0, 1), candidate("b", "candidate", 300.0, 2))
    assert {c.verdict for c in comparisons(measured)} == {"ambiguous"}
    assert comparisons(measured[1:]) == ()


def test_a_ratio_needs_two_sides_and_a_denominator_above_zero() -> None:
    assert ratio_interval({}, {0: [1.0]}, ("a", "b")) is None
    assert ratio_interval({0: [1.0]}, {}, ("a", "b")) is None
    assert ratio_interval({0: [1.0]}, {0: [0.0]}, ("a", "b")) is None
    assert ratio_interval({0: [2.0]}, {0: [4.0]}, ("a", "b")) == (0.5, 0.5, 0.5)


@settings(max_examples=count(40), deadline=None)
@given(
    rounds=st.dictionaries(
        st.integers(0, 4), st.lists(st.floats(0.001, 1e6), min_size=1, max_size=6), min_size=1, max_size=4
    )
)
def test_an_interval_lies_within_the_values_and_holds_its_order(rounds: dict[int, list[float]]) -> None:
    found = interval_of(rounds, "a")
    assert found is not None
    values = [value for group in rounds.values() for value in group]
    assert min(values) <= found.low <= found.high <= max(values)
    assert found.quartile_low <= found.median <= found.quartile_high
