"""What a checkpointing run says: same gradients, what it frees, what it costs, and what dropout needs."""

from __future__ import annotations

from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import claim, decision, say
from experiments.harness.experiment import Observed
from experiments.kinds.training_step.concluding import able, equivalence, memories, stands_in_the_way, times, weighed
from experiments.kinds.training_step.training_workload import TrainingWorkload
from experiments.training_mechanism.activation_checkpointing.sentences import SENTENCES


def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    claims = [
        *equivalence(observed, "none", say(SENTENCES, "computed_twice")),
        *_dropout(observed),
    ]
    if observed.device.kind == "cuda":
        claims += [*times(observed), *memories(observed)]
    return tuple(claims), _decision(observed)


def _dropout(observed: Observed[TrainingWorkload]) -> list[Claim]:
    claims = []
    for (candidate, probe), answer in observed.probes.items():
        kept, lost = answer.get("kept_error"), answer.get("lost_error")
        if not isinstance(kept, int | float) or not isinstance(lost, int | float):
            continue
        exact = say(SENTENCES, "kept_bits") if kept == 0 else say(SENTENCES, "kept_off", error=kept)
        said = say(SENTENCES, "under_dropout", dropout=answer["dropout"], kept=exact, lost_error=lost)
        claims.append(claim("gradient_equivalence", said, (candidate,), (probe,)))
    return claims


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)
    if found is not None:
        return found
    for answer in observed.probes.values():
        kept = answer.get("kept_error")
        if isinstance(kept, int | float) and kept > 1e-3:
            return decision("numerics_broken", say(SENTENCES, "state_not_restored", error=kept))
    if observed.device.kind == "cpu":
        return decision("numerics_ok", say(SENTENCES, "kept_on_cpu", candidates=[c.name for c in able(observed)]))
    return weighed(observed)
