"""From answers of ranks to gates, samples and marks: what fails, and which number is a repetition's."""

from __future__ import annotations

from typing import Any

import pytest
from sample_collectives import SMALL, gate_answer, measure_answer, plan_of

from experiments.evidence.candidate import Checks
from experiments.harness.kind import Answered, Seen
from experiments.harness.schedule import Task
from experiments.kinds.collective import findings
from experiments.kinds.collective.answers import CollectiveGateAnswer, CollectiveMeasureAnswer
from experiments.parallelism.all_reduce_cost.experiment import EXPERIMENT


def seen(*gates: CollectiveGateAnswer, measured: tuple[CollectiveMeasureAnswer, ...] = ()) -> findings.SeenCollective:
    """The ring, with these answers of its ranks."""
    plan = plan_of()
    tasks = [Task(kind="gate", candidate="ring"), Task(kind="measure", candidate="ring", round=1, position=2)]
    return Seen(
        experiment=EXPERIMENT,
        plan=plan,
        subject=None,
        spec=plan.spec("ring"),
        gate=Answered(tasks[0], gates[0], gates) if gates else None,
        measured=(Answered(tasks[1], measured[0], measured),) if measured else (),
        probes={},
        calibration=None,
        twin=None,
    )


def checks(*gates: CollectiveGateAnswer, measured: tuple[CollectiveMeasureAnswer, ...] = ()) -> Checks:
    return findings.findings(seen(*gates, measured=measured)).checks


def passed(found: Checks) -> dict[str, bool]:
    return {name: gate.passed for name, gate in found.gates.items()}


def test_everything_right_passes_with_an_error_of_zero() -> None:
    found = checks(gate_answer(0), gate_answer(1))
    assert found.finite is True
    assert passed(found) == {"sums": True, "ranks": True}
    assert {gate.error for gate in found.gates.values()} == {0.0}


def test_one_wrong_element_on_one_rank_fails_and_is_named() -> None:
    found = checks(gate_answer(0), gate_answer(1, wrong=1, error=1e-9, first_wrong=77))
    assert passed(found) == {"sums": False, "ranks": True}
    assert found.gates["sums"].worst == "rank 1, 16384 bytes: 1 of 4096 elements, first 77"
    assert found.gates["sums"].error == 1e-9


def test_a_rank_that_was_counted_twice_or_never_fails() -> None:
    found = checks(gate_answer(0, miscounted=(1,), count_error=0.5), gate_answer(1))
    assert passed(found) == {"sums": True, "ranks": False}
    assert found.gates["ranks"].worst == "rank 0, 16384 bytes: miscounted 1"


@pytest.mark.parametrize("answers", [(gate_answer(0),), (gate_answer(0), gate_answer(0))])
def test_a_rank_that_did_not_answer_fails_both(answers: tuple[CollectiveGateAnswer, ...]) -> None:
    found = checks(*answers)
    assert passed(found) == {"sums": False, "ranks": False}
    assert "alone" in found.gates["ranks"].worst
    assert found.gates["ranks"].error is None


def test_a_size_that_was_left_out_fails() -> None:
    short = gate_answer(1)
    found = checks(gate_answer(0), CollectiveGateAnswer(rank=1, process_group="gloo", sizes=short.sizes[:-1]))
    assert passed(found) == {"sums": False, "ranks": False}


def test_what_is_not_finite_has_no_error_and_fails() -> None:
    found = checks(gate_answer(0, wrong=4096, error=None, first_wrong=0, finite=False), gate_answer(1))
    assert found.finite is False
    assert found.not_finite == ("rank 0, 16384 bytes",)
    assert found.gates["sums"].passed is False
    assert found.gates["sums"].error is None


@pytest.mark.parametrize(
    ("changes", "finite"), [({"wrong": {"1024": 2}}, True), ({"wrong": {"1024": 2}, "not_finite": {"1024": 1}}, False)]
)
def test_a_sum_that_is_wrong_in_a_timed_repetition_alone_fails(changes: dict[str, Any], finite: bool) -> None:
    late = measure_answer(1, lambda size: 1.0, SMALL, **changes)
    found = checks(gate_answer(0), gate_answer(1), measured=(measure_answer(0, lambda size: 1.0, SMALL), late))
    assert passed(found) == {"sums": False, "ranks": True}
    assert found.finite is finite
    assert found.gates["sums"].worst == "rank 1, 1024 bytes: 2 repetitions of round 1"


def test_gates_that_were_not_run_are_wanted_and_absent() -> None:
    found = checks()
    assert found.finite is None
    assert found.gates == {}
    assert found.wanted == ("finite", "sums", "ranks")


def test_a_repetition_lasts_as_long_as_its_slowest_rank() -> None:
    slow = measure_answer(1, lambda size: 4.0 if size == 256 else 1.0, SMALL)
    fast = measure_answer(0, lambda size: 2.0, SMALL)
    samples = findings.findings(seen(gate_answer(0), gate_answer(1), measured=(fast, slow))).samples
    assert len(samples) == SMALL.steps
    assert (samples[0].round, samples[0].position, samples[2].step) == (1, 2, 2)
    values = samples[0].values
    assert (values["ms_at_256"], values["ms_at_8192"], values["ms_at_16384"]) == (4.0, 2.0, 2.0)
    assert values["collective_ms"] == values["ms_at_16384"]
    assert values["algorithm_gb_per_s"] == pytest.approx(16384 / 2.0 / 1e6)
    assert values["bus_gb_per_s"] == values["algorithm_gb_per_s"]  # of two ranks
    assert len(values) == 3 + len(SMALL.timed)


def test_the_library_that_carried_the_tensors_is_among_the_settings() -> None:
    assert findings.findings(seen(gate_answer(0), gate_answer(1))).settings == {"process_group": "gloo"}
    assert findings.findings(seen()).settings == {}
