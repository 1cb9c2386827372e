"""Version 2 of intervals, ratios, noise floors and verdicts: both directions, doubt kept, one round never enough."""

from __future__ import annotations

import random
import statistics
from collections import Counter

import numpy as np
import pytest

from experiments.evidence.rules.v2.resampling import Resampled, Rounds
from experiments.evidence.rules.v2.verdicts import Better, Ratio, interval, noise_floor, ratio, verdict


def side(name: str, level: float = 100.0, *, seed: int = 0, rounds: int = 5, steps: int = 10) -> Resampled:
    """Steps around `level` with a scatter of 1 % in rounds that scatter by 0.5 %."""
    generator = random.Random(f"{name}{seed}")
    levels = [generator.gauss(level, level / 200) for _ in range(rounds)]
    taken = {number: [generator.gauss(own, level / 100) for _ in range(steps)] for number, own in enumerate(levels)}
    return Resampled(taken, name)


def test_an_interval_sums_up_its_values() -> None:
    taken = side("a")
    found = interval(taken)
    assert found is not None
    assert found.median == statistics.median(taken.values)
    assert found[1:3] == pytest.approx(np.quantile(taken.values, (0.25, 0.75)), rel=1e-12)
    assert found[3:] == pytest.approx(np.quantile(taken.medians, (0.025, 0.975)), rel=1e-12)
    assert all(type(value) is float for value in found)  # JSON knows no numpy


@pytest.mark.parametrize(
    ("rounds", "wanted"),
    [
        ({0: [7.0]}, (7.0,) * 5),
        ({0: [7.0] * 4, 1: [7.0] * 2}, (7.0,) * 5),
        ({0: [0.0], 1: [0.0]}, (0.0,) * 5),
        ({0: [1.0, 2.0]}, (1.5, 1.25, 1.75, 1.0, 2.0)),
    ],
)
def test_few_values_and_ties(rounds: Rounds, wanted: tuple[float, ...]) -> None:
    assert interval(Resampled(rounds, "a")) == wanted


def test_without_values_there_is_nothing() -> None:
    nothing, something = Resampled({0: []}, "a"), side("b")
    assert interval(nothing) is None
    assert ratio(nothing, something) is None
    assert ratio(something, nothing) is None
    assert noise_floor(nothing, something) is None


def test_a_ratio_is_of_medians_and_both_sides_are_resampled() -> None:
    slow, base = side("slow", 130.0), side("base")
    found = ratio(slow, base)
    assert found is not None
    assert found.middle == statistics.median(slow.values) / statistics.median(base.values)
    assert found.low < found.middle < found.high
    quotients = [a / b for a, b in zip(slow.medians.tolist(), base.medians.tolist(), strict=True)]
    assert found[1:3] == pytest.approx(np.quantile(quotients, (0.025, 0.975)), rel=1e-12)
    assert found.rounds == 5
    assert ratio(slow, side("one", rounds=1)) == pytest.approx((1.3, 1.3, 1.3, 1), rel=0.05)


def test_a_denominator_that_can_be_zero_is_no_denominator() -> None:
    assert ratio(side("a"), Resampled({0: [0.0, 0.0, 0.0]}, "b")) is None
    assert ratio(side("a"), Resampled({0: [5.0], 1: [0.0], 2: [5.0]}, "b")) is None
    zeros = ratio(Resampled({0: [0.0], 1: [0.0]}, "b"), side("a"))
    assert zeros == (0.0, 0.0, 0.0, 2)


def test_two_sides_never_share_their_draws() -> None:
    with pytest.raises(ValueError, match="from the seed 'a'"):
        ratio(side("a", seed=1), side("a", seed=2))


def test_the_noise_floor_is_the_far_end_of_the_twin() -> None:
    again, base = side("again", 103.0), side("base")
    found, floor = ratio(again, base), noise_floor(again, base)
    assert found is not None
    assert floor == found.high - 1.0
    assert noise_floor(side("lower", 97.0), base) == pytest.approx(0.03, abs=0.02)


def test_one_round_of_a_twin_is_no_noise_floor() -> None:
    assert noise_floor(side("again", rounds=1, steps=1000), side("base")) is None
    assert noise_floor(side("again"), side("base", rounds=1, steps=1000)) is None
    assert noise_floor(side("again", rounds=2), side("base", rounds=2)) is not None


@pytest.mark.parametrize(
    ("low", "high", "floor", "lower", "higher"),
    [
        (0.80, 0.90, 0.05, "faster", "worse"),
        (1.10, 1.20, 0.05, "slower", "better"),
        (0.97, 1.03, 0.05, "same", "same"),
        (0.90, 0.97, 0.05, "ambiguous", "ambiguous"),  # across the edge of the floor
        (0.80, 0.95, 0.05, "ambiguous", "ambiguous"),  # on it
        (1.05, 1.20, 0.05, "ambiguous", "ambiguous"),
        (0.90, 1.10, 0.05, "ambiguous", "ambiguous"),
        (0.95, 1.05, 0.05, "same", "same"),
        (0.90, 1.10, 0.25, "same", "same"),
        (0.90, 1.10, 0.26, "ambiguous", "ambiguous"),  # a floor too wide to show anything alike
        (0.50, 0.60, 0.26, "faster", "worse"),  # but not to show a difference
        (0.10, 0.20, None, "ambiguous", "ambiguous"),
    ],
)
def test_verdicts_in_both_directions(low: float, high: float, floor: float | None, lower: str, higher: str) -> None:
    found = Ratio((low + high) / 2, low, high, 2)
    assert verdict(found, floor, "lower", "ms") == lower
    assert verdict(found, floor, "higher", "tokens/s") == higher


@pytest.mark.parametrize(
    ("unit", "better", "words"),
    [
        ("ms", "lower", ("faster", "slower")),
        ("s", "lower", ("faster", "slower")),
        ("ms/token", "lower", ("faster", "slower")),
        ("bytes", "lower", ("better", "worse")),
        ("samples", "lower", ("better", "worse")),  # begins like a second
        ("tokens/s", "higher", ("worse", "better")),
        ("ms", "higher", ("worse", "better")),  # time between failures
        ("ratio", "higher", ("worse", "better")),
    ],
)
def test_faster_and_slower_are_words_for_times(unit: str, better: Better, words: tuple[str, str]) -> None:
    assert (
        verdict(Ratio(0.5, 0.49, 0.51, 2), 0.01, better, unit),
        verdict(Ratio(2.0, 1.99, 2.01, 2), 0.01, better, unit),
    ) == words


def test_one_round_on_a_side_is_ambiguous_whatever_its_steps_say() -> None:
    half, once = side("half", 50.0), side("once", 50.0, rounds=1, steps=1000)
    base, base_once = side("base"), side("base", rounds=1, steps=1000)
    for pair, wanted in (((half, base), "faster"), ((once, base), "ambiguous"), ((half, base_once), "ambiguous")):
        found = ratio(*pair)
        assert found is not None
        assert found.high < 0.6
        assert verdict(found, 0.05, "lower", "ms") == wanted


def test_equal_processes_are_seldom_called_different() -> None:
    said: Counter[str] = Counter()
    for number in range(100):
        base, again, candidate = (side(name, seed=number) for name in ("base", "again", "candidate"))
        found = ratio(candidate, base)
        assert found is not None
        said[verdict(found, noise_floor(again, base), "lower", "ms")] += 1
    assert said["faster"] + said["slower"] <= 2
    assert said["same"] > 30


def test_a_difference_beyond_the_noise_is_seen() -> None:
    for level, wanted in ((90.0, "faster"), (110.0, "slower")):
        base, again, candidate = side("base"), side("again"), side("candidate", level)
        found = ratio(candidate, base)
        assert found is not None
        assert verdict(found, noise_floor(again, base), "lower", "ms") == wanted
