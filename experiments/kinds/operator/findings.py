"""From the answers of one candidate's children to what the record says of it: samples, memory, gates, marks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from experiments.evidence.candidate import Candidate, Checks, Gate, Memory, Sample
from experiments.evidence.vocabulary import JsonValue, Mark, Role
from experiments.harness.kind import Answered, Findings, Seen
from experiments.harness.readings import largest
from experiments.kinds.operator.answers import OperatorGateAnswer, OperatorMeasureAnswer, OutputDistance
from experiments.kinds.operator.operator_workload import OperatorWorkload
from experiments.kinds.operator.product_bounds import product_bound

EXACT = "float64 product"
OWN = ("finite", "value", "work")  # gates of the baseline; whoever is compared with it has `dense` besides
LAUNCH_BOUND_SHARE = 0.8  # a card busy for less than this share of a call waits for Python to launch

SeenCall: TypeAlias = Seen[OperatorWorkload, None, OperatorGateAnswer, OperatorMeasureAnswer]


def wanted(role: Role) -> tuple[str, ...]:
    """Gates that must have been run on a candidate of that role."""
    return OWN if role == "baseline" else ("finite", "value", "dense", "work")


def findings(seen: SeenCall) -> Findings:
    """What the record says of one candidate. What was counted is a setting beside what was declared."""
    measured = [one.answer for one in seen.measured]
    gate = None if seen.gate is None else seen.gate.answer
    return Findings(
        samples=tuple(sample for one in seen.measured for sample in _samples(one)),
        checks=_checks(seen, gate, measured),
        memory=_memory(measured),
        settings={} if gate is None else {"counted": dict(gate.work)},
        probes=seen.probes,
    )


def marks(candidate: Candidate) -> tuple[Mark, ...]:
    """`launch_bound`, where the card waits for Python."""
    call, busy = candidate.median("call_ms"), candidate.median("busy_ms")
    return ("launch_bound",) if call and busy is not None and busy / call < LAUNCH_BOUND_SHARE else ()


def _samples(one: Answered[OperatorMeasureAnswer]) -> list[Sample]:
    """The timed calls; what is known once per process is put beside the last of them."""
    answer, task = one.answer, one.task
    once = {"busy_ms": answer.busy_ms, "weight_bytes": answer.work.get("weight_bytes")}
    samples = []
    for step, (call, wall) in enumerate(zip(answer.call_ms, answer.wall_ms, strict=True)):
        values: dict[str, float | None] = {"call_ms": call, "wall_ms": wall}
        if call > 0 and "flops" in answer.work:
            values["tflop_per_s"] = answer.work["flops"] / call / 1e9
        if step == len(answer.call_ms) - 1:
            values |= once
        known = {word: float(value) for word, value in values.items() if value is not None}
        samples.append(Sample(round=task.round or 0, position=task.position or 0, step=step, values=known))
    return samples


def _memory(answers: Sequence[OperatorMeasureAnswer]) -> Memory | None:
    """The largest of each over the processes; None where no process could tell anything."""
    memory = Memory(
        peak_allocated_bytes=largest(answer.peak_allocated for answer in answers),
        peak_reserved_bytes=largest(answer.peak_reserved for answer in answers),
        process_bytes=largest(answer.process for answer in answers),
    )
    return None if memory == Memory() else memory


def _checks(seen: SeenCall, gate: OperatorGateAnswer | None, measured: Sequence[OperatorMeasureAnswer]) -> Checks:
    asked = wanted(seen.spec.role)
    if gate is None:
        return Checks(wanted=asked)
    finite = gate.finite and all(answer.finite for answer in measured)
    return Checks(
        finite=finite,
        not_finite=() if finite else ("output",),
        wanted=asked,
        gates=_gates(seen, gate, [gate.work, *(answer.work for answer in measured)]),
    )


def _gates(seen: SeenCall, gate: OperatorGateAnswer, counted: Sequence[Mapping[str, int]]) -> dict[str, Gate]:
    spec, terms = seen.spec, seen.plan.workload.in_features
    cancelled = max(1.0, gate.cancelled or 1.0)
    bound = product_bound(spec.dtype, terms, cancelled)
    formula = f"{spec.dtype} roundings of sums over {terms} products, terms {cancelled:.2g} x the output"
    baseline = next((other.name for other in seen.plan.specs if other.role == "baseline"), "baseline")
    # the twin is what the A/A error comes from: rounding alone may excuse it
    twin = None if spec.role == "baseline_again" or seen.twin is None else seen.twin.dense
    repeated = None if twin is None else twin.error
    found = {
        "value": _gate(gate.value, EXACT, bound, None, formula),
        "dense": _gate(gate.dense, baseline, 2 * bound, repeated, f"{formula}, on both sides"),
        "work": work_gate(spec.settings.get("work"), counted),
    }
    return {name: answer for name, answer in found.items() if answer is not None}


def _gate(
    found: OutputDistance | None, against: str, bound: float, repeated: float | None, formula: str
) -> Gate | None:
    """One comparison's answer; None when it was not made. An output that is not finite was compared, and failed.

    The tolerance is the larger of the bound and the A/A error (`repeated`), where that may excuse anything.
    """
    if found is None:
        return None
    tolerance = max(bound, repeated or 0.0)
    yardstick = f"{formula} = {bound:.1e}"
    return Gate(
        passed=found.error is not None and found.error <= tolerance,
        against=against,
        error=found.error,
        tolerance=tolerance,
        yardstick=yardstick if repeated is None else f"max(A/A error {repeated:.1e}, {yardstick})",
        tensors=1,
        worst=f"channel {found.worst_channel}",
    )


def work_gate(declared: JsonValue, counted: Sequence[Mapping[str, int]]) -> Gate | None:
    """Whether every process did exactly what the candidate declares, word by word; None where it declares nothing.

    The error is the largest difference, as a share of the larger number: 1 where one of the two is zero.
    """
    if not isinstance(declared, Mapping) or not declared:
        return None
    apart = [
        (_share(declared.get(word, 0), work.get(word, 0)), word)
        for work in counted
        for word in sorted({*declared, *work})
    ]
    error, worst = max(apart, key=lambda pair: pair[0])
    return Gate(
        passed=error == 0,
        against="declared work",
        error=error,
        tolerance=0.0,
        yardstick=f"counted in {len(counted)} processes, equal to what is declared",
        tensors=len(apart),
        worst=worst if error else "",
    )


def _share(wanted: JsonValue, found: int) -> float:
    """How far a count is from what was declared; 1 for a declaration that is no number."""
    if not isinstance(wanted, int | float) or isinstance(wanted, bool):
        return 1.0
    return abs(found - wanted) / max(abs(found), abs(wanted), 1)
