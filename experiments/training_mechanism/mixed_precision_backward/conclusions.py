"""What a mixed-precision run says: which formats keep the gradients, whether the scaler is right, what it bought."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.quantities import percent
from experiments.harness.experiment import Observed
from experiments.kinds.training_step.concluding import able, equivalence, gates_hold, memories, stands_in_the_way, times
from experiments.kinds.training_step.training_workload import TrainingWorkload

COLLAPSE = 2.0**-4  # a scale that fell below this share of where it began has skipped many steps in a row


def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    claims = [*equivalence(observed, "fp32", "within what rounding allows"), *_scaler(observed)]
    if observed.device.kind == "cuda":
        claims += [*times(observed), *memories(observed)]
    return tuple(claims), _decision(observed)


def collapsed(candidate: Candidate) -> tuple[float, float] | None:
    """First and lowest loss scale of the measured steps if it fell far: a run of skips nobody may overlook."""
    scales = [scale for sample in candidate.samples if (scale := sample.values.get("loss_scale"))]
    if scales and min(scales) <= scales[0] * COLLAPSE:
        return scales[0], min(scales)
    return None


def _scaler(observed: Observed[TrainingWorkload]) -> list[Claim]:
    claims = []
    for candidate in observed.candidates:
        trace = candidate.numerics.scaler if candidate.numerics else None
        if candidate.status != "ok" or trace is None or not trace.passed:
            continue
        statement = (
            f"an infinity in step {trace.injected_step} skipped {trace.skips_counted} step: weights and optimizer "
            f"state bit-identical, schedule not advanced, scale {trace.scale_before:.0f} → {trace.scale_after:.0f}"
        )
        claims.append(Claim(kind="scaler_semantics", statement=statement, candidates=(candidate.name,)))
    return claims


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)
    if found is not None:
        return found
    measured = [candidate for candidate in observed.candidates if candidate.status == "ok"]
    if any(c.numerics and c.numerics.scaler and not c.numerics.scaler.passed for c in measured):
        return Decision(code="numerics_broken", sentence="The scaler did not go through its states: see the probe.")
    for candidate in measured:
        fallen = collapsed(candidate)
        if fallen is not None:
            said = f"The loss scale of {candidate.name} collapsed from {fallen[0]:.0f} to {fallen[1]:.0f}"
            return Decision(code="numerics_broken", sentence=f"{said}: steps are lost to overflow.")
    if observed.device.kind == "cuda":
        return _on_a_card(observed)
    return Decision(code="numerics_ok", sentence=_numerics_sentence(observed, measured))


def _numerics_sentence(observed: Observed[TrainingWorkload], measured: list[Candidate]) -> str:
    kept = [candidate.name for candidate in able(observed)]
    said = [f"{' and '.join(kept)} keep the gradients within their rounding" if kept else "only fp32 ran"]
    if any(c.numerics and c.numerics.scaler for c in measured):
        said.append("the scaler skips exactly as it must")
    for control in measured:
        share = control.numerics.underflow_share if control.numerics else None
        if control.role == "control" and share is not None and not gates_hold(control):
            below = f"{percent(share)} of its gradients below fp16's normal range"
            said.append(f"{control.name} fails its gate, with {below}")
    return "; ".join(said) + ". This says nothing about speed."


def _on_a_card(observed: Observed[TrainingWorkload]) -> Decision:
    allowed = {candidate.name for candidate in able(observed)}
    compared = [c for c in observed.comparisons if c.quantity == "step_ms" and c.candidate in allowed]
    faster = [c for c in compared if c.verdict == "faster" and c.ratio is not None]
    if faster:
        best = min(faster, key=lambda c: c.ratio or 1.0)
        said = f"Take {best.candidate}: {best.ratio:.2f} x the time of fp32 with gradients kept."
        return Decision(code="adopt", sentence=said)
    if compared and all(c.verdict == "same" for c in compared):
        return Decision(code="equivalent", sentence="No format is faster than fp32 beyond the noise here.")
    return Decision(code="inconclusive", sentence="No difference stands clear of the noise: measure more rounds.")
