"""What a mixed-precision run says: which formats keep the gradients, whether the scaler is right, what it bought."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Comparison, Decision
from experiments.harness.experiment import Observed

COLLAPSE = 2.0**-4  # a scale that fell below this share of where it began has skipped many steps in a row


def conclude(observed: Observed) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    measured = [candidate for candidate in observed.candidates if candidate.status == "ok"]
    claims = [*_equivalence(measured), *_scaler(measured)]
    if observed.device.kind == "cuda":
        claims += [*_time(measured, observed.comparisons), *_memory(measured)]
    return tuple(claims), _decision(observed, measured)


def gates_hold(candidate: Candidate) -> bool:
    """Finite, and no gate that was run has failed."""
    checks = candidate.checks
    found = (checks.gradient, checks.update, checks.oracle)
    return checks.finite is True and all(gate is None or gate.passed for gate in found)


def collapsed(candidate: Candidate) -> tuple[float, float] | None:
    """First and last loss scale of the measured steps if it fell far: a run of skips nobody may overlook."""
    scales = [sample.loss_scale for sample in candidate.samples if sample.loss_scale]
    if scales and min(scales) <= scales[0] * COLLAPSE:
        return scales[0], min(scales)
    return None


def _equivalence(measured: list[Candidate]) -> list[Claim]:
    kept = [c for c in measured if c.role == "candidate" and c.checks.gradient is not None and gates_hold(c)]
    if not kept:
        return []
    worst = max(kept, key=lambda c: (c.checks.gradient and c.checks.gradient.error) or 0.0)
    error = worst.checks.gradient.error if worst.checks.gradient else None
    statement = (
        f"gradients and first update of {', '.join(c.name for c in kept)} agree with fp32 within rounding; "
        f"largest relative L2 error {0.0 if error is None else error:.1e} ({worst.name})"
    )
    names = tuple(c.name for c in kept)
    return [Claim(kind="gradient_equivalence", statement=statement, candidates=names)]


def _scaler(measured: list[Candidate]) -> list[Claim]:
    claims = []
    for candidate in measured:
        trace = candidate.numerics.scaler if candidate.numerics else None
        if trace is None or not trace.passed:
            continue
        statement = (
            f"an infinity in step {trace.injected_step} skipped {trace.skips_counted} step: weights and optimizer "
            f"state bit-identical, schedule not advanced, scale {trace.scale_before:.0f} -> {trace.scale_after:.0f}"
        )
        claims.append(Claim(kind="scaler_semantics", statement=statement, candidates=(candidate.name,)))
    return claims


def _time(measured: list[Candidate], comparisons: tuple[Comparison, ...]) -> list[Claim]:
    able = {candidate.name for candidate in measured if candidate.role == "candidate" and gates_hold(candidate)}
    claims = []
    for entry in comparisons:
        if entry.quantity != "step_ms" or entry.candidate not in able or entry.ratio is None:
            continue
        statement = f"a step of {entry.candidate} takes {entry.ratio:.3f} x that of {entry.baseline}: {entry.verdict}"
        claims.append(Claim(kind="time", statement=statement, candidates=(entry.candidate, entry.baseline)))
    return claims


def _memory(measured: list[Candidate]) -> list[Claim]:
    baseline = next((candidate for candidate in measured if candidate.is_baseline), None)
    base = baseline.memory.peak_allocated_bytes if baseline and baseline.memory else None
    claims = []
    for candidate in measured:
        peak = candidate.memory.peak_allocated_bytes if candidate.memory else None
        if baseline is None or not base or peak is None or candidate.role != "candidate":
            continue
        statement = (
            f"{candidate.name} peaks at {peak / 2**30:.2f} GiB allocated, {baseline.name} at {base / 2**30:.2f} GiB"
        )
        claims.append(Claim(kind="memory", statement=statement, candidates=(candidate.name, baseline.name)))
    return claims


def _decision(observed: Observed, measured: list[Candidate]) -> Decision:
    taken = [c for c in observed.candidates if c.role in ("baseline", "candidate") and c.status != "skipped"]
    if not taken:
        return Decision(code="not_measured", sentence="Nothing was executed: the plan is well-formed.")
    baseline = next((candidate for candidate in taken if candidate.is_baseline), None)
    if baseline is not None and baseline.status == "oom":
        proposal = baseline.failure.proposal if baseline.failure else None
        return Decision(
            code="does_not_fit",
            sentence=f"fp32 does not fit on this device; try {proposal or 'a smaller model'}.",
        )
    scalers = [c.numerics.scaler for c in measured if c.numerics and c.numerics.scaler]
    broken = [c.name for c in taken if c.status == "failed" or (c.status == "ok" and not gates_hold(c))]
    if broken or not all(trace.passed for trace in scalers):
        what = ", ".join(broken) if broken else "the scaler's state machine"
        return Decision(code="numerics_broken", sentence=f"Do not use {what}: a gate or a step failed.")
    fallen = [(c.name, *found) for c in measured if (found := collapsed(c))]
    if fallen:
        name, first, last = fallen[0]
        return Decision(
            code="numerics_broken",
            sentence=f"The loss scale of {name} collapsed from {first:.0f} to {last:.0f}: steps are lost to overflow.",
        )
    if observed.device.kind == "cuda":
        return _on_a_card(observed)
    return Decision(code="numerics_ok", sentence=_numerics_sentence(measured))


def _numerics_sentence(measured: list[Candidate]) -> str:
    kept = [c.name for c in measured if c.role == "candidate" and gates_hold(c)]
    said = [f"{' and '.join(kept)} keep the gradients within their rounding" if kept else "only fp32 ran"]
    if any(c.numerics and c.numerics.scaler for c in measured):
        said.append("the scaler skips exactly as it must")
    for control in measured:
        share = control.numerics.underflow_share if control.numerics else None
        if control.role == "control" and share is not None and not gates_hold(control):
            said.append(f"{control.name} loses {share:.0%} of them")
    return "; ".join(said) + ". This says nothing about speed."


def _on_a_card(observed: Observed) -> Decision:
    times = [c for c in observed.comparisons if c.quantity == "step_ms" and c.ratio is not None]
    allowed = {c.name for c in observed.candidates if c.role == "candidate" and gates_hold(c)}
    faster = [c for c in times if c.verdict == "faster" and c.candidate in allowed]
    if faster:
        best = min(faster, key=lambda c: c.ratio or 1.0)
        return Decision(
            code="adopt", sentence=f"Take {best.candidate}: {best.ratio:.2f} x the time of fp32 with gradients kept."
        )
    if times and all(c.verdict == "same" for c in times if c.candidate in allowed):
        return Decision(code="equivalent", sentence="No format is faster than fp32 beyond the noise here.")
    return Decision(code="inconclusive", sentence="No difference stands clear of the noise: measure more rounds.")
