"""What pages conclude in the same words: gates held or not, time and memory beside the baseline, what does not fit.

Pure functions of finished candidates. A page adds what only it can say.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Comparison, Decision
from experiments.evidence.sentences import Sentence, claim, decision, say
from experiments.harness import gates_held
from experiments.harness.experiment import Observed
from experiments.harness.gates_held import no_gate_failed
from experiments.kinds.training_step.step_sentences import SENTENCES
from experiments.kinds.training_step.training_workload import TrainingWorkload


def able(observed: Observed[TrainingWorkload]) -> list[Candidate]:
    """Candidates that ran and of which no gate failed: where the baseline does not fit, there is nothing to run one by.

    The grade says of each what was not run.
    """
    return gates_held.able(observed, held=no_gate_failed)


def equivalence(observed: Observed[TrainingWorkload], baseline: str, because: Sentence) -> list[Claim]:
    """One claim over all candidates whose first gradients and update agree with the baseline.

    `because` is a clause of the page's own: why they have to.
    """
    kept = [c for c in able(observed) if _error(c) is not None]
    if not kept:
        return []
    worst = max(kept, key=lambda c: _error(c) or 0.0)
    error = _error(worst)
    size = say(SENTENCES, "bit_identical")
    if error:
        size = say(SENTENCES, "largest_error", error=error, candidate=worst.name)
    agreeing = [candidate.name for candidate in kept]
    said = say(SENTENCES, "gradients_agree", candidates=agreeing, baseline=baseline, size=size, because=because)
    return [claim("gradient_equivalence", said, agreeing, ("gradient", "update"))]


def _error(candidate: Candidate) -> float | None:
    gate = candidate.checks.gates.get("gradient")
    return None if gate is None else gate.error


def times(observed: Observed[TrainingWorkload], quantity: str = "step_ms") -> list[Claim]:
    """One claim for each comparison in time whose candidate computes the same."""
    names = {candidate.name for candidate in able(observed)}
    return [
        claim("time", _time(entry), (entry.candidate, entry.baseline), (quantity,))
        for entry in observed.comparisons
        if entry.quantity == quantity and entry.candidate in names and entry.ratio is not None
    ]


def _time(entry: Comparison) -> Sentence:
    sides = {"candidate": entry.candidate, "baseline": entry.baseline}
    return say(SENTENCES, "step_takes", **sides, ratio=entry.ratio, verdict=entry.verdict)


def memories(observed: Observed[TrainingWorkload]) -> list[Claim]:
    """One claim for each candidate's peak and residency beside the baseline's."""
    baseline = next((c for c in observed.candidates if c.is_baseline), None)
    if baseline is None or baseline.memory is None:
        return []
    claims = []
    for candidate in able(observed):
        sentence = memory_sentence(candidate, baseline)
        if sentence:
            ground = _memory_ground(candidate, baseline)
            claims.append(claim("memory", sentence, (candidate.name, baseline.name), ground))
    return claims


def _memory_ground(candidate: Candidate, baseline: Candidate) -> tuple[str, ...]:
    """The quantities `memory_sentence` speaks of: those that both have."""
    words = ["peak_allocated_bytes", "after_forward_bytes", *(["peak_reserved_bytes"] if captured(candidate) else [])]
    both = (candidate.memory, baseline.memory)
    return tuple(word for word in words if all(getattr(memory, word) is not None for memory in both))


def memory_sentence(candidate: Candidate, baseline: Candidate) -> Sentence | None:
    """Peak and after-forward residency of both in one sentence; None where they were not measured."""
    mine, base = candidate.memory, baseline.memory
    if mine is None or base is None or mine.peak_allocated_bytes is None or base.peak_allocated_bytes is None:
        return None
    more = []
    if mine.after_forward_bytes is not None and base.after_forward_bytes is not None:
        held = {"held_bytes": mine.after_forward_bytes, "baseline_bytes": base.after_forward_bytes}
        more.append(say(SENTENCES, "after_forward", **held, baseline=baseline.name))
    if captured(candidate) and mine.peak_reserved_bytes is not None and base.peak_reserved_bytes is not None:
        held = {"reserved_bytes": mine.peak_reserved_bytes, "baseline_bytes": base.peak_reserved_bytes}
        more.append(say(SENTENCES, "pool_of_the_graph", **held, baseline=baseline.name))
    return say(
        SENTENCES,
        "peaks",
        candidate=candidate.name,
        peak_bytes=mine.peak_allocated_bytes,
        baseline=baseline.name,
        baseline_bytes=base.peak_allocated_bytes,
        more=more,
    )


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
        return decision("not_measured", say(SENTENCES, "nothing_executed"))
    baseline = next((c for c in taken if c.is_baseline), None)
    twin = next((c for c in observed.candidates if c.role == "baseline_again" and c.status == "ok"), None)
    if twin is not None and not _repeats(twin):
        return decision("numerics_broken", say(SENTENCES, "baseline_not_repeated", again=twin.name))
    if baseline is not None and _off_float64_alone(baseline):
        return decision("numerics_broken", say(SENTENCES, "baseline_off_float64", baseline=baseline.name))
    broken = [candidate.name for candidate in taken if lost_numbers(candidate)]
    if broken:
        return decision("numerics_broken", say(SENTENCES, "numbers_lost", candidates=broken))
    if able(observed):
        return None
    if any(c.status == "oom" for c in taken):
        proposal = next((c.failure.proposal for c in taken if c.failure and c.failure.proposal), None)
        said = say(SENTENCES, "nothing_fits")
        if proposal:
            said = say(SENTENCES, "nothing_fits_yet", proposal=proposal)
        return decision("does_not_fit", said)
    if baseline is not None and baseline.status == "ok" and len(taken) == 1:
        return None
    failures = [
        say(SENTENCES, "failed_in", candidate=c.name, kind=c.failure.kind, phase=c.failure.phase)
        for c in taken
        if c.failure
    ]
    return decision("inconclusive", say(SENTENCES, "nothing_compared", failures=failures))


def _repeats(twin: Candidate) -> bool:
    """Finite, and as the baseline: what lies between both and float64 is no word on whether one repeats the other."""
    others = {name: gate for name, gate in twin.checks.gates.items() if name != "oracle"}
    return no_gate_failed(replace(twin, checks=replace(twin.checks, gates=others)))


def _off_float64_alone(baseline: Candidate) -> bool:
    """Whether the float64 oracle is what failed, and nothing else: every candidate fails it with the baseline."""
    return baseline.status == "ok" and not no_gate_failed(baseline) and _repeats(baseline)


def lost_numbers(candidate: Candidate) -> bool:
    """Whether its numbers are wrong: a gate failed, or a loss was not finite."""
    if candidate.status == "ok":
        return not no_gate_failed(candidate)
    return candidate.failure is not None and candidate.failure.kind == "NonFiniteLoss"


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
            return decision("adopt", say(SENTENCES, "only_it_fits", candidate=best.name, baseline=baseline.name))
    ratios = {c.candidate: c.ratio for c in observed.comparisons if c.quantity == "step_ms"}
    rated = [(share, c) for c in able(observed) if (share := freed(observed, c)) is not None]
    if not rated:
        return decision("inconclusive", say(SENTENCES, "nothing_to_weigh"))
    share, best = max(rated, key=lambda pair: pair[0])
    ratio = ratios.get(best.name)
    if share < 0.02:
        return decision("avoid", say(SENTENCES, "no_lower_peak"))
    if ratio is None:
        return decision("inconclusive", say(SENTENCES, "frees_at_a_price", candidate=best.name, share=share))
    cheap = [(s, c) for s, c in rated if s >= 0.02 and ratios.get(c.name) and (ratios[c.name] or 9) <= 1.02]
    if cheap:
        share, best = max(cheap, key=lambda pair: pair[0])
        free = say(SENTENCES, "frees_for_nothing", candidate=best.name, share=share, ratio=ratios[best.name])
        return decision("adopt", free)
    paid = say(SENTENCES, "frees_for_time", candidate=best.name, share=share, ratio=ratio)
    return decision("adopt_if_memory_bound", paid)
