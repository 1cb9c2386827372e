"""From the answers of one candidate's children to what the record says of it: samples, memory, gates, marks. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from experiments.evidence.candidate import Candidate, Checks, Failure, Gate, Memory, PhasePeak, Sample
from experiments.evidence.vocabulary import Mark, Role
from experiments.harness import rounding
from experiments.harness.experiment import Forecast, Json
from experiments.harness.kind import Answered, Findings, Seen
from experiments.harness.readings import largest
from experiments.harness.tensor_errors import Errors
from experiments.kinds.training_step import gate_bounds
from experiments.kinds.training_step.answers import GateAnswer, MeasureAnswer
from experiments.kinds.training_step.ledger import ledger
from experiments.kinds.training_step.ledger.ledger_settings import for_candidate
from experiments.kinds.training_step.model_subject import ModelSubject
from experiments.kinds.training_step.training_experiment import ForecastRequest, TrainingExperiment
from experiments.kinds.training_step.training_workload import TrainingWorkload

ORACLE = "float64 oracle"
OWN, WANTED = ("finite",), ("finite", "gradient", "update")  # gates of the baseline, and of whoever is compared with it
LAUNCH_BOUND_SHARE = 0.8  # a card busy for less than this share of the step waits for Python to launch

SeenStep: TypeAlias = Seen[TrainingWorkload, ModelSubject, GateAnswer, MeasureAnswer]


def wanted(role: Role) -> tuple[str, ...]:
    """Gates that must have been run on a candidate of that role."""
    return OWN if role == "baseline" else WANTED


def findings(experiment: TrainingExperiment, seen: SeenStep) -> Findings:
    """What the record says of one candidate."""
    gate = None if seen.gate is None else seen.gate.answer
    measured = [one.answer for one in seen.measured]
    dry = seen.plan.mode == "dry_run"
    return Findings(
        samples=tuple(sample for one in seen.measured for sample in _samples(one)),
        memory=_memory(measured),
        checks=_checks(seen, gate, measured),
        numerics=None if dry else experiment.numerics(seen.spec, gate, seen.probes),
        settings=_peer([*([] if gate is None else [gate]), *measured]),
        probes={name: answer for name, answer in seen.probes.items() if name not in experiment.told_in_numerics},
        failure=next((lost for one in seen.measured if (lost := _lost_loss(one)) is not None), None),
    )


def forecast(experiment: TrainingExperiment, seen: SeenStep, memory: Memory | None) -> Forecast:
    """What the page's formulas say."""
    request = ForecastRequest(
        spec=seen.spec,
        workload=seen.plan.workload,
        shape=seen.subject.shape,
        device=seen.plan.device,
        calibration=seen.calibration,
        transferred_bytes=memory.transferred_bytes if memory else None,
    )
    return experiment.forecast(request)


def marks(seen: SeenStep, candidate: Candidate) -> tuple[Mark, ...]:
    """What a reader has to know before the numbers: the loss head holds the peak, or the card waits for Python.

    Where in a backward the peak falls is not seen from outside; the ledger says when it is the head's own.
    """
    limited = _head_limited(seen, candidate.memory)
    return (*(("head_limited",) if limited else ()), *(("launch_bound",) if _launch_bound(candidate) else ()))


def _head_limited(seen: SeenStep, memory: Memory | None) -> bool:
    settings = for_candidate(seen.plan.workload, seen.spec.settings)
    if seen.spec.role != "candidate" or memory is None or memory.peak_allocated_bytes is None or settings is None:
        return False
    return settings.head == "full" and ledger.forecast(seen.subject.shape, settings).head_limited


def _launch_bound(candidate: Candidate) -> bool:
    step, busy = candidate.median("step_ms"), candidate.median("busy_ms")
    return step is not None and busy is not None and busy < LAUNCH_BOUND_SHARE * step


def _peer(answers: Sequence[GateAnswer | MeasureAnswer]) -> Json:
    """Which version of somebody else's code took part, as a process that loaded it found out."""
    return next(({"peer": answer.notes.peer} for answer in answers if answer.notes.peer), {})


def _lost_loss(one: Answered[MeasureAnswer]) -> Failure | None:
    """Where a loss was NaN or infinite in an ordinary step. A skipped step may have one: the scaler caught it."""
    for step, (loss, skipped) in enumerate(zip(one.answer.losses, one.answer.skipped, strict=True)):
        if loss is None and not skipped:
            message = f"loss is not finite at measured step {step}"
            return Failure(phase="loss_head", kind="NonFiniteLoss", message=message, round=one.task.round)
    return None


def _samples(one: Answered[MeasureAnswer]) -> list[Sample]:
    task, answer = one.task, one.answer
    count = len(answer.step_ms)
    busy = [None] * (count - 1) + [answer.busy_ms]  # one profiled step is put beside the last timed one
    return [
        Sample(
            round=task.round or 0,
            position=task.position or 0,
            step=step,
            values=_present(
                step_ms=answer.step_ms[step],
                wall_ms=answer.wall_ms[step],
                busy_ms=busy[step],
                loss=answer.losses[step],
                loss_scale=answer.scales[step],
            ),
            skipped=answer.skipped[step],
        )
        for step in range(count)
    ]


def _present(**values: float | None) -> dict[str, float]:
    """Those that are known: a value nobody has is absent, never zero."""
    return {word: float(value) for word, value in values.items() if value is not None}


def _memory(answers: Sequence[MeasureAnswer]) -> Memory | None:
    """The largest of each over the processes; None where no process could tell anything."""
    peaks: dict[str, int] = {}
    for answer in answers:
        for reading in answer.phases:
            if reading.peak is not None:
                peaks[reading.phase] = max(reading.peak, peaks.get(reading.phase, 0))
    memory = Memory(
        peak_allocated_bytes=largest(answer.peak_allocated for answer in answers),
        peak_reserved_bytes=largest(answer.peak_reserved for answer in answers),
        process_bytes=largest(answer.process for answer in answers),
        after_forward_bytes=largest(answer.after_forward for answer in answers),
        state_bytes=largest(answer.state for answer in answers),
        peak_phase=max(peaks, key=peaks.__getitem__) if peaks else None,
        phases=tuple(PhasePeak(phase=phase, peak_allocated_bytes=peak) for phase, peak in peaks.items()),
        transferred_bytes=largest(answer.notes.transferred_bytes for answer in answers),
    )
    return None if memory == Memory() else memory


def _checks(seen: SeenStep, gate: GateAnswer | None, measured: Sequence[MeasureAnswer]) -> Checks:
    spec = seen.spec
    asked = wanted(spec.role)
    if gate is None:
        return Checks(wanted=asked)
    lost = [*gate.not_finite, *(name for answer in measured for name in answer.not_finite)]
    return Checks(
        finite=not lost and gate.loss is not None,
        not_finite=tuple(dict.fromkeys(lost)),
        wanted=asked,
        gates=_gates(seen, gate, lost=bool(lost)),
    )


def _gates(seen: SeenStep, gate: GateAnswer, *, lost: bool) -> dict[str, Gate]:
    spec, shape, workload = seen.spec, seen.subject.shape, seen.plan.workload
    bound = gate_bounds.rounding_bound(spec.dtype, shape, workload.tokens)
    norms = (gate.weight_norm or 0.0, gate.update_norm or 0.0)
    update = gate_bounds.update_bound(bound, workload.optimizer, *norms)
    formula = f"{spec.dtype} roundings of {shape.layers} layers"
    baseline = next((other.name for other in seen.plan.specs if other.role == "baseline"), "baseline")
    # the twin is what the A/A error comes from: rounding alone may excuse it
    twin = None if spec.role == "baseline_again" else seen.twin
    found = {"oracle": _gate(gate.oracle, ORACLE, bound, None, formula, lost)}
    if spec.role != "baseline":
        first = f"{formula}, first update"
        repeated = None if twin is None else _overall(twin.gradient)
        moved = None if twin is None else _overall(twin.update)
        found = {
            "gradient": _gate(gate.gradient, baseline, bound, repeated, formula, lost),
            "update": _gate(gate.update, baseline, update, moved, first, lost),
            **found,
        }
    return {name: answer for name, answer in found.items() if answer is not None}


def _overall(errors: Errors | None) -> float | None:
    return None if errors is None else errors.overall


def _gate(
    errors: Errors | None, against: str, bound: float, repeated: float | None, formula: str, lost: bool
) -> Gate | None:
    """One gate's answer; None when it was not run. Gradients that are not finite were compared, and failed."""
    if errors is None and not lost:
        return None
    return rounding.gate(
        against=against,
        error=_overall(errors),
        bound=bound,
        repeated=repeated,
        tensors=0 if errors is None else errors.tensors,
        worst="" if errors is None else errors.worst_name,
        formula=formula,
    )
