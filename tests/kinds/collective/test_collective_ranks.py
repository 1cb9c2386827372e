"""The kind in real ranks over gloo: exact sums, faults that are caught, and a rank that dies or hangs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_collectives import SMALL, job_of

from experiments.evidence.codec import from_json
from experiments.harness.launch import doors
from experiments.harness.launch.outcome import Outcome
from experiments.kinds.collective import measuring
from experiments.kinds.collective.answers import CollectiveGateAnswer, CollectiveMeasureAnswer
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.kind import KIND

BROKEN = "broken_collectives"  # a worker module of the tests
SHORT_S = 1.5  # a rank that hangs is waited for no longer


def ran(
    name: str, kind: str = "gate", workload: CollectiveWorkload = SMALL, worker: str | None = None, **limits: float
) -> Outcome:
    job = job_of(name, kind, workload) if worker is None else job_of(name, kind, workload, worker)
    return doors.run(job, KIND.launch(workload), time_limit_s=120, **limits)


def gates(outcome: Outcome) -> list[CollectiveGateAnswer]:
    assert outcome.died is None, outcome.died
    return [from_json(CollectiveGateAnswer, answer) for answer in (outcome.result, *outcome.others)]


@pytest.mark.parametrize("name", ["all_reduce", "ring"])
@pytest.mark.parametrize(("ranks", "dtype"), [(2, "float32"), (3, "bfloat16"), (4, "float64")])
def test_both_forms_are_exact_in_every_element_on_every_rank(name: str, ranks: int, dtype: str) -> None:
    answers = gates(ran(name, workload=replace(SMALL, ranks=ranks, dtype=dtype)))
    assert [answer.rank for answer in answers] == list(range(ranks))
    for answer in answers:
        assert answer.process_group == "gloo"
        assert [one.size for one in answer.sizes] == list(SMALL.timed)
        assert all(one.wrong == 0 and one.miscounted == () and one.finite for one in answer.sizes)


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", ["ring, a chunk forgotten", "ring, a rank added twice"])
def test_both_controls_are_caught_by_sums_and_by_counts(name: str, ranks: int) -> None:
    for answer in gates(ran(name, workload=replace(SMALL, ranks=ranks))):
        for one in answer.sizes:
            assert 0 < one.wrong <= -(-one.elements // ranks)  # one chunk, which every rank ends up with
            assert one.error
            assert one.miscounted
            assert one.count_error


def test_a_rank_that_is_left_out_is_the_one_that_is_not_counted() -> None:
    for answer in gates(ran("left out", worker=BROKEN)):
        for one in answer.sizes:
            assert one.wrong == one.elements
            assert one.miscounted == (1,)


def test_numbers_that_are_not_finite_are_said_to_be_so() -> None:
    for answer in gates(ran("infinite", worker=BROKEN)):
        assert not any(one.finite for one in answer.sizes)
        assert {one.error for one in answer.sizes} == {None}


def test_measuring_gives_each_rank_a_time_for_each_repetition_and_size() -> None:
    outcome = ran("ring", "measure")
    assert outcome.died is None
    answers = [from_json(CollectiveMeasureAnswer, answer) for answer in (outcome.result, *outcome.others)]
    assert [answer.rank for answer in answers] == [0, 1]
    for answer in answers:
        assert {int(size): len(spans) for size, spans in answer.ms.items()} == dict.fromkeys(SMALL.timed, SMALL.steps)
        assert all(span > 0 for spans in answer.ms.values() for span in spans)
        assert (answer.wrong, answer.not_finite) == ({}, {})


def test_a_wrong_sum_in_a_timed_repetition_is_counted() -> None:
    outcome = ran("ring, a chunk forgotten", "measure")
    assert outcome.result is not None
    answer = from_json(CollectiveMeasureAnswer, outcome.result)
    assert set(answer.wrong) == {str(size) for size in SMALL.timed}


def test_ranks_draw_one_order_and_rounds_another() -> None:
    first, again, other = (list(measuring.orders(SMALL, round)) for round in (0, 0, 1))
    assert first == again != other
    assert len(first) == SMALL.warmup + SMALL.steps
    assert all(sorted(order) == list(SMALL.timed) for order in first)


@pytest.mark.parametrize(("form", "kind"), [("killed", "Killed"), ("raises", "ValueError")])
def test_a_rank_that_dies_is_the_candidate_s_failure_and_is_named(form: str, kind: str) -> None:
    outcome = ran(form, worker=BROKEN, rank_limit_s=SHORT_S)
    assert outcome.status == "failed"
    assert outcome.died is not None
    assert outcome.died.kind == kind
    assert outcome.died.phase == "exchange"
    assert outcome.died.message.startswith("rank 1: ")


def test_a_rank_that_hangs_is_the_candidate_s_failure_and_is_named() -> None:
    outcome = ran("hangs", worker=BROKEN, rank_limit_s=SHORT_S)
    assert outcome.status == "failed"
    assert outcome.died is not None
    assert outcome.died.kind == "TimeLimit"
    assert outcome.died.message.startswith("rank 1: no word within")
