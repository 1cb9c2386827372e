"""What a run says: whose sums are exact, what they cost, that the control was caught, and on cards which to take."""

from __future__ import annotations

from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import decision, say
from experiments.evidence.vocabulary import DecisionCode
from experiments.harness.experiment import Observed
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.concluding import able, costs, exactness, in_the_way, times
from experiments.kinds.collective.template.sentences import SENTENCES

CODES: dict[str, DecisionCode] = {"faster": "adopt", "slower": "avoid", "same": "equivalent"}


# Change: what only this page can say. A function of the record's candidates and comparisons alone.
def conclude(observed: Observed[CollectiveWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. How far each may be trusted is graded elsewhere."""
    claims = [*exactness(observed), *costs(observed)]
    if observed.device.kind == "cuda":  # no time of a CPU is claimed
        claims += times(observed)
    return tuple(claims), _decision(observed)


def _decision(observed: Observed[CollectiveWorkload]) -> Decision:
    found = in_the_way(observed)  # nothing ran, a sum is wrong, or nothing can be compared
    if found is not None:
        return found
    names = [candidate.name for candidate in able(observed)]
    if observed.device.kind == "cpu":
        return decision("numerics_ok", say(SENTENCES, "same_sums", candidates=names, ranks=observed.workload.ranks))
    compared = [c for c in observed.comparisons if c.quantity == "collective_ms" and c.candidate in names]
    best = next((entry for entry in compared if entry.ratio is not None and entry.verdict in CODES), None)
    if best is None:
        return decision("inconclusive", say(SENTENCES, "no_clear_difference"))
    sides = {"candidate": best.candidate, "baseline": best.baseline, "verdict": best.verdict}
    said = say(SENTENCES, "pieces_take", **sides, ratio=best.ratio, largest=observed.workload.sizes[-1])
    return decision(CODES[best.verdict], said)
