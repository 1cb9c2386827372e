"""From task outcomes to candidates: failures are results, what was not measured is null, skips are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sample_plans import plan_of, subject_of

from experiments.evidence.candidate import Candidate, Floor, Prediction
from experiments.evidence.rules.v1 import summary
from experiments.evidence.runtime_snapshot import collect
from experiments.harness import candidate_results, recording
from experiments.harness.experiment import CandidateSpec, Forecast
from experiments.harness.launch.outcome import Died, Outcome
from experiments.harness.plan import Plan
from experiments.harness.preparing import with_twin
from experiments.kinds.training_step.kind import KIND
from experiments.kinds.training_step.training_experiment import ForecastRequest
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT

TINY = subject_of("tiny-qwen2")
SUBJECT = replace(TINY, asset=replace(TINY.asset, config={**TINY.asset.config, "max_position_embeddings": 1024}))
WORKLOAD = TrainingWorkload(name="w", model="tiny-qwen2", batch=4, sequence=1024, steps=2, warmup=1, rounds=2)
SPECS = with_twin(
    (
        CandidateSpec(name="fp32", role="baseline", settings={"head": "full"}),
        CandidateSpec(name="bf16", role="candidate", settings={"head": "full"}, dtype="bfloat16"),
    )
)


@pytest.fixture
def plan() -> Plan[Any]:
    return replace(plan_of(EXPERIMENT), workload=WORKLOAD, specs=SPECS)


def ok(**result: Any) -> Outcome:
    return Outcome("ok", result, None, 0.1)


def measured(step_ms: list[float], **change: Any) -> Outcome:
    count = len(step_ms)
    result: dict[str, Any] = {
        "step_ms": step_ms,
        "wall_ms": step_ms,
        "busy_ms": None,
        "losses": [1.0] * count,
        "scales": [None] * count,
        "skipped": [False] * count,
        "not_finite": [],
        "peak_allocated": None,
        "peak_reserved": None,
        "process": None,
        "after_forward": None,
        "state": None,
        "phases": [],
        "notes": {"peer": None, "transferred_bytes": None},
    }
    return ok(**{**result, **change})


def gate(error: float | None = 1e-3, **change: Any) -> Outcome:
    errors = (
        None
        if error is None
        else {
            "overall": error,
            "worst": error,
            "worst_name": "w",
            "tensors": 3,
            "not_finite": [],
            "reference_norm": 1.0,
        }
    )
    result: dict[str, Any] = {
        "loss": 1.0,
        "not_finite": [],
        "gradient": errors,
        "update": errors,
        "oracle": errors,
        "weight_norm": 1.0,
        "update_norm": 1.0,
        "dtypes": {"parameter": "float32"},
        "underflow": {"below_normal": 0, "zeros": 0, "entries": 10},
        "scales": [],
        "skipped": False,
        "notes": {"peer": None, "transferred_bytes": None},
    }
    return ok(**{**result, **change})


def build(plan: Plan[Any], answers: dict[str, Outcome], name: str = "bf16", **change: Any) -> Candidate:
    experiment = replace(EXPERIMENT, **change) if change else EXPERIMENT
    return candidate_results.candidate(experiment, plan, SUBJECT, plan.spec(name), answers, None)


def died(status: Any, kind: str, phase: Any = "backward") -> Outcome:
    return Outcome(status, None, Died(phase, kind, "words"), 1.0)


def test_an_oom_is_a_result_with_its_phase_and_the_next_step_of_the_ladder(plan: Plan[Any]) -> None:
    answers = {"gate / bf16": gate(), "measure / bf16 / round 0": died("oom", "OutOfMemoryError")}
    found = build(plan, answers)
    assert found.status == "oom"
    assert found.failure is not None
    assert (found.failure.phase, found.failure.round) == ("backward", 0)
    assert found.failure.proposal == "--batch 4 --sequence 512 under a new --run-label"
    assert found.samples == ()
    assert found.memory is None


def test_a_kill_in_a_later_round_keeps_the_samples_before_it(plan: Plan[Any]) -> None:
    answers = {
        "gate / bf16": gate(),
        "measure / bf16 / round 0": measured([1.0, 2.0]),
        "measure / bf16 / round 1": died("failed", "Killed"),
    }
    found = build(plan, answers)
    assert found.status == "failed"
    assert [sample.values["step_ms"] for sample in found.samples] == [1.0, 2.0]


def test_a_loss_that_is_not_finite_is_a_failure(plan: Plan[Any]) -> None:
    answers = {"gate / bf16": gate(), "measure / bf16 / round 0": measured([1.0, 1.0], losses=[1.0, None])}
    found = build(plan, answers)
    assert found.failure is not None
    assert found.failure.kind == "NonFiniteLoss"
    assert "measured step 1" in found.failure.message


def test_a_skipped_step_may_lose_its_loss_and_never_counts_in_the_median(plan: Plan[Any]) -> None:
    result = measured([1.0, 99.0], losses=[1.0, None], skipped=[False, True], scales=[4.0, 4.0])
    found = build(plan, {"gate / bf16": gate(), "measure / bf16 / round 0": result})
    assert found.status == "ok"
    assert found.summary is not None
    assert (found.summary.samples, found.summary.skipped) == (1, 1)
    assert found.summary.median("step_ms") == 1.0


def test_nothing_measured_is_null_everywhere(plan: Plan[Any]) -> None:
    found = build(plan, {})
    assert (found.summary, found.memory, found.numerics) == (None, None, None)
    assert found.checks.finite is None
    assert "gradient" not in found.checks.gates
    assert found.marks == ("not_executed",)
    assert found.status == "failed"


def test_memory_that_is_known_in_part_stays_null_in_the_other(plan: Plan[Any]) -> None:
    result = measured([1.0], process=12_433 * 2**20)
    found = build(plan, {"gate / bf16": gate(), "measure / bf16 / round 0": result})
    assert found.memory is not None
    assert found.memory.process_bytes == 12_433 * 2**20
    assert found.memory.peak_allocated_bytes is None


def test_the_largest_of_the_rounds_is_the_peak_and_its_phase_is_named(plan: Plan[Any]) -> None:
    def result(peak: int) -> Outcome:
        phases = [{"phase": "forward", "peak": 5, "ms": 1.0}, {"phase": "loss_head", "peak": peak, "ms": 1.0}]
        return measured([1.0], peak_allocated=peak, phases=phases)

    answers = {"gate / bf16": gate(), "measure / bf16 / round 0": result(7), "measure / bf16 / round 1": result(9)}
    memory = build(plan, answers).memory
    assert memory is not None
    assert (memory.peak_allocated_bytes, memory.peak_phase) == (9, "loss_head")


def test_a_gradient_that_is_not_finite_fails_its_gates(plan: Plan[Any]) -> None:
    result = gate(None, not_finite=["w"])
    found = build(plan, {"gate / bf16": result, "measure / bf16 / round 0": measured([1.0])})
    assert found.checks.finite is False
    assert "gradient" in found.checks.gates
    assert found.checks.gates["gradient"].passed is False
    assert found.checks.gates["gradient"].error is None


def test_an_error_beyond_rounding_fails_and_the_repetition_widens_the_yardstick(plan: Plan[Any]) -> None:
    answers = {"gate / bf16": gate(0.5), "measure / bf16 / round 0": measured([1.0])}
    checks = build(plan, answers).checks
    assert "gradient" in checks.gates
    assert not checks.gates["gradient"].passed
    noisy = {**answers, "gate / fp32 (again)": gate(0.6)}
    checks = build(plan, noisy).checks
    assert "gradient" in checks.gates
    assert checks.gates["gradient"].passed
    assert "A/A error 6.0e-01" in checks.gates["gradient"].yardstick


def test_a_prediction_gets_its_residual_and_a_floor_its_distance(plan: Plan[Any]) -> None:
    def forecast(request: ForecastRequest) -> Forecast:
        step = Prediction(quantity="step_ms", formula="f", unit="ms", predicted=4.0)
        peak = Prediction(quantity="peak_allocated_bytes", formula="f", unit="bytes", predicted=8)
        floor = Floor(quantity="step_ms", limited_by="matmul rate", unit="ms", floor=2.0)
        return Forecast(predictions=(step, peak), floors=(floor,))

    answers = {"gate / bf16": gate(), "measure / bf16 / round 0": measured([5.0])}
    found = build(plan, answers, forecast=forecast)
    assert (found.predictions[0].measured, found.predictions[0].residual) == (5.0, 0.25)
    assert (found.predictions[1].measured, found.predictions[1].residual) == (None, None)
    assert found.floors[0].distance == 2.5


def test_a_card_that_waits_for_python_is_launch_bound(plan: Plan[Any]) -> None:
    answers = {"gate / bf16": gate(), "measure / bf16 / round 0": measured([10.0, 10.0], busy_ms=3.0)}
    assert "launch_bound" in build(plan, answers).marks
    answers["measure / bf16 / round 0"] = measured([10.0, 10.0], busy_ms=9.5)
    assert "launch_bound" not in build(plan, answers).marks


@pytest.mark.parametrize(("busy", "bound"), [(7.9, True), (8.1, False), (7.0, True), (9.0, False)])
def test_a_card_is_launch_bound_below_four_fifths_of_the_step(plan: Plan[Any], busy: float, bound: bool) -> None:
    """Both sides of the line, close to it and an eighth away: a line drawn at 0.6 calls 7.0 of 10 ms busy enough."""
    answers = {"gate / bf16": gate(), "measure / bf16 / round 0": measured([10.0, 10.0], busy_ms=busy)}
    assert ("launch_bound" in build(plan, answers).marks) is bound


def run_of(plan: Plan[Any], times: dict[str, list[list[float]]]) -> list[Candidate]:
    answers: dict[str, Outcome] = {}
    for name, rounds in times.items():
        answers[f"gate / {name}"] = gate()
        for number, values in enumerate(rounds):
            answers[f"measure / {name} / round {number}"] = measured(values)
    return [build(plan, answers, name) for name in times]


def test_a_difference_smaller_than_that_between_twins_is_no_difference(plan: Plan[Any]) -> None:
    """The same configuration differed by 20 % between its own two processes: 15 % faster means nothing here."""
    times = {"fp32": [[100.0] * 5] * 2, "fp32 (again)": [[120.0] * 5] * 2, "bf16": [[85.0] * 5] * 2}
    candidates = run_of(plan, times)
    (floor,) = [floor for floor in summary.noise_floors(candidates) if floor.quantity == "step_ms"]
    assert floor.relative == pytest.approx(0.2)
    (comparison,) = [entry for entry in summary.comparisons(candidates) if entry.quantity == "step_ms"]
    assert comparison.verdict not in ("faster", "slower")


def test_a_difference_beyond_the_noise_is_one(plan: Plan[Any]) -> None:
    times = {
        "fp32": [[100.0, 101.0, 99.0]] * 2,
        "fp32 (again)": [[100.5, 101.0, 99.5]] * 2,
        "bf16": [[50.0, 51.0, 49.0]] * 2,
    }
    (comparison,) = [e for e in summary.comparisons(run_of(plan, times)) if e.quantity == "step_ms"]
    assert comparison.verdict == "faster"


# Ratios to the baseline, peers, and what is not timed


def predicting(quantity: str) -> Any:
    """A page that predicts 1.25 x the baseline for every candidate."""
    entry = Prediction(quantity=quantity, formula="f", unit="ratio", predicted=1.25)
    return lambda request: Forecast(predictions=(entry,) if request.spec.role == "candidate" else ())


@pytest.mark.parametrize(("quantity", "ratio"), [("step_ratio", 1.5), ("busy_ratio", 1.1)])
def test_a_predicted_ratio_is_measured_once_all_candidates_are_there(
    plan: Plan[Any], quantity: str, ratio: float
) -> None:
    answers: dict[str, Outcome] = {}
    for name, step, busy in (("fp32", 100.0, 90.0), ("bf16", 150.0, 99.0)):
        answers[f"gate / {name}"] = gate()
        answers[f"measure / {name} / round 0"] = measured([step, step], busy_ms=busy)
    built = [build(plan, answers, name, forecast=predicting(quantity)) for name in ("fp32", "bf16")]
    assert built[1].predictions[0].measured is None, "one candidate alone knows no ratio"
    baseline, other = candidate_results.with_ratios(built, summary.comparisons(built), KIND.ratios)
    assert baseline.predictions == ()
    (found,) = other.predictions
    assert found.measured == pytest.approx(ratio)
    assert found.residual == pytest.approx(ratio / 1.25 - 1)


def test_a_ratio_to_nothing_stays_unmeasured_and_other_predictions_are_left_alone(plan: Plan[Any]) -> None:
    entries = (
        Prediction(quantity="step_ratio", formula="f", unit="ratio", predicted=1.25),
        Prediction(quantity="step_ms", formula="f", unit="ms", predicted=100.0),
    )
    answers = {"gate / bf16": gate(), "measure / bf16 / round 0": measured([150.0])}
    built = build(plan, answers, forecast=lambda request: Forecast(predictions=entries))
    (kept,) = candidate_results.with_ratios([built], summary.comparisons([built]), KIND.ratios)
    assert [entry.measured for entry in kept.predictions] == [None, 150.0]
    assert kept.predictions[0].residual is None


def test_a_whole_record_has_its_predicted_ratio_measured(plan: Plan[Any]) -> None:
    answers: dict[str, Outcome] = {}
    for name, step in (("fp32", 100.0), ("fp32 (again)", 100.0), ("bf16", 130.0)):
        answers[f"gate / {name}"] = gate()
        for number in range(2):
            answers[f"measure / {name} / round {number}"] = measured([step, step])
    experiment = replace(EXPERIMENT, forecast=predicting("step_ratio"))
    made = recording.record(experiment, plan, SUBJECT, answers, collect(), resumed=0, duration_s=1.0)
    (found,) = [entry for one in made.candidates for entry in one.predictions]
    assert (found.measured, found.residual) == (pytest.approx(1.3), pytest.approx(0.04))


def test_the_version_of_somebody_else_s_code_is_kept_with_the_settings(plan: Plan[Any]) -> None:
    peer = {"peer": "trl 1.16.0", "transferred_bytes": None}
    answers = {"gate / bf16": gate(notes=peer), "measure / bf16 / round 0": measured([1.0], notes=peer)}
    assert build(plan, answers).settings == {"head": "full", "peer": "trl 1.16.0"}
    assert "peer" not in build(plan, {"gate / bf16": gate()}).settings


def test_what_is_not_timed_is_done_when_its_gate_is(plan: Plan[Any]) -> None:
    specs = tuple(replace(spec, timed=spec.name != "bf16") for spec in plan.specs)
    untimed = replace(plan, specs=specs)
    assert not [task for task in untimed.tasks() if task.kind == "measure" and task.candidate == "bf16"]
    found = build(untimed, {"gate / bf16": gate()})
    assert (found.status, found.samples, found.summary) == ("ok", (), None)
    unfinished = build(untimed, {})
    assert unfinished.failure is not None
    assert unfinished.failure.message == "no gate task was finished"


@pytest.mark.parametrize(
    ("name", "checkpoint", "head", "marks"),
    [
        ("bf16", "all", "full", ("head_limited",)),
        ("bf16", "all", "chunked", ()),
        ("fp32", "all", "full", ()),  # the baseline has no mechanism that could move anything
        ("bf16", "unheard of", "full", ()),  # no formula, no verdict
    ],
)
def test_a_peak_that_the_loss_head_holds_is_marked(
    plan: Plan[Any], name: str, checkpoint: str, head: str, marks: tuple[str, ...]
) -> None:
    """The tiny model's vocabulary is three times its MLP: recomputing its layers leaves the head's tower standing."""
    settings = {"autocast": "bfloat16", "checkpoint": checkpoint, "head": head}
    specs = tuple(replace(spec, settings=settings) if spec.name == name else spec for spec in plan.specs)
    changed = replace(plan, specs=specs)
    seen = {f"gate / {name}": gate(), f"measure / {name} / round 0": measured([1.0], peak_allocated=10**9)}
    assert build(changed, seen, name).marks == marks
    unread = {f"gate / {name}": gate(), f"measure / {name} / round 0": measured([1.0])}
    assert build(changed, unread, name).marks == (), "on a CPU nobody knows a peak"


def test_the_twin_is_excused_by_rounding_alone_and_not_by_its_own_error(plan: Plan[Any]) -> None:
    """A baseline that does not repeat itself would otherwise widen every tolerance, its own first."""
    twin = build(plan, {"gate / fp32 (again)": gate(1.0)}, "fp32 (again)")
    assert "gradient" in twin.checks.gates
    assert "update" in twin.checks.gates
    assert not twin.checks.gates["gradient"].passed
    assert not twin.checks.gates["update"].passed
    assert "gradient" in build(plan, {"gate / fp32 (again)": gate(1e-7)}, "fp32 (again)").checks.gates


def test_a_plan_is_skipped_and_a_gate_nobody_ran_is_none(plan: Plan[Any]) -> None:
    dry = build(replace(plan, mode="dry_run"), {})
    assert (dry.status, dry.numerics) == ("skipped", None)
    assert dry.failure is not None
    assert dry.failure.kind == "DryRun"
    assert "gradient" not in build(plan, {"gate / bf16": gate(None)}).checks.gates
