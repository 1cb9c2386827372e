"""The all-reduce page: what it concludes from which times and gates, how that is graded, and its table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_collectives import CPU, SMALL, gate_answer, outcomes, plan_of, record_of, wrong_controls
from sample_observed import CARD

from experiments.evidence import record_text
from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim
from experiments.evidence.record import Record
from experiments.evidence.runtime_snapshot import collect
from experiments.harness import recording
from experiments.harness.experiment import Observed
from experiments.harness.launch.outcome import Died, Outcome
from experiments.kinds.collective import concluding
from experiments.kinds.collective.kind import KIND
from experiments.parallelism.all_reduce_cost.experiment import EXPERIMENT

UNSEEN = SMALL.unseen


def line(name: str, size: int) -> float:
    """A cost that is a line, within a percent; the ring twice as dear."""
    return (2 if name == "ring" else 1) * (0.4 + 1e-5 * size) * (1.01 if size == 1024 else 1.0)


def missed(name: str, size: int) -> float:
    """The same, but for the unseen size of the ring and of the library."""
    return line(name, size) * (3 if size == UNSEEN and name in ("ring", "all_reduce") else 1)


def claims(record: Record, kind: str) -> list[Claim]:
    return [claim for claim in record.claims if claim.kind == kind]


def of(record: Record, name: str) -> Candidate:
    return next(candidate for candidate in record.candidates if candidate.name == name)


# Claims and their grade


def test_a_cost_that_predicts_the_unseen_size_is_claimed_with_its_interval() -> None:
    record = record_of(line)
    found = claims(record, "cost_model")
    assert [claim.candidates for claim in found] == [("all_reduce",), ("ring",)]
    assert "costs 0.402 ms + 9.89 ns/byte over 2 ranks; at 8192 bytes" in found[0].statement
    assert "lie inside" in found[0].statement
    assert {claim.level for claim in found} == {"cpu_mechanism"}
    assert {limit.code for limit in found[0].limits} == {"cpu_only", "expectation"}
    assert not any(candidate.marks for candidate in record.candidates)


def test_times_that_scatter_too_much_are_not_said_to_hold() -> None:
    def scattered(name: str, size: int) -> float:
        return line(name, size) * (1.5 if size in (256, 4096) else 0.5 if size in (1024, 16384) else 1.0)

    found = claims(record_of(scattered), "cost_model")
    assert [claim.candidates for claim in found] == [("all_reduce",), ("ring",)]
    assert all("times scatter too much to test a line" in claim.statement for claim in found)


@pytest.mark.parametrize("device", [CPU, CARD], ids=["cpu", "card"])
def test_a_prediction_that_is_missed_is_marked_and_its_claim_is_limited(device: object) -> None:
    record = record_of(missed, device=device)  # type: ignore[arg-type]
    found = claims(record, "cost_model")
    assert ["no line through the ladder holds" in claim.statement for claim in found] == [True, True]
    assert {claim.level for claim in found} == {record.evidence_level}
    for claim in found:
        (limit,) = (limit for limit in claim.limits if limit.code == "prediction_missed")
        assert limit.reason == f"measured outside what a formula states for: {claim.candidates[0]}"
    others = [claim for claim in record.claims if claim.kind != "cost_model"]
    assert others
    assert not any("prediction_missed" in {limit.code for limit in claim.limits} for claim in others)
    assert of(record, "ring").marks == of(record, "all_reduce").marks == ("prediction_missed",)
    assert of(record, "all_reduce (again)").marks == ()
    assert claims(record, "sums_exact")[0].level == "cpu_mechanism"  # sums are exact whatever they cost


def test_the_prediction_has_what_was_measured_beside_it() -> None:
    (prediction,) = of(record_of(missed), "ring").predictions
    assert (prediction.quantity, prediction.formula) == (f"ms_at_{UNSEEN}", "alpha + beta bytes")
    assert prediction.measured == pytest.approx(missed("ring", UNSEEN))
    assert prediction.residual == pytest.approx(2.0, abs=0.05)


def test_exact_sums_are_claimed_with_the_controls_that_were_caught() -> None:
    (claim,) = claims(record_of(line), "sums_exact")
    assert claim.candidates == ("all_reduce", "ring")
    assert claim.rests_on == ("sums", "ranks")
    assert claim.statement.endswith("caught: ring, a chunk forgotten; ring, a rank added twice")
    assert "each of 2 ranks, at 5 sizes from 256 to 16384 bytes" in claim.statement


def test_a_control_that_passes_is_not_said_to_be_caught_and_limits_the_record() -> None:
    record = record_of(line, gates={name: {} for name in wrong_controls()})
    (claim,) = claims(record, "sums_exact")
    assert "caught" not in claim.statement
    (limit,) = (limit for limit in record.limits if limit.code == "control_not_caught")
    assert limit.claims == ("sums_exact",)
    assert limit in claim.limits
    assert not any(limit in other.limits for other in claims(record, "cost_model"))


# Decisions


def test_on_a_cpu_the_sums_decide_and_no_time_is_claimed() -> None:
    record = record_of(line)
    assert record.decision.code == "numerics_ok"
    assert claims(record, "time") == []


@pytest.mark.parametrize(("factor", "code"), [(2.0, "avoid"), (0.5, "adopt"), (1.0, "equivalent")])
def test_on_cards_the_largest_size_decides(factor: float, code: str) -> None:
    record = record_of(lambda name, size: line("all_reduce", size) * (factor if name == "ring" else 1), device=CARD)
    assert record.decision.code == code
    assert record.decision.sentence.endswith("own." if code == "equivalent" else "16384 bytes.")
    assert len(claims(record, "time")) == 1


def test_one_round_alone_decides_nothing_on_cards() -> None:
    record = record_of(line, replace(SMALL, rounds=1), device=CARD)
    assert record.decision.code == "inconclusive"


@pytest.mark.parametrize("name", ["all_reduce", "ring", "all_reduce (again)"])
def test_a_wrong_sum_ends_everything(name: str) -> None:
    record = record_of(line, gates={name: {1: gate_answer(1, wrong=1, error=0.1, first_wrong=0)}}, device=CARD)
    assert record.decision.code == "numerics_broken"
    assert name in record.decision.sentence
    assert all(name not in claim.candidates for claim in record.claims)


def test_a_gate_that_nobody_ran_is_named_and_is_no_wrong_sum() -> None:
    record = record_of(line)
    asked = tuple(
        replace(one, checks=replace(one.checks, wanted=(*one.checks.wanted, "magic"))) for one in record.candidates
    )
    _, decision = EXPERIMENT.conclude(Observed(SMALL, CPU, asked, record.comparisons))
    assert (decision.code, decision.sentence) == (
        "inconclusive",
        "Nothing here may be believed: magic was wanted and never run.",
    )


def test_a_rank_that_hung_leaves_nothing_to_compare() -> None:
    plan = plan_of()
    answers = {task: done for task, done in outcomes(plan, line, {}).items() if not task.startswith("measure / ring /")}
    answers["gate / ring"] = Outcome("failed", None, Died("exchange", "TimeLimit", "rank 1: no word within 1 s"), 1.0)
    record = recording.record(EXPERIMENT, plan, None, answers, collect(), resumed=0, duration_s=1.0)
    ring = of(record, "ring")
    assert ring.status == "failed"
    assert ring.failure is not None
    assert ring.failure.message == "gate: rank 1: no word within 1 s"
    assert record.decision.code == "inconclusive"
    assert "ring: TimeLimit in exchange" in record.decision.sentence
    assert "failed in exchange: TimeLimit" in EXPERIMENT.table(record).rows[2]


def test_gates_that_are_wanted_and_absent_do_not_hold() -> None:
    ring = of(record_of(line), "ring")
    assert concluding.gates_hold(ring)
    assert not concluding.gates_hold(replace(ring, checks=replace(ring.checks, gates={})))
    assert not concluding.gates_hold(replace(ring, checks=replace(ring.checks, finite=None)))


# The table


def test_the_table_shows_the_line_the_interval_and_who_was_caught() -> None:
    table = EXPERIMENT.table(record_of(missed))
    rows = {row[0]: row for row in table.rows}
    assert len({len(row) for row in (*table.rows, table.columns)}) == 1
    assert rows["ring"][-2].endswith(", missed")
    assert not rows["all_reduce (again) (A/A)"][-2].endswith("missed")
    assert [row[-1] for row in table.rows] == ["exact", "exact", "exact", "wrong, caught", "wrong, caught"]


def test_a_record_with_a_missed_prediction_can_be_shown() -> None:
    _, rows = record_text.table(record_of(missed), KIND.words.marks)
    assert any("prediction missed" in cell for row in rows for cell in row)
