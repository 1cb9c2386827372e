"""What a run says: which ways give the same product, that the control was caught, and on a card what a call costs."""

from __future__ import annotations

from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import claim, decision, say
from experiments.harness.gates_held import able, gates_hold
from experiments.kinds.operator.concluding import Calls, equivalence, peaks, prevents, times, weighed
from experiments.kinds.operator.template.sentences import SENTENCES


# Change: what only this page can say. The kind's own claims come first; a function of the record's candidates alone.
def conclude(observed: Calls) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. How far each may be trusted is graded elsewhere."""
    claims = [*equivalence(observed), *_control(observed)]
    if observed.device.kind == "cuda":  # no time of a CPU is claimed
        claims += [*times(observed), *peaks(observed)]
    return tuple(claims), _decision(observed)


def _control(observed: Calls) -> list[Claim]:
    """That the control is seen, and how far off it is."""
    claims = []
    for control in observed.candidates:
        gate = control.checks.gates.get("value")
        if control.role == "control" and control.status == "ok" and gate is not None and not gates_hold(control):
            said = say(SENTENCES, "shift_is_seen", control=control.name, error=gate.error, tolerance=gate.tolerance)
            claims.append(claim("value_equivalence", said, (control.name,), ("value",)))
    return claims


def _decision(observed: Calls) -> Decision:
    found = prevents(observed)  # nothing ran, a gate failed, or a control passed
    if found is not None:
        return found
    if observed.device.kind == "cuda":
        return weighed(observed)
    return decision("numerics_ok", say(SENTENCES, "same_on_cpu", candidates=[one.name for one in able(observed)]))
