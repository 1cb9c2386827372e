"""What a mixed-precision run says: which formats keep the gradients, whether the scaler is right, what it bought."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import Sentence, claim, decision, say
from experiments.harness.experiment import Observed
from experiments.harness.gates_held import no_gate_failed
from experiments.kinds.training_step.concluding import able, equivalence, memories, stands_in_the_way, times
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.mixed_precision_backward.sentences import SENTENCES

COLLAPSE = 2.0**-4  # a scale that fell below this share of where it began has skipped many steps in a row


def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    claims = [*equivalence(observed, "fp32", say(SENTENCES, "within_rounding")), *_scaler(observed)]
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
        said = say(
            SENTENCES,
            "step_skipped",
            step=trace.injected_step,
            skips=trace.skips_counted,
            scale_before=trace.scale_before,
            scale_after=trace.scale_after,
        )
        claims.append(claim("scaler_semantics", said, (candidate.name,), ("scaler",)))
    return claims


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)
    if found is not None:
        return found
    measured = [candidate for candidate in observed.candidates if candidate.status == "ok"]
    if any(c.numerics and c.numerics.scaler and not c.numerics.scaler.passed for c in measured):
        return decision("numerics_broken", say(SENTENCES, "scaler_broken"))
    for candidate in measured:
        fallen = collapsed(candidate)
        if fallen is not None:
            first, lowest = fallen
            said = say(SENTENCES, "scale_collapsed", candidate=candidate.name, first=first, lowest=lowest)
            return decision("numerics_broken", said)
    if observed.device.kind == "cuda":
        return _on_a_card(observed)
    return decision("numerics_ok", _numerics_sentence(observed, measured))


def _numerics_sentence(observed: Observed[TrainingWorkload], measured: list[Candidate]) -> Sentence:
    kept = [candidate.name for candidate in able(observed)]
    parts = [say(SENTENCES, "gradients_kept", candidates=kept) if kept else say(SENTENCES, "only_fp32")]
    if any(c.numerics and c.numerics.scaler for c in measured):
        parts.append(say(SENTENCES, "scaler_skips"))
    for control in measured:
        share = control.numerics.underflow_share if control.numerics else None
        if control.role == "control" and share is not None and not no_gate_failed(control):
            parts.append(say(SENTENCES, "control_fails", control=control.name, share=share))
    return say(SENTENCES, "numerics_only", parts=parts)


def _on_a_card(observed: Observed[TrainingWorkload]) -> Decision:
    allowed = {candidate.name for candidate in able(observed)}
    compared = [c for c in observed.comparisons if c.quantity == "step_ms" and c.candidate in allowed]
    faster = [c for c in compared if c.verdict == "faster" and c.ratio is not None]
    if faster:
        best = min(faster, key=lambda c: c.ratio or 1.0)
        return decision("adopt", say(SENTENCES, "fastest", candidate=best.candidate, ratio=best.ratio))
    if compared and all(c.verdict == "same" for c in compared):
        return decision("equivalent", say(SENTENCES, "none_faster"))
    return decision("inconclusive", say(SENTENCES, "within_noise"))
