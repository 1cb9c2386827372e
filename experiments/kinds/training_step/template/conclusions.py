"""What a run says: whose gradients are those of the whole, that the control was caught, and on a card what it costs."""

from __future__ import annotations

from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import claim, decision, say
from experiments.harness.experiment import Observed
from experiments.harness.gates_held import control_caught
from experiments.kinds.training_step.concluding import able, equivalence, memories, stands_in_the_way, times, weighed
from experiments.kinds.training_step.template.sentences import SENTENCES
from experiments.kinds.training_step.training_workload import TrainingWorkload


# Change: what only this page can say. A function of the record's candidates and comparisons alone.
def conclude(observed: Observed[TrainingWorkload]) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. How far each may be trusted is graded elsewhere."""
    claims = [*equivalence(observed, "whole", say(SENTENCES, "divided_alike")), *_control(observed)]
    if observed.device.kind == "cuda":  # neither time nor memory of a CPU is claimed
        claims += [*times(observed), *memories(observed)]
    return tuple(claims), _decision(observed)


def _control(observed: Observed[TrainingWorkload]) -> list[Claim]:
    """That the control is seen, and how far off it is."""
    claims = []
    for control in observed.candidates:
        gate = control.checks.gates.get("gradient")
        if control.role == "control" and control.status == "ok" and gate is not None and control_caught(control):
            said = say(SENTENCES, "mean_is_seen", control=control.name, error=gate.error, tolerance=gate.tolerance)
            claims.append(claim("gradient_equivalence", said, (control.name,), ("gradient",)))
    return claims


def _decision(observed: Observed[TrainingWorkload]) -> Decision:
    found = stands_in_the_way(observed)  # nothing ran, a gate failed, or nothing can be compared
    if found is not None:
        return found
    blind = [c.name for c in observed.candidates if c.role == "control" and c.status == "ok" and not control_caught(c)]
    if blind:
        return decision("inconclusive", say(SENTENCES, "control_unseen", controls=blind))
    if observed.device.kind == "cuda":
        return weighed(observed)
    return decision("numerics_ok", say(SENTENCES, "same_update", candidates=[one.name for one in able(observed)]))
