"""From resampled values to an interval, and from two of those to a ratio, a noise floor and a verdict.

Percentile intervals: Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 13. Nothing here knows a
record or a quantity by name: whether lower or higher is better is an argument, and so is the unit.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

from experiments.evidence.rules.v2.resampling import Resampled

TAIL = 0.025  # a 95 % interval
WIDEST = 0.25  # what a noise floor beyond this cannot tell apart is not shown to be alike either
FEWEST = 2  # rounds on each side: what scatters between processes cannot be seen in one
TIMES = ("s", "ms")

Better: TypeAlias = Literal["lower", "higher"]
Finding: TypeAlias = Literal["faster", "slower", "better", "worse", "same", "ambiguous"]


class Spread(NamedTuple):
    """A measured quantity summed up, in its own unit."""

    median: float
    quartile_low: float
    quartile_high: float
    low: float  # ends of the 95 % bootstrap interval of the median
    high: float


class Ratio(NamedTuple):
    """One side over the other."""

    middle: float  # median of all values over median of all values
    low: float  # ends of the 95 % bootstrap interval, both sides resampled
    high: float
    rounds: int  # of the side that has fewer


def interval(side: Resampled) -> Spread | None:
    """Median, quartiles (type 7) and 95 % interval of the median; None without values."""
    if not side.values:
        return None
    return Spread(
        statistics.median(side.values),
        _quantile(side.values, 0.25),
        _quantile(side.values, 0.75),
        *_ends(side.medians.tolist()),
    )


def ratio(numerator: Resampled, denominator: Resampled) -> Ratio | None:
    """Ratio of the medians and its 95 % interval; None where a side is empty or the denominator is not above zero.

    Raises ValueError for two sides of one seed: their draws would move together, and the interval would be too narrow.
    """
    if numerator.seed == denominator.seed:
        raise ValueError(f"both sides are drawn from the seed {numerator.seed!r}")
    if not numerator.values or not denominator.values:
        return None
    below = statistics.median(denominator.values)
    if min(below, float(denominator.medians.min())) <= 0.0:
        return None
    low, high = _ends((numerator.medians / denominator.medians).tolist())
    rounds = min(len(numerator.groups), len(denominator.groups))
    return Ratio(statistics.median(numerator.values) / below, low, high, rounds)


def noise_floor(again: Resampled, baseline: Resampled) -> float | None:
    """The A/A difference: the far end of the 95 % interval of twin / baseline, as a share; up to it is noise.

    None where there is no ratio, or fewer than `FEWEST` rounds on a side.
    """
    found = ratio(again, baseline)
    if found is None or found.rounds < FEWEST:
        return None
    return max(abs(found.low - 1.0), abs(found.high - 1.0))


def verdict(found: Ratio, floor: float | None, better: Better, unit: str) -> Finding:
    """What a ratio of candidate over baseline says, given the noise floor.

    Outside the floor on one side: `faster` or `slower` for a time (ms, ms/token) of which less is better; `better` or
    `worse` for every other quantity, a rate too. Inside it: `same`, where the floor is narrow enough to mean anything.
    Across its edge, without a floor, or from fewer than `FEWEST` rounds on a side: `ambiguous`.
    """
    if floor is None or found.rounds < FEWEST:
        return "ambiguous"
    good, bad = _words(better, unit)
    if found.high < 1.0 - floor:
        return good if better == "lower" else bad
    if found.low > 1.0 + floor:
        return bad if better == "lower" else good
    if 1.0 - floor <= found.low and found.high <= 1.0 + floor and floor <= WIDEST:
        return "same"
    return "ambiguous"


def _words(better: Better, unit: str) -> tuple[Finding, Finding]:
    if better == "lower" and unit.partition("/")[0] in TIMES:
        return "faster", "slower"
    return "better", "worse"


def _ends(drawn: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(drawn)
    return _quantile(ordered, TAIL), _quantile(ordered, 1.0 - TAIL)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan, type 7)."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
