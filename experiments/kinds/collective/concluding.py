"""What experiments on collectives conclude in the same words: exact sums, what they cost, what is in the way.

Pure functions of finished candidates. An experiment adds what only it can say.
"""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import claim, decision, say
from experiments.harness import gates_held
from experiments.harness.experiment import Observed
from experiments.harness.gates_held import gates_hold, lacking, never_run, no_gate_failed
from experiments.kinds.collective.collective_sentences import SENTENCES
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.foretold import foretold
from experiments.kinds.collective.size_ladder import word_at


def able(observed: Observed[CollectiveWorkload]) -> list[Candidate]:
    """The baseline and the candidates that ran and whose gates held: a claim on exact sums may be about either."""
    return gates_held.able(observed, ("baseline", "candidate"))


def exactness(observed: Observed[CollectiveWorkload]) -> list[Claim]:
    """One claim over all whose sums are exact; the controls that were caught are named in it."""
    kept = [candidate.name for candidate in able(observed)]
    if not kept:
        return []
    controls = [c for c in observed.candidates if c.role == "control" and c.status == "ok"]
    caught = [control.name for control in controls if not gates_hold(control)]
    sizes = observed.workload.timed
    said = say(
        SENTENCES,
        "sums_are_exact",
        candidates=kept,
        ranks=observed.workload.ranks,
        sizes=len(sizes),
        smallest=sizes[0],
        largest=sizes[-1],
        caught=[say(SENTENCES, "controls_caught", controls=caught)] if caught else [],
    )
    return [claim("sums_exact", said, kept, ("sums", "ranks"))]


def costs(observed: Observed[CollectiveWorkload]) -> list[Claim]:
    """For each of them the fitted line, and whether it holds; one that does not is limited by its candidate's mark."""
    claims, workload = [], observed.workload
    for candidate in able(observed):
        found = foretold(candidate, workload)
        if found is None:
            continue
        said = say(
            SENTENCES,
            found.code,
            candidate=candidate.name,
            alpha_ms=found.model.alpha_ms,
            ns_per_byte=found.model.ns_per_byte,
            ranks=workload.ranks,
            unseen=workload.unseen,
            measured_ms=found.measured_ms,
            low_ms=found.expected.low,
            high_ms=found.expected.high,
        )
        ground = tuple(word_at(size) for size in workload.timed)
        claims.append(claim("cost_model", said, (candidate.name,), ground))
    return claims


def times(observed: Observed[CollectiveWorkload]) -> list[Claim]:
    """One claim for each candidate beside the baseline, at the largest size."""
    names = {candidate.name for candidate in able(observed)}
    claims = []
    for entry in observed.comparisons:
        if entry.quantity != "collective_ms" or not {entry.candidate, entry.baseline} <= names or entry.ratio is None:
            continue
        said = say(
            SENTENCES,
            "takes_beside",
            candidate=entry.candidate,
            baseline=entry.baseline,
            ratio=entry.ratio,
            largest=observed.workload.sizes[-1],
            verdict=entry.verdict,
        )
        claims.append(claim("time", said, (entry.candidate, entry.baseline), ("collective_ms",)))
    return claims


def in_the_way(observed: Observed[CollectiveWorkload]) -> Decision | None:
    """The decision where there is nothing to weigh: nothing or no gate ran, a sum is wrong, or the baseline failed."""
    taken = [c for c in observed.candidates if c.role in ("baseline", "candidate") and c.status != "skipped"]
    if not taken:
        return decision("not_measured", say(SENTENCES, "nothing_was_executed"))
    finished = [c for c in observed.candidates if c.status == "ok"]
    if missing := never_run(finished):
        return decision("inconclusive", say(SENTENCES, "gates_never_run", gates=missing))
    wrong = [c.name for c in finished if c.role != "control" and not no_gate_failed(c)]
    if wrong:
        return decision("numerics_broken", say(SENTENCES, "sums_are_wrong", candidates=wrong))
    kept = able(observed)
    if any(candidate.is_baseline for candidate in kept) and len(kept) > 1:
        return None
    failures = [
        say(SENTENCES, "failed_while", candidate=c.name, kind=c.failure.kind, phase=c.failure.phase)
        for c in taken
        if c.failure
    ]
    unjudged = [c for c in taken if c.status == "ok" and lacking(c)]
    failures += [say(SENTENCES, "not_judged", candidate=c.name, gates=lacking(c)) for c in unjudged]
    return decision("inconclusive", say(SENTENCES, "nothing_to_compare", failures=failures))
