"""What a run of the all-reduce page says: exact sums, what each form costs, and which to take on a card."""

from __future__ import annotations

from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import decision, say
from experiments.evidence.vocabulary import DecisionCode
from experiments.harness.experiment import Observed
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.concluding import able, costs, exactness, in_the_way, times
from experiments.parallelism.all_reduce_cost.sentences import SENTENCES

SAID: dict[str, tuple[DecisionCode, str]] = {
    "faster": ("adopt", "ring_is_faster"),
    "slower": ("avoid", "ring_is_slower"),
    "same": ("equivalent", "ring_is_alike"),
}


def conclude(observed: Observed[CollectiveWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    claims = [*exactness(observed), *costs(observed)]
    if observed.device.kind == "cuda":
        claims += times(observed)
    return tuple(claims), _decision(observed)


def _decision(observed: Observed[CollectiveWorkload]) -> Decision:
    found = in_the_way(observed)
    if found is not None:
        return found
    names = [candidate.name for candidate in able(observed)]
    if observed.device.kind == "cpu":
        said = say(SENTENCES, "exact_on_cpu", candidates=names, ranks=observed.workload.ranks)
        return decision("numerics_ok", said)
    compared = [c for c in observed.comparisons if c.quantity == "collective_ms" and c.candidate in names and c.ratio]
    if not compared or compared[0].verdict not in SAID:
        return decision("inconclusive", say(SENTENCES, "within_noise"))
    (code, sentence), best = SAID[compared[0].verdict], compared[0]
    sides = {"candidate": best.candidate, "baseline": best.baseline, "largest": observed.workload.sizes[-1]}
    ratio = {} if code == "equivalent" else {"ratio": best.ratio}
    return decision(code, say(SENTENCES, sentence, **sides, **ratio))
