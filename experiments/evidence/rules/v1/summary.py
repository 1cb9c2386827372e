"""From samples to a median with its interval, and from two of those to a verdict. Pure and repeatable.

A bootstrap in two levels (rounds first, then steps inside a round) gives the intervals: steps of one process are not
independent of each other, rounds are. Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13.
The random numbers come from a seed made of the candidate's name, so that `results verify` gets the same interval.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from hashlib import sha256

from experiments.evidence.candidate import Candidate, Interval, Sample, Summary
from experiments.evidence.conclusion import Comparison, NoiseFloor
from experiments.evidence.vocabulary import Verdict

RESAMPLES = 1000
TAIL = 0.025  # a 95 % interval
WIDEST = 0.25  # what a noise floor beyond this cannot tell apart is not shown to be alike either
FEWEST = 2  # values on each side of a noise floor: from one pair nothing can be said of the scatter
TIMES = ("step_ms", "wall_ms", "busy_ms")

Rounds = Mapping[int, Sequence[float]]  # round -> values of its ordinary steps


def rounds_of(samples: Sequence[Sample], quantity: str) -> Rounds:
    """Values of one quantity by round. Skipped steps and missing values are left out."""
    chosen: dict[int, list[float]] = {}
    for sample in samples:
        value = sample.values.get(quantity)
        if not sample.skipped and value is not None:
            chosen.setdefault(sample.round, []).append(value)
    return chosen


def medians(rounds: Rounds, seed: str) -> list[float]:
    """`RESAMPLES` bootstrap medians. Empty when there is no value."""
    groups = list(rounds.values())
    if not groups:
        return []
    generator = random.Random(int.from_bytes(sha256(seed.encode("utf-8", "surrogatepass")).digest()[:8], "big"))
    drawn = []
    for _ in range(RESAMPLES):
        values: list[float] = []
        for group in generator.choices(groups, k=len(groups)):
            values += generator.choices(group, k=len(group))
        drawn.append(statistics.median(values))
    return drawn


def interval_of(rounds: Rounds, seed: str) -> Interval | None:
    """Median, quartiles and 95 % interval of the median; None without values."""
    values = sorted(value for group in rounds.values() for value in group)
    if not values:
        return None
    low, high = _ends(medians(rounds, seed))
    return Interval(
        median=statistics.median(values),
        quartile_low=_quantile(values, 0.25),
        quartile_high=_quantile(values, 0.75),
        low=low,
        high=high,
    )


def summarise(name: str, samples: Sequence[Sample]) -> Summary | None:
    """The summary of a candidate's samples; None when it has none."""
    if not samples:
        return None
    ordinary = [sample for sample in samples if not sample.skipped]
    found = {quantity: interval_of(rounds_of(samples, quantity), f"{name}/{quantity}") for quantity in TIMES}
    return Summary(
        samples=len(ordinary),
        skipped=len(samples) - len(ordinary),
        rounds=len({sample.round for sample in samples}),
        intervals={quantity: interval for quantity, interval in found.items() if interval is not None},
    )


def noise_floors(candidates: Sequence[Candidate]) -> tuple[NoiseFloor, ...]:
    """The A/A difference of each time quantity: the far end of the 95 % interval of twin / baseline, as a share.

    Empty when the baseline or its twin has no ordinary sample; left out for a quantity measured less than twice.
    """
    baseline = _with_role(candidates, "baseline")
    again = _with_role(candidates, "baseline_again")
    if baseline is None or again is None:
        return ()
    floors = []
    for quantity in TIMES:
        ratio = _ratio(again, baseline, quantity)
        counts = [sum(map(len, rounds_of(c.samples, quantity).values())) for c in (baseline, again)]
        if ratio is not None and min(counts) >= FEWEST:
            floors.append(
                NoiseFloor(
                    quantity=quantity,
                    relative=max(abs(end - 1.0) for end in ratio),
                    baseline=baseline.name,
                    again=again.name,
                    samples=sum(counts),
                )
            )
    return tuple(floors)


def comparisons(candidates: Sequence[Candidate]) -> tuple[Comparison, ...]:
    """Every measured candidate against the baseline, in each time quantity that both have."""
    baseline = _with_role(candidates, "baseline")
    if baseline is None:
        return ()
    floors = {floor.quantity: floor.relative for floor in noise_floors(candidates)}
    found = []
    for candidate in candidates:
        if candidate.role in ("baseline", "baseline_again") or candidate.status != "ok":
            continue
        for quantity in TIMES:
            ratio = _ratio(candidate, baseline, quantity)
            if ratio is not None:
                middle, low, high = ratio
                floor = floors.get(quantity)
                found.append(
                    Comparison(
                        candidate=candidate.name,
                        baseline=baseline.name,
                        quantity=quantity,
                        ratio=middle,
                        low=low,
                        high=high,
                        noise_floor=floor,
                        verdict=verdict(low, high, floor),
                    )
                )
    return tuple(found)


def across(second: Candidate, first: Candidate, noise_floor: float | None) -> Comparison | None:
    """The step time of one candidate in two records, second against first; None where either was not measured."""
    if not first.status == second.status == "ok":
        return None
    sides = (rounds_of(second.samples, "step_ms"), rounds_of(first.samples, "step_ms"))
    ratio = ratio_interval(*sides, (f"{second.name}/second", f"{first.name}/first"))
    if ratio is None:
        return None
    middle, low, high = ratio
    return Comparison(
        candidate=second.name,
        baseline=first.name,
        quantity="step_ms",
        ratio=middle,
        low=low,
        high=high,
        noise_floor=noise_floor,
        verdict=verdict(low, high, noise_floor),
    )


def verdict(low: float, high: float, noise_floor: float | None) -> Verdict:
    """What the 95 % interval of a time ratio says, given the noise floor.

    Outside the floor on one side: faster or slower. Inside it: same, where the floor is narrow enough to mean anything.
    Across its edge, or with no floor: ambiguous.
    """
    if noise_floor is None:
        return "ambiguous"
    if high < 1.0 - noise_floor:
        return "faster"
    if low > 1.0 + noise_floor:
        return "slower"
    if 1.0 - noise_floor <= low and high <= 1.0 + noise_floor and noise_floor <= WIDEST:
        return "same"
    return "ambiguous"


def ratio_interval(numerator: Rounds, denominator: Rounds, seeds: tuple[str, str]) -> tuple[float, float, float] | None:
    """Median ratio and its 95 % interval, both sides resampled; None where a side is empty or its median is zero."""
    above, below = medians(numerator, seeds[0]), medians(denominator, seeds[1])
    if not above or not below or min(below) <= 0.0:
        return None
    low, high = _ends([a / b for a, b in zip(above, below, strict=True)])
    return _middle(numerator) / _middle(denominator), low, high


def _ratio(candidate: Candidate, baseline: Candidate, quantity: str) -> tuple[float, float, float] | None:
    sides = (rounds_of(candidate.samples, quantity), rounds_of(baseline.samples, quantity))
    return ratio_interval(*sides, (f"{candidate.name}/{quantity}", f"{baseline.name}/{quantity}"))


def _with_role(candidates: Sequence[Candidate], role: str) -> Candidate | None:
    measured = (candidate for candidate in candidates if candidate.role == role and candidate.status == "ok")
    return next(measured, None)


def _middle(rounds: Rounds) -> float:
    return statistics.median(value for group in rounds.values() for value in group)


def _ends(drawn: Sequence[float]) -> tuple[float, float]:
    ordered = sorted(drawn)
    return _quantile(ordered, TAIL), _quantile(ordered, 1.0 - TAIL)


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Linear interpolation between order statistics (Hyndman and Fan, type 7)."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
