"""From the finished tasks of one candidate to what the record says of it: samples, memory, gates, forecasts. Pure.

A task that failed is the candidate's failure; a number that nobody measured stays None and never becomes 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from experiments.evidence import earlier_shapes
from experiments.evidence.candidate import (
    Candidate,
    Checks,
    Failure,
    Floor,
    Gate,
    Memory,
    PhasePeak,
    Prediction,
    Sample,
)
from experiments.evidence.codec import from_json
from experiments.evidence.conclusion import Comparison
from experiments.evidence.record import Calibration, Quantity
from experiments.evidence.rules import CURRENT
from experiments.evidence.vocabulary import CandidateStatus, JsonValue, Mark
from experiments.harness.experiment import Answer, CandidateSpec, Experiment, Forecast, ForecastRequest
from experiments.harness.fork import Outcome
from experiments.harness.plan import Plan
from experiments.harness.schedule import ORACLE, Task
from experiments.kinds.training_step import gate_bounds
from experiments.kinds.training_step.ledger import ledger
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.training_workload import shorter
from experiments.models.registered_config import DecoderShape

QUANTITIES = tuple(from_json(Quantity, dict(quantity)) for quantity in earlier_shapes.TRAINING_STEP)
OWN, WANTED = ("finite",), ("finite", "gradient", "update")  # gates of the baseline, and of whoever is compared with it
LAUNCH_BOUND_SHARE = 0.8  # a card busy for less than this share of the step waits for Python to launch

Answers = Mapping[str, Outcome]  # task id -> outcome


def candidate(
    experiment: Experiment,
    plan: Plan,
    shape: DecoderShape,
    spec: CandidateSpec,
    answers: Answers,
    calibration: Calibration | None,
    repeated: Mapping[str, float | None],
) -> Candidate:
    mine = {task: answers[task.id] for task in plan.tasks() if task.candidate == spec.name and task.id in answers}
    gate = next((outcome.result for task, outcome in mine.items() if task.kind == "gate"), None)
    probes: dict[str, Answer] = {
        task.probe: outcome.result for task, outcome in mine.items() if task.probe and outcome.result is not None
    }
    measured = [(task, outcome.result) for task, outcome in mine.items() if task.kind == "measure" and outcome.result]
    samples = tuple(sample for task, result in measured for sample in _samples(task, result))
    status, failure = _status(plan, spec, mine)
    memory = _memory([result for _, result in measured])
    numerics = None if plan.mode == "dry_run" else experiment.numerics(spec, gate, probes)
    candidate = Candidate(
        name=spec.name,
        role=spec.role,
        settings={**spec.settings, **_peer([gate, *(result for _, result in measured)])},
        status=status,
        samples=samples,
        summary=CURRENT.summarise(spec.name, samples, QUANTITIES),
        memory=memory,
        checks=_checks(plan, spec, shape, gate, [result for _, result in measured], repeated),
        numerics=numerics,
        probes={name: answer for name, answer in probes.items() if name not in experiment.told_in_numerics},
        failure=failure,
        marks=_marks(plan, spec, shape, memory, executed=bool(mine)),
    )
    request = ForecastRequest(
        spec=spec,
        workload=plan.workload,
        shape=shape,
        device=plan.device,
        calibration=calibration,
        transferred_bytes=memory.transferred_bytes if memory else None,
    )
    return _with_forecast(candidate, experiment.forecast(request))


def _marks(
    plan: Plan, spec: CandidateSpec, shape: DecoderShape, memory: Memory | None, *, executed: bool
) -> tuple[Mark, ...]:
    """What a reader has to know before the numbers: nothing was executed, or the loss head holds the peak.

    Where in a backward the peak falls is not seen from outside; the ledger says when it is the head's own.
    """
    if not executed:
        return ("not_executed",)
    settings = for_candidate(plan.workload, spec.settings)
    if spec.role != "candidate" or memory is None or memory.peak_allocated_bytes is None or settings is None:
        return ()
    limited = settings.head == "full" and ledger.forecast(shape, settings).head_limited
    return ("head_limited",) if limited else ()


def _status(plan: Plan, spec: CandidateSpec, mine: Mapping[Task, Outcome]) -> tuple[CandidateStatus, Failure | None]:
    if spec.unavailable is not None:
        return "skipped", Failure(phase="import", kind="NotAvailable", message=spec.unavailable)
    if plan.mode == "dry_run":
        return "skipped", Failure(phase="import", kind="DryRun", message="planned, not executed")
    for task, outcome in mine.items():
        if outcome.died is not None:
            died = outcome.died
            smaller = shorter(plan.workload) if outcome.status == "oom" else None
            return ("oom" if outcome.status == "oom" else "failed"), Failure(
                phase=died.phase,
                kind=died.kind,
                message=f"{task.kind}: {died.message}",
                round=task.round,
                proposal=None
                if smaller is None
                else f"--batch {smaller.batch} --sequence {smaller.sequence} under a new --run-label",
            )
    for task, outcome in mine.items():
        lost = _first_lost_loss(task, outcome)
        if lost is not None:
            return "failed", Failure(phase="loss_head", kind="NonFiniteLoss", message=lost, round=task.round)
    wanted = "measure" if spec.timed else "gate"
    if not any(task.kind == wanted for task in mine):
        return "failed", Failure(phase="other", kind="NotRun", message=f"no {wanted} task was finished")
    return "ok", None


def _peer(answers: list[Any]) -> dict[str, JsonValue]:
    """Which version of somebody else's code took part, as a process that loaded it found out."""
    told = (answer["notes"].get("peer") for answer in answers if answer is not None)
    return next(({"peer": peer} for peer in told if peer), {})


def _first_lost_loss(task: Task, outcome: Outcome) -> str | None:
    """Where a loss was NaN or infinite in an ordinary step. A skipped step may have one: the scaler caught it."""
    if task.kind != "measure" or outcome.result is None:
        return None
    result: Any = outcome.result
    for step, (loss, skipped) in enumerate(zip(result["losses"], result["skipped"], strict=True)):
        if loss is None and not skipped:
            return f"loss is not finite at measured step {step}"
    return None


def _samples(task: Task, result: Any) -> list[Sample]:
    count = len(result["step_ms"])
    busy = [None] * (count - 1) + [result["busy_ms"]]  # one profiled step stands beside the last timed one
    return [
        Sample(
            round=task.round or 0,
            position=task.position or 0,
            step=step,
            values=_present(
                step_ms=result["step_ms"][step],
                wall_ms=result["wall_ms"][step],
                busy_ms=busy[step],
                loss=result["losses"][step],
                loss_scale=result["scales"][step],
            ),
            skipped=result["skipped"][step],
        )
        for step in range(count)
    ]


def _present(**values: float | None) -> dict[str, float]:
    """Those that are known: a value nobody has is absent, never zero."""
    return {word: float(value) for word, value in values.items() if value is not None}


def _memory(results: list[Any]) -> Memory | None:
    """The largest of each over the processes; None where no process could tell anything."""

    def largest(key: str) -> int | None:
        return max((result[key] for result in results if result[key] is not None), default=None)

    peaks: dict[str, int] = {}
    for result in results:
        for phase in result["phases"]:
            if phase["peak"] is not None:
                peaks[phase["phase"]] = max(phase["peak"], peaks.get(phase["phase"], 0))
    memory = Memory(
        peak_allocated_bytes=largest("peak_allocated"),
        peak_reserved_bytes=largest("peak_reserved"),
        process_bytes=largest("process"),
        after_forward_bytes=largest("after_forward"),
        state_bytes=largest("state"),
        peak_phase=max(peaks, key=peaks.__getitem__) if peaks else None,
        phases=tuple(PhasePeak(phase=phase, peak_allocated_bytes=peak) for phase, peak in peaks.items()),
        transferred_bytes=max(
            (r["notes"]["transferred_bytes"] for r in results if "transferred_bytes" in r["notes"]), default=None
        ),
    )
    return None if memory == Memory() else memory


def _checks(
    plan: Plan,
    spec: CandidateSpec,
    shape: DecoderShape,
    gate: Any,
    measured: list[Any],
    repeated: Mapping[str, float | None],
) -> Checks:
    wanted = OWN if spec.role == "baseline" else WANTED
    if gate is None:
        return Checks(wanted=wanted)
    lost = [*gate["not_finite"], *(name for result in measured for name in result["not_finite"])]
    bound = gate_bounds.rounding_bound(spec.dtype, shape, plan.workload.tokens)
    update = gate_bounds.update_bound(
        bound, plan.workload.optimizer, gate["weight_norm"] or 0.0, gate["update_norm"] or 0.0
    )
    formula = f"{spec.dtype} roundings of {shape.layers} layers"
    baseline = next((other.name for other in plan.specs if other.role == "baseline"), "baseline")
    if spec.role == "baseline_again":
        repeated = {"gradient": None, "update": None}  # it is what this error comes from: rounding alone may excuse it
    gates_run = {"oracle": _gate(gate["oracle"], ORACLE, bound, None, formula, bool(lost))}
    if spec.role != "baseline":
        first = f"{formula}, first update"
        gates_run = {
            "gradient": _gate(gate["gradient"], baseline, bound, repeated["gradient"], formula, bool(lost)),
            "update": _gate(gate["update"], baseline, update, repeated["update"], first, bool(lost)),
            **gates_run,
        }
    return Checks(
        finite=not lost and gate["loss"] is not None,
        not_finite=tuple(dict.fromkeys(lost)),
        wanted=wanted,
        gates={name: found for name, found in gates_run.items() if found is not None},
    )


def _gate(errors: Any, against: str, bound: float, repeated: float | None, formula: str, lost: bool) -> Gate | None:
    """One gate's answer; None when it was not run. Gradients that are not finite were compared, and failed."""
    if errors is None:
        if not lost:
            return None
        errors = {"overall": None, "tensors": 0, "worst_name": ""}
    return gate_bounds.gate(
        against=against,
        error=errors["overall"],
        bound=bound,
        repeated=repeated,
        tensors=errors["tensors"],
        worst=errors["worst_name"],
        formula=formula,
    )


def repeated_errors(plan: Plan, answers: Answers) -> dict[str, float | None]:
    """The A/A error: how far the baseline's twin lies from the baseline, by the same measure as everybody else."""
    twin = next((spec.name for spec in plan.specs if spec.role == "baseline_again"), None)
    outcome = None if twin is None else answers.get(Task(kind="gate", candidate=twin).id)
    result: Any = None if outcome is None else outcome.result
    return {
        key: None if result is None or result[key] is None else result[key]["overall"] for key in ("gradient", "update")
    }


def _with_forecast(candidate: Candidate, forecast: Forecast) -> Candidate:
    measured = measured_quantities(candidate)
    marks: tuple[Mark, ...] = candidate.marks
    step, busy = measured.get("step_ms"), measured.get("busy_ms")
    if step is not None and busy is not None and busy < LAUNCH_BOUND_SHARE * step:
        marks = (*marks, "launch_bound")
    return replace(
        candidate,
        predictions=tuple(_predicted(entry, measured.get(entry.quantity)) for entry in forecast.predictions),
        floors=tuple(_floored(entry, measured.get(entry.quantity)) for entry in forecast.floors),
        marks=marks,
    )


def measured_quantities(candidate: Candidate) -> dict[str, float | None]:
    """What was measured, by the names that predictions and floors use."""
    memory = candidate.memory
    return {
        "step_ms": candidate.median("step_ms"),
        "busy_ms": candidate.median("busy_ms"),
        "peak_allocated_bytes": memory.peak_allocated_bytes if memory else None,
        "peak_reserved_bytes": memory.peak_reserved_bytes if memory else None,
        "after_forward_bytes": memory.after_forward_bytes if memory else None,
        "state_bytes": memory.state_bytes if memory else None,
        "transferred_bytes": memory.transferred_bytes if memory else None,
    }


RATIOS = {"step_ratio": "step_ms", "busy_ratio": "busy_ms"}  # predicted quantity -> what is compared


def with_ratios(candidates: Sequence[Candidate], comparisons: Sequence[Comparison]) -> tuple[Candidate, ...]:
    """The candidates with every predicted ratio to the baseline measured: known only when all of them are there."""
    found = {(entry.candidate, entry.quantity): entry.ratio for entry in comparisons}
    return tuple(
        replace(
            candidate,
            predictions=tuple(
                _predicted(entry, found.get((candidate.name, RATIOS[entry.quantity])))
                if entry.quantity in RATIOS
                else entry
                for entry in candidate.predictions
            ),
        )
        for candidate in candidates
    )


def _predicted(entry: Prediction, measured: float | None) -> Prediction:
    residual = None if measured is None or entry.predicted == 0 else measured / entry.predicted - 1
    return replace(entry, measured=measured, residual=residual)


def _floored(entry: Floor, measured: float | None) -> Floor:
    return replace(entry, distance=None if measured is None or entry.floor == 0 else measured / entry.floor)
