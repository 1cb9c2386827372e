"""What pages conclude in the same words: gates held or not, time and memory beside the baseline, what does not fit.

Pure functions of finished candidates. A page adds what only it can say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Comparison, Decision
from experiments.evidence.quantities import percent
from experiments.harness.experiment import Observed
from experiments.kinds.training_step.training_workload import TrainingWorkload

GIB = 2**30


def gates_hold(candidate: Candidate) -> bool:
    """Finite, and no gate that was run has failed."""
    return candidate.checks.finite is True and all(gate.passed for gate in candidate.checks.gates.values())


def able(observed: Observed[TrainingWorkload]) -> list[Candidate]:
    """Candidates that ran and whose gates held: the ones a claim may be about."""
    return [c for c in observed.candidates if c.role == "candidate" and c.status == "ok" and gates_hold(c)]


def equivalence(observed: Observed[TrainingWorkload], baseline: str, because: str) -> list[Claim]:
    """One claim over all candidates whose first gradients and update agree with the baseline."""
    kept = [c for c in able(observed) if _error(c) is not None]
    if not kept:
        return []
    worst = max(kept, key=lambda c: _error(c) or 0.0)
    error = _error(worst)
    size = "bit-identical" if not error else f"largest relative L2 error {error:.1e} ({worst.name})"
    statement = f"gradients and first update of {names(kept)} agree with {baseline}: {size}; {because}"
    return [Claim(kind="gradient_equivalence", statement=statement, candidates=tuple(c.name for c in kept))]


def _error(candidate: Candidate) -> float | None:
    gate = candidate.checks.gates.get("gradient")
    return None if gate is None else gate.error


def times(observed: Observed[TrainingWorkload], quantity: str = "step_ms") -> list[Claim]:
    """One claim for each comparison in time whose candidate computes the same."""
    names = {candidate.name for candidate in able(observed)}
    return [
        Claim(kind="time", statement=_time(entry), candidates=(entry.candidate, entry.baseline))
        for entry in observed.comparisons
        if entry.quantity == quantity and entry.candidate in names and entry.ratio is not None
    ]


def _time(entry: Comparison) -> str:
    return f"a step of {entry.candidate} takes {entry.ratio:.3f} x that of {entry.baseline}: {entry.verdict}"


def memories(observed: Observed[TrainingWorkload]) -> list[Claim]:
    """One claim for each candidate's peak and residency beside the baseline's."""
    baseline = next((c for c in observed.candidates if c.is_baseline), None)
    if baseline is None or baseline.memory is None:
        return []
    claims = []
    for candidate in able(observed):
        sentence = memory_sentence(candidate, baseline)
        if sentence:
            names = (candidate.name, baseline.name)
            claims.append(Claim(kind="memory", statement=sentence, candidates=names))
    return claims


def memory_sentence(candidate: Candidate, baseline: Candidate) -> str | None:
    """Peak and after-forward residency of both in one sentence; None where they were not measured."""
    mine, base = candidate.memory, baseline.memory
    if mine is None or base is None or mine.peak_allocated_bytes is None or base.peak_allocated_bytes is None:
        return None
    text = (
        f"{candidate.name} peaks at {mine.peak_allocated_bytes / GIB:.2f} GiB allocated, "
        f"{baseline.name} at {base.peak_allocated_bytes / GIB:.2f}"
    )
    if mine.after_forward_bytes is not None and base.after_forward_bytes is not None:
        text += (
            f"; after the forward {mine.after_forward_bytes / GIB:.2f} GiB stay, "
            f"of {baseline.name} {base.after_forward_bytes / GIB:.2f}"
        )
    if captured(candidate) and mine.peak_reserved_bytes is not None and base.peak_reserved_bytes is not None:
        text += (
            f"; its graph's pool is not counted as allocated: {mine.peak_reserved_bytes / GIB:.2f} GiB are reserved, "
            f"of {baseline.name} {base.peak_reserved_bytes / GIB:.2f}"
        )
    return text


def captured(candidate: Candidate) -> bool:
    """Whether its step is replayed from a CUDA graph, whose memory shows only in what is reserved."""
    return candidate.settings.get("captured") is True


def stands_in_the_way(observed: Observed[TrainingWorkload]) -> Decision | None:
    """The decision when there is nothing to weigh: nothing ran, a gate failed, or there is nothing to compare with.

    A candidate that broke down for a reason of its own (no compiler, no such file) is a result, and no verdict on the
    numerics of the others.
    """
    taken = [c for c in observed.candidates if c.role in ("baseline", "candidate") and c.status != "skipped"]
    if not taken:
        return Decision(code="not_measured", sentence="Nothing was executed: the plan is well-formed.")
    baseline = next((c for c in taken if c.is_baseline), None)
    twin = next((c for c in observed.candidates if c.role == "baseline_again" and c.status == "ok"), None)
    if twin is not None and not _repeats(twin):
        said = f"{twin.name} does not repeat the baseline's gradients within rounding: nothing can be compared with it."
        return Decision(code="numerics_broken", sentence=said)
    if baseline is not None and _off_float64_alone(baseline):
        said = f"{baseline.name} is not within rounding of the float64 decoder: one of the two computes another model."
        return Decision(code="numerics_broken", sentence=said)
    broken = names(c for c in taken if lost_numbers(c))
    if broken:
        return Decision(code="numerics_broken", sentence=f"Do not use {broken}: a gate or a step failed.")
    if able(observed):
        return None
    if any(c.status == "oom" for c in taken):
        proposal = next((c.failure.proposal for c in taken if c.failure and c.failure.proposal), None)
        return Decision(code="does_not_fit", sentence=f"Nothing fits on this device; try {proposal or 'less'}.")
    if baseline is not None and baseline.status == "ok" and len(taken) == 1:
        return None
    said = "; ".join(f"{c.name}: {c.failure.kind} in {c.failure.phase}" for c in taken if c.failure)
    return Decision(code="inconclusive", sentence=f"Nothing ran that could be compared ({said}).")


def _repeats(twin: Candidate) -> bool:
    """Finite, and as the baseline: what lies between both and float64 is no word on whether one repeats the other."""
    others = {name: gate for name, gate in twin.checks.gates.items() if name != "oracle"}
    return gates_hold(replace(twin, checks=replace(twin.checks, gates=others)))


def _off_float64_alone(baseline: Candidate) -> bool:
    """Whether the float64 oracle is what failed, and nothing else: every candidate fails it with the baseline."""
    return baseline.status == "ok" and not gates_hold(baseline) and _repeats(baseline)


def lost_numbers(candidate: Candidate) -> bool:
    """Whether its numbers are wrong: a gate failed, or a loss was not finite."""
    if candidate.status == "ok":
        return not gates_hold(candidate)
    return candidate.failure is not None and candidate.failure.kind == "NonFiniteLoss"


def names(candidates: Iterable[Candidate]) -> str:
    """Their names, joined for a sentence; apart from each other also where a name has a comma of its own."""
    told = [candidate.name for candidate in candidates]
    return ("; " if any("," in name for name in told) else ", ").join(told)


def freed(observed: Observed[TrainingWorkload], candidate: Candidate) -> float | None:
    """Share of the baseline's peak that a candidate frees, 0 to 1; None where either was not measured.

    For a step replayed from a CUDA graph what is reserved counts, on both sides: its pool serves nobody else.
    """
    baseline = next((c for c in observed.candidates if c.is_baseline), None)
    base, peak = (_taken(c, captured(candidate)) for c in (baseline, candidate))
    return None if not base or peak is None else 1 - peak / base


def _taken(candidate: Candidate | None, reserved: bool) -> int | None:
    memory = candidate.memory if candidate is not None and candidate.status == "ok" else None
    if memory is None:
        return None
    return memory.peak_reserved_bytes if reserved else memory.peak_allocated_bytes


def weighed(observed: Observed[TrainingWorkload]) -> Decision:
    """Memory freed against time paid, on a card: the candidate that frees most, and what it costs."""
    baseline = next((c for c in observed.candidates if c.is_baseline), None)
    if baseline is not None and baseline.status == "oom":
        fits = [(peak, c) for c in able(observed) if (peak := _taken(c, captured(c))) is not None]
        if fits:
            best = min(fits, key=lambda pair: pair[0])[1]
            return Decision(code="adopt", sentence=f"Take {best.name}: {baseline.name} does not fit here, it does.")
    ratios = {c.candidate: c.ratio for c in observed.comparisons if c.quantity == "step_ms"}
    rated = [(share, c) for c in able(observed) if (share := freed(observed, c)) is not None]
    if not rated:
        return Decision(code="inconclusive", sentence="No candidate has both a peak and a step time to weigh.")
    share, best = max(rated, key=lambda pair: pair[0])
    ratio = ratios.get(best.name)
    if share < 0.02:
        return Decision(code="avoid", sentence="No candidate lowers the peak here: head or state holds it.")
    if ratio is None:
        said = f"{best.name} frees {percent(share)} of the peak; at what price was not measured."
        return Decision(code="inconclusive", sentence=said)
    cheap = [(s, c) for s, c in rated if s >= 0.02 and ratios.get(c.name) and (ratios[c.name] or 9) <= 1.02]
    if cheap:
        share, best = max(cheap, key=lambda pair: pair[0])
        said = f"Take {best.name}: {percent(share)} less peak at {ratios[best.name]:.2f} x the time."
        return Decision(code="adopt", sentence=said)
    said = f"{best.name} frees {percent(share)} of the peak for {ratio:.2f} x the time: take it when memory is short."
    return Decision(code="adopt_if_memory_bound", sentence=said)
