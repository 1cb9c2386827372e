"""From the answers of one candidate's ranks to what the record says of it: samples, gates, marks. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from experiments.evidence.candidate import Candidate, Checks, Gate, Prediction, Sample
from experiments.evidence.vocabulary import PREDICTION_MISSED
from experiments.harness.experiment import Forecast
from experiments.harness.kind import Answered, Findings, Seen
from experiments.kinds.collective import bandwidth
from experiments.kinds.collective.answers import CollectiveGateAnswer, CollectiveMeasureAnswer, SizeChecked
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.cost_model import fit
from experiments.kinds.collective.foretold import foretold
from experiments.kinds.collective.size_ladder import word_at

WANTED = ("finite", "sums", "ranks")
AGAINST = "exact sums"

SeenCollective: TypeAlias = Seen[CollectiveWorkload, None, CollectiveGateAnswer, CollectiveMeasureAnswer]


def findings(seen: SeenCollective) -> Findings:
    """What the record says of one candidate."""
    return Findings(
        samples=tuple(sample for one in seen.measured for sample in _samples(one, seen.plan.workload)),
        checks=_checks(seen),
        settings={} if seen.gate is None else {"process_group": seen.gate.answer.process_group},
    )


def forecast(seen: SeenCollective) -> Forecast:
    """The time at the unseen size, by a line through the others; nothing before those are measured."""
    workload = seen.plan.workload
    values = [sample.values for one in seen.measured for sample in _samples(one, workload)]
    if not values:
        return Forecast()
    medians = [statistics.median(value[word_at(size)] for value in values) for size in workload.sizes]
    expected = fit(workload.sizes, medians).expected(workload.unseen)
    word = word_at(workload.unseen)
    return Forecast(
        predictions=(Prediction(quantity=word, formula="alpha + beta bytes", unit="ms", predicted=expected.ms),)
    )


def marks(seen: SeenCollective, candidate: Candidate) -> tuple[str, ...]:
    """`prediction_missed` where the unseen size was measured outside the interval of its prediction."""
    found = foretold(candidate, seen.plan.workload)
    return (PREDICTION_MISSED,) if found is not None and not found.holds else ()


def _samples(one: Answered[CollectiveMeasureAnswer], workload: CollectiveWorkload) -> list[Sample]:
    """One sample for each repetition. A collective is over when the slowest rank has it."""
    slowest = {size: _slowest(one.ranks, size) for size in workload.timed}
    return [
        Sample(
            round=one.task.round or 0,
            position=one.task.position or 0,
            step=step,
            values=_values({size: spans[step] for size, spans in slowest.items()}, workload),
        )
        for step in range(len(slowest[workload.timed[0]]))
    ]


def _slowest(ranks: Sequence[CollectiveMeasureAnswer], size: int) -> list[float]:
    return [max(spans) for spans in zip(*(answer.ms[str(size)] for answer in ranks), strict=True)]


def _values(ms: Mapping[int, float], workload: CollectiveWorkload) -> dict[str, float]:
    largest = workload.sizes[-1]
    return {
        "collective_ms": ms[largest],
        "algorithm_gb_per_s": bandwidth.algorithm_gb_per_s(largest, ms[largest]),
        "bus_gb_per_s": bandwidth.bus_gb_per_s(largest, ms[largest], workload.ranks),
        **{word_at(size): spent for size, spent in ms.items()},
    }


def _checks(seen: SeenCollective) -> Checks:
    if seen.gate is None:
        return Checks(wanted=WANTED)
    workload, answers = seen.plan.workload, seen.gate.ranks
    lost = [f"rank {answer.rank}, {one.size} bytes" for answer in answers for one in answer.sizes if not one.finite]
    lost += [
        f"rank {answer.rank}, {size} bytes, round {measured.task.round}"
        for measured in seen.measured
        for answer in measured.ranks
        for size in answer.not_finite
    ]
    return Checks(
        finite=not lost,
        not_finite=tuple(dict.fromkeys(lost)),
        wanted=WANTED,
        gates={"sums": _sums(answers, seen.measured, workload), "ranks": _ranks(answers, workload)},
    )


def _sums(
    answers: Sequence[CollectiveGateAnswer],
    measured: Sequence[Answered[CollectiveMeasureAnswer]],
    workload: CollectiveWorkload,
) -> Gate:
    """Every element exact, on every rank, at every size, and after each timed repetition."""
    wrong = [
        (
            one.error,
            f"rank {answer.rank}, {one.size} bytes: {one.wrong} of {one.elements} elements, first {one.first_wrong}",
        )
        for answer in answers
        for one in answer.sizes
        if one.wrong
    ]
    late = [
        f"rank {answer.rank}, {size} bytes: {count} repetitions of round {done.task.round}"
        for done in measured
        for answer in done.ranks
        for size, count in answer.wrong.items()
    ]
    worst = max(wrong, key=lambda pair: float("inf") if pair[0] is None else pair[0], default=(0.0, ""))
    return Gate(
        passed=not wrong and not late and _complete(answers, workload),
        against=AGAINST,
        error=worst[0] if wrong or not late else None,
        tolerance=0.0,
        yardstick=f"n (n + 1) / 2 + n**2 k, n = {workload.ranks}: integers that {workload.dtype} holds exactly",
        tensors=_compared(answers),
        worst=worst[1] or next(iter(late), ""),
    )


def _ranks(answers: Sequence[CollectiveGateAnswer], workload: CollectiveWorkload) -> Gate:
    """Every rank answered, and was added exactly once in each of its elements, on every rank."""
    off = [
        (one.count_error, f"rank {answer.rank}, {one.size} bytes: miscounted {', '.join(map(str, one.miscounted))}")
        for answer in answers
        for one in answer.sizes
        if one.miscounted
    ]
    here = sorted(answer.rank for answer in answers)
    whole = _complete(answers, workload)
    worst = max(off, key=lambda pair: float("inf") if pair[0] is None else pair[0], default=(0.0, ""))
    return Gate(
        passed=not off and whole,
        against=AGAINST,
        error=worst[0] if whole else None,
        tolerance=0.0,
        yardstick=f"each of {workload.ranks} ranks is added once in each of its elements",
        tensors=_compared(answers),
        worst=worst[1] or ("" if whole else f"answers of ranks {', '.join(map(str, here))} alone"),
    )


def _complete(answers: Sequence[CollectiveGateAnswer], workload: CollectiveWorkload) -> bool:
    """Whether there is one answer of each rank, about each size."""

    def sizes(checked: Sequence[SizeChecked]) -> tuple[int, ...]:
        return tuple(one.size for one in checked)

    ranks = sorted(answer.rank for answer in answers)
    return ranks == list(range(workload.ranks)) and all(sizes(a.sizes) == workload.timed for a in answers)


def _compared(answers: Sequence[CollectiveGateAnswer]) -> int:
    return sum(len(answer.sizes) for answer in answers)
