"""The gates of an operation, on real candidates and on ones with a fault planted: which gate sees which fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import stages
import torch
from operator_bench import OperatorBench
from torch import Tensor

from experiments.evidence.codec import to_json
from experiments.harness import candidate_results
from experiments.harness.launch.outcome import Outcome
from experiments.harness.schedule import Task
from experiments.kinds.operator.answers import OperatorMeasureAnswer
from experiments.kinds.operator.findings import work_gate
from experiments.kinds.operator.kind import KIND
from experiments.kinds.operator.operation import Operation
from experiments.quantization.int8_weight_product.experiment import EXPERIMENT

DEQUANTISED, AFTER, CONTROL = "int8 dequantised", "int8 scaled after", "int8 neighbour's scale"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> OperatorBench:
    return OperatorBench(EXPERIMENT, tmp_path_factory.mktemp("scratch"))


def changed(bench: OperatorBench, name: str, change: Callable[[Tensor], Tensor]) -> Operation:
    """The candidate, its output changed behind it."""
    operation = bench.operation(name)
    return Operation(operation.given, lambda x: change(operation.call(x)))


@pytest.mark.parametrize("name", [DEQUANTISED, AFTER, "dense (again)"])
def test_every_candidate_holds_every_gate_that_is_wanted_of_it(bench: OperatorBench, name: str) -> None:
    checks = bench.checks(name)
    assert checks.finite
    assert set(checks.gates) == {"value", "dense", "work"} == set(checks.wanted) - {"finite"}
    assert all(gate.passed for gate in checks.gates.values())


def test_the_baseline_is_compared_with_float64_alone(bench: OperatorBench) -> None:
    checks = bench.checks("dense")
    assert set(checks.gates) == {"value", "work"} == set(checks.wanted) - {"finite"}
    assert all(gate.passed for gate in checks.gates.values())


@pytest.mark.parametrize("shape", [(1, 1, 2), (1, 1024, 2), (7, 3, 1500), (64, 257, 31)], ids=str)
def test_the_gates_hold_at_other_shapes_and_seeds(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    rows, in_features, out_features = shape
    for seed in range(stages.count(60)):
        other = OperatorBench(
            EXPERIMENT, tmp_path / str(seed), rows=rows, in_features=in_features, out_features=out_features, seed=seed
        )
        assert [other.failed(name) for name in (DEQUANTISED, AFTER)] == [set(), set()]
        assert other.failed(CONTROL) == {"value", "dense"}


def test_the_neighbours_scale_is_caught_by_its_values_and_does_its_work(bench: OperatorBench) -> None:
    assert bench.failed(CONTROL) == {"value", "dense"}


@pytest.mark.parametrize("name", [DEQUANTISED, AFTER])
def test_the_plain_dense_call_in_a_candidates_place_is_seen_by_its_work_alone(bench: OperatorBench, name: str) -> None:
    assert bench.failed(name, bench.operation("dense")) == {"work"}
    assert bench.checks(name, bench.operation("dense")).gates["work"].worst == "int8_read"


def test_one_form_in_the_place_of_the_other_is_seen_by_its_work(bench: OperatorBench) -> None:
    assert bench.failed(DEQUANTISED, bench.operation(AFTER)) == {"work"}
    assert bench.failed(AFTER, bench.operation(DEQUANTISED)) == {"work"}


def test_a_dense_weight_that_is_kept_and_read_besides_is_seen(bench: OperatorBench) -> None:
    spare = torch.ones(bench.plan.workload.out_features, bench.plan.workload.in_features)
    assert bench.failed(AFTER, changed(bench, AFTER, lambda out: out + 0 * spare.sum())) == {"work"}


def test_one_channel_that_is_one_percent_off_is_seen(bench: OperatorBench) -> None:
    factor = torch.ones(bench.plan.workload.out_features)
    factor[5] = 1.01
    assert {"value", "dense"} <= bench.failed(AFTER, changed(bench, AFTER, lambda out: out * factor))


def test_a_sum_kept_in_bfloat16_is_seen(bench: OperatorBench) -> None:
    rounded = changed(bench, AFTER, lambda out: out.bfloat16().float())
    assert bench.failed(AFTER, rounded) == {"value", "dense"}


def test_an_output_that_is_not_finite_is_not_compared_with_anything(bench: OperatorBench) -> None:
    checks = bench.checks(AFTER, changed(bench, AFTER, lambda out: out / torch.zeros(())))
    assert checks.finite is False
    assert checks.not_finite == ("output",)
    assert not checks.gates["value"].passed
    assert checks.gates["value"].error is None


@pytest.mark.parametrize(
    "change",
    [lambda out: out.double(), lambda out: out.T, lambda out: torch.cat([out, out])],
    ids=["float64", "T", "2"],
)
def test_an_output_of_another_shape_or_format_is_no_output(
    bench: OperatorBench, change: Callable[[Tensor], Tensor]
) -> None:
    with pytest.raises(ValueError, match="an output of shape"):
        bench.checks(AFTER, changed(bench, AFTER, change))


def test_what_is_measured_is_counted_too(bench: OperatorBench) -> None:
    """A process that quietly ran something else while it was timed fails the same gate."""
    honest = {word: int(str(number)) for word, number in bench.plan.spec(AFTER).settings["work"].items()}  # type: ignore[union-attr]
    timed = OperatorMeasureAnswer(
        call_ms=(1.0, 2.0),
        wall_ms=(1.1, 2.1),
        busy_ms=None,
        peak_allocated=None,
        peak_reserved=None,
        process=None,
        finite=True,
        work=honest,
    )
    bench.candidate(AFTER)

    def gates_of(answer: OperatorMeasureAnswer) -> object:
        gate = Task(kind="gate", candidate=AFTER)
        measured = Task(kind="measure", candidate=AFTER, round=0, position=1)
        answers = {
            gate.id: bench.gate(AFTER, bench.operation(AFTER)),
            measured.id: Outcome("ok", to_json(answer), None, 0.0),
        }
        plan = replace(bench.plan, workload=replace(bench.plan.workload, rounds=1))
        return candidate_results.candidate(EXPERIMENT, plan, None, bench.plan.spec(AFTER), answers, None)

    made = gates_of(timed)
    assert made.checks.gates["work"].passed  # type: ignore[attr-defined]
    assert [sample.values.get("weight_bytes") for sample in made.samples] == [None, honest["weight_bytes"]]  # type: ignore[attr-defined]
    assert made.samples[0].values["tflop_per_s"] == pytest.approx(honest["flops"] / 1e-3 / 1e12)  # type: ignore[attr-defined]
    other = gates_of(replace(timed, work={**honest, "int8_read": 0}))
    assert (other.checks.gates["work"].passed, other.checks.gates["work"].worst) == (False, "int8_read")  # type: ignore[attr-defined]


def test_work_that_nobody_declared_is_no_gate_and_then_it_is_missing() -> None:
    assert work_gate(None, [{"flops": 1}]) is None
    assert work_gate({}, [{"flops": 1}]) is None
    assert "work" in KIND.wanted("candidate")


def test_a_word_that_only_one_side_has_fails() -> None:
    for declared, counted in (({"flops": 1, "calls": 2}, {"flops": 1}), ({"flops": 1}, {"flops": 1, "int8_read": 3})):
        gate = work_gate(declared, [counted])  # type: ignore[arg-type]
        assert gate is not None
        assert (gate.passed, gate.error) == (False, 1.0)
