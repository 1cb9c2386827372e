"""What experiments on an operation conclude in the same words: values, weight, time, and what prevents a decision.

Pure functions of finished candidates. An experiment adds what only it can say.
"""

from __future__ import annotations

from typing import TypeAlias

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Comparison, Decision
from experiments.evidence.sentences import Sentence, claim, decision, say
from experiments.harness.experiment import Observed
from experiments.harness.gates_held import able, gates_hold, lacking, never_run, no_gate_failed
from experiments.kinds.operator.operator_sentences import SENTENCES
from experiments.kinds.operator.operator_workload import OperatorWorkload

Calls: TypeAlias = Observed[OperatorWorkload]
LEAST_SHARE = 0.02  # of the baseline's peak: less than this is not worth a word


def baseline_of(observed: Calls) -> Candidate | None:
    """The baseline, where it ran and its gates held."""
    return next(iter(able(observed, ("baseline",))), None)


def equivalence(observed: Calls) -> list[Claim]:
    """One claim over all candidates whose outputs agree with float64 and with the baseline."""
    agreeing, baseline = able(observed), baseline_of(observed)
    if not agreeing or baseline is None:
        return []
    worst = {name: max(_error(c, name) for c in agreeing) for name in ("value", "dense")}
    named = [c.name for c in agreeing]
    said = say(SENTENCES, "outputs_agree", candidates=named, baseline=baseline.name, **worst)
    return [claim("value_equivalence", said, named, ("value", "dense", "work"))]


def _error(candidate: Candidate, gate: str) -> float:
    found = candidate.checks.gates.get(gate)
    return 0.0 if found is None or found.error is None else found.error


def weights(observed: Calls) -> list[Claim]:
    """One claim for each candidate that reads its weight from other storage than the baseline: counted bytes."""
    baseline = baseline_of(observed)
    base = None if baseline is None else baseline.median("weight_bytes")
    if baseline is None or not base:
        return []
    claims = []
    for candidate in able(observed):
        mine = candidate.median("weight_bytes")
        if mine and mine < base:
            sides = {"candidate": candidate.name, "baseline": baseline.name}
            sizes = {"weight_bytes": mine, "baseline_bytes": base, "factor": base / mine}
            said = say(SENTENCES, "weight_is_read_from", **sides, **sizes)
            claims.append(claim("memory", said, (candidate.name, baseline.name), ("weight_bytes", "work")))
    return claims


def share_read(observed: Calls) -> float | None:
    """The largest share of the baseline's weight bytes that a candidate reads; None where they were not counted."""
    baseline = baseline_of(observed)
    base = None if baseline is None else baseline.median("weight_bytes")
    read = [mine for candidate in able(observed) if (mine := candidate.median("weight_bytes")) is not None]
    return max(read) / base if base and read else None


def peaks(observed: Calls) -> list[Claim]:
    """One claim for each candidate's peak in a call beside the baseline's; none where no device told it."""
    baseline = baseline_of(observed)
    base = _peak(baseline)
    if baseline is None or base is None:
        return []
    claims = []
    for candidate in able(observed):
        if (mine := _peak(candidate)) is not None:
            sizes = {"peak_bytes": mine, "baseline_bytes": base}
            said = say(SENTENCES, "call_peaks", candidate=candidate.name, baseline=baseline.name, **sizes)
            claims.append(claim("memory", said, (candidate.name, baseline.name), ("peak_allocated_bytes",)))
    return claims


def _peak(candidate: Candidate | None) -> int | None:
    return None if candidate is None or candidate.memory is None else candidate.memory.peak_allocated_bytes


def times(observed: Calls) -> list[Claim]:
    """One claim for each comparison in time whose candidate computes the same."""
    return [claim("time", _takes(found), (found.candidate, found.baseline), ("call_ms",)) for found in _timed(observed)]


def _takes(found: Comparison) -> Sentence:
    sides = {"candidate": found.candidate, "baseline": found.baseline}
    return say(SENTENCES, "call_takes", **sides, ratio=found.ratio, verdict=found.verdict)


def _timed(observed: Calls) -> list[Comparison]:
    names = {candidate.name for candidate in able(observed)}
    return [c for c in observed.comparisons if c.quantity == "call_ms" and c.candidate in names and c.ratio is not None]


def prevents(observed: Calls) -> Decision | None:
    """The decision when there is nothing to weigh: nothing ran, a gate was not run or failed, or a control passed.

    A candidate that broke down for a reason of its own is a result, and no verdict on the numbers of the others.
    """
    taken = [c for c in observed.candidates if c.role in ("baseline", "candidate") and c.status != "skipped"]
    if not taken:
        return decision("not_measured", say(SENTENCES, "nothing_executed"))
    finished = [c for c in observed.candidates if c.status == "ok"]
    if missing := never_run(finished):
        return decision("inconclusive", say(SENTENCES, "gates_never_run", gates=missing))
    twin = next((c for c in finished if c.role == "baseline_again" and not no_gate_failed(c)), None)
    wrong = [c.name for c in finished if c in taken and not no_gate_failed(c)]
    if twin is not None and not wrong:
        return decision("numerics_broken", say(SENTENCES, "call_not_repeated", again=twin.name))
    if wrong:
        return decision("numerics_broken", say(SENTENCES, "call_is_wrong", candidates=wrong))
    blind = [c.name for c in finished if c.role == "control" and gates_hold(c)]
    if blind:
        return decision("inconclusive", say(SENTENCES, "control_passed", controls=blind))
    if able(observed) and baseline_of(observed) is not None:
        return None
    return _nothing_compared(taken)


def _nothing_compared(taken: list[Candidate]) -> Decision:
    failures = [(c, c.failure) for c in taken if c.failure is not None]
    if any(c.status == "oom" for c, _ in failures):
        proposal = next((failure.proposal for _, failure in failures if failure.proposal), None)
        said = say(SENTENCES, "nothing_fits")
        if proposal:
            said = say(SENTENCES, "nothing_fits_yet", proposal=proposal)
        return decision("does_not_fit", said)
    clauses = [say(SENTENCES, "failed_in", candidate=c.name, kind=f.kind, phase=f.phase) for c, f in failures]
    unjudged = [c for c in taken if c.status == "ok" and lacking(c)]
    clauses += [say(SENTENCES, "not_judged", candidate=c.name, gates=lacking(c)) for c in unjudged]
    return decision("inconclusive", say(SENTENCES, "nothing_compared", failures=clauses))


def weighed(observed: Calls) -> Decision:
    """Peak against time, on a card: first what frees memory and is not slower, then the cheapest that frees any."""
    baseline = baseline_of(observed)
    base, timed = _peak(baseline), {found.candidate: found for found in _timed(observed)}
    if baseline is None or not base or not timed:
        return decision("inconclusive", say(SENTENCES, "nothing_to_weigh"))
    shares = {c.name: 1 - peak / base for c in able(observed) if c.name in timed and (peak := _peak(c)) is not None}
    freeing = [name for name, share in shares.items() if share >= LEAST_SHARE]
    free = [name for name in freeing if timed[name].verdict in ("same", "faster")]
    if free:
        best = max(free, key=lambda name: shares[name])
        return decision("adopt", say(SENTENCES, "frees_for_nothing", candidate=best, share=shares[best]))
    if freeing:
        best = min(freeing, key=lambda name: timed[name].ratio or 0.0)
        paid = {"share": shares[best], "ratio": timed[best].ratio}
        return decision("adopt_if_memory_bound", say(SENTENCES, "frees_for_time", candidate=best, **paid))
    faster = [found for found in timed.values() if found.verdict == "faster"]
    if faster:
        first = min(faster, key=lambda found: found.ratio or 0.0)
        sides = {"candidate": first.candidate, "baseline": first.baseline}
        return decision("adopt", say(SENTENCES, "only_faster", **sides, ratio=first.ratio))
    if any(found.verdict == "ambiguous" for found in timed.values()):
        return decision("inconclusive", say(SENTENCES, "within_noise"))
    return decision("avoid", say(SENTENCES, "neither", baseline=baseline.name))
