"""What a run on int8 weights says: the same outputs, fewer bytes read, what rounding lost, and what a call costs."""

from __future__ import annotations

from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.sentences import claim, decision, say
from experiments.harness.gates_held import able, gates_hold
from experiments.kinds.operator.concluding import (
    Calls,
    equivalence,
    peaks,
    prevents,
    share_read,
    times,
    weighed,
    weights,
)
from experiments.quantization.int8_weight_product.sentences import SENTENCES

PROBE = "rounding_error"
HALF_A_STEP = 0.5 + 2.0**-15  # dividing by the scale rounds up to 127 steps by u = 2**-24 each, twice


def conclude(observed: Calls) -> tuple[tuple[Claim, ...], Decision]:
    """Claims with their candidates, and the decision. Levels are for `grade`."""
    claims = [*equivalence(observed), *_control(observed), *_rounding(observed), *weights(observed)]
    if observed.device.kind == "cuda":
        claims += [*times(observed), *peaks(observed)]
    return tuple(claims), _decision(observed)


def _control(observed: Calls) -> list[Claim]:
    """That a wrong scale is seen, by how much."""
    claims = []
    for control in observed.candidates:
        gate = control.checks.gates.get("value")
        if control.role != "control" or control.status != "ok" or gates_hold(control) or gate is None:
            continue
        if gate.error is not None and not gate.passed:
            sizes = {"error": gate.error, "tolerance": gate.tolerance}
            said = say(SENTENCES, "neighbour_is_seen", control=control.name, **sizes)
            claims.append(claim("value_equivalence", said, (control.name,), ("value",)))
    return claims


def _rounding(observed: Calls) -> list[Claim]:
    """What the weights lost before any of this began, as the probe found it."""
    return [
        claim("quantization_error", say(SENTENCES, "quantised_weights", **answer), (candidate,), (probe,))
        for (candidate, probe), answer in observed.probes.items()
    ]


def _decision(observed: Calls) -> Decision:
    found = prevents(observed)
    if found is not None:
        return found
    for answer in observed.probes.values():
        if not answer["largest_step"] <= HALF_A_STEP:
            return decision("numerics_broken", say(SENTENCES, "step_too_large", largest_step=answer["largest_step"]))
    if observed.device.kind == "cuda":
        return weighed(observed)
    names, share = [candidate.name for candidate in able(observed)], share_read(observed)
    if share is None:
        return decision("numerics_ok", say(SENTENCES, "kept_uncounted", candidates=names))
    return decision("numerics_ok", say(SENTENCES, "kept_on_cpu", candidates=names, share=share))
