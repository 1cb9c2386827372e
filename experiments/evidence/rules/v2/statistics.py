"""Summaries, noise floors and comparisons of a record, in every quantity that its kind declares as better one way.

What is resampled is one side: a candidate in one quantity. Its draws depend on its values and its name alone and are
kept, so that the baseline is drawn once however many candidates are compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from experiments.evidence.candidate import Candidate, Interval, Sample, Summary
from experiments.evidence.conclusion import Comparison, NoiseFloor
from experiments.evidence.record import Quantity
from experiments.evidence.rules.v2 import verdicts
from experiments.evidence.rules.v2.resampling import Resampled

KEPT = 512  # sides, of 8 kB of medians and their own values each


def summarise(name: str, samples: Sequence[Sample], quantities: Sequence[Quantity]) -> Summary | None:
    """The summary of a candidate's samples; None when it has none."""
    if not samples:
        return None
    ordinary = [sample for sample in samples if not sample.skipped]
    spreads = {quantity.word: verdicts.interval(_side(name, samples, quantity)) for quantity in weighed(quantities)}
    return Summary(
        samples=len(ordinary),
        skipped=len(samples) - len(ordinary),
        rounds=len({sample.round for sample in samples}),
        intervals={word: Interval(**spread._asdict()) for word, spread in spreads.items() if spread is not None},
    )


def noise_floors(candidates: Sequence[Candidate], quantities: Sequence[Quantity]) -> tuple[NoiseFloor, ...]:
    """The A/A difference in each quantity: the far end of the 95 % interval of twin / baseline, as a share.

    Empty when the baseline or its twin did not finish; left out for a quantity measured in fewer than two rounds.
    """
    baseline, again = (_with_role(candidates, role) for role in ("baseline", "baseline_again"))
    if baseline is None or again is None:
        return ()
    found = []
    for quantity in weighed(quantities):
        sides = [_side(candidate.name, candidate.samples, quantity) for candidate in (again, baseline)]
        relative = verdicts.noise_floor(*sides)
        if relative is not None:
            found.append(
                NoiseFloor(
                    quantity=quantity.word,
                    relative=relative,
                    baseline=baseline.name,
                    again=again.name,
                    samples=sum(len(side.values) for side in sides),
                )
            )
    return tuple(found)


def comparisons(candidates: Sequence[Candidate], quantities: Sequence[Quantity]) -> tuple[Comparison, ...]:
    """Every measured candidate against the baseline, in each quantity that both have."""
    baseline = _with_role(candidates, "baseline")
    if baseline is None:
        return ()
    floors = {floor.quantity: floor.relative for floor in noise_floors(candidates, quantities)}
    others = [c for c in candidates if c.status == "ok" and c.role not in ("baseline", "baseline_again")]
    pairs = ((other, quantity) for other in others for quantity in weighed(quantities))
    found = (
        _compared(
            (other.name, _side(other.name, other.samples, quantity)),
            (baseline.name, _side(baseline.name, baseline.samples, quantity)),
            quantity,
            floors.get(quantity.word),
        )
        for other, quantity in pairs
    )
    return tuple(comparison for comparison in found if comparison is not None)


def across(second: Candidate, first: Candidate, noise_floor: float | None, quantity: Quantity) -> Comparison | None:
    """One candidate in two records, second against first; None where either was not measured in that quantity."""
    if not first.status == second.status == "ok" or quantity.better is None:
        return None
    sides = [
        (candidate.name, _side(f"{candidate.name}/{place}", candidate.samples, quantity))
        for candidate, place in ((second, "second"), (first, "first"))
    ]
    return _compared(sides[0], sides[1], quantity, noise_floor)


def weighed(quantities: Sequence[Quantity]) -> tuple[Quantity, ...]:
    """The quantities that are compared: one value per repetition, and one direction is better."""
    return tuple(found for found in quantities if found.taken == "repetition" and found.better is not None)


def _compared(
    above: tuple[str, Resampled], below: tuple[str, Resampled], quantity: Quantity, noise_floor: float | None
) -> Comparison | None:
    found = verdicts.ratio(above[1], below[1])
    if found is None or quantity.better is None:
        return None
    return Comparison(
        candidate=above[0],
        baseline=below[0],
        quantity=quantity.word,
        ratio=found.middle,
        low=found.low,
        high=found.high,
        noise_floor=noise_floor,
        verdict=verdicts.verdict(found, noise_floor, quantity.better, quantity.unit),
    )


def _side(name: str, samples: Sequence[Sample], quantity: Quantity) -> Resampled:
    """A candidate in one quantity. Skipped repetitions and missing values are left out."""
    rounds: dict[int, list[float]] = {}
    for sample in samples:
        value = sample.values.get(quantity.word)
        if not sample.skipped and value is not None:
            rounds.setdefault(sample.round, []).append(value)
    return _resampled(
        tuple((number, tuple(sorted(values))) for number, values in sorted(rounds.items())), f"{name}/{quantity.word}"
    )


@lru_cache(maxsize=KEPT)
def _resampled(rounds: tuple[tuple[int, tuple[float, ...]], ...], seed: str) -> Resampled:
    return Resampled(dict(rounds), seed)


def _with_role(candidates: Sequence[Candidate], role: str) -> Candidate | None:
    return next((candidate for candidate in candidates if candidate.role == role and candidate.status == "ok"), None)
