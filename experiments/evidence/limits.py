"""The reasons why evidence reaches no higher, as a closed list: each code, what it means, and how a `Limit` is made.

docs/evidence_contract.md prints this list, so a code without a meaning cannot exist.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from experiments.evidence.conclusion import Limit
from experiments.evidence.limit_sentences import SENTENCES
from experiments.evidence.sentences import fields, say
from experiments.evidence.vocabulary import ClaimKind

EVERY_CLAIM: tuple[ClaimKind, ...] = ("memory", "time", "gradient_equivalence", "scaler_semantics", "quality")

LEVEL_LIMITS: Mapping[str, str] = {
    "dry_run": "a plan was made and nothing was executed",
    "not_executed": "only a ledger or a formula was computed, or no candidate came as far as a step",
    "cpu_only": "it ran on CPU: numerics and semantics, never a GPU's memory or speed",
    "no_device": "the run mode says GPU, but no card is in the runtime snapshot",
    "other_image": "it ran in an image that was built for another profile: a CPU image never yields GPU evidence",
    "off_profile": "a check that makes an environment the profile's did not hold",
    "profile_not_checked": "such a check was not made: quick preflight, or none",
    "unregistered_workload": "the workload is not one the experiment registers",
    "no_noise_floor": "the baseline was not measured twice, so no difference can be told from noise",
    "dirty_tree": "the sources that took part differ from the commit",
    "gate_failed": "a candidate's gradients, update or finiteness did not pass",
    "gate_missing": "a candidate has results, but a gate was not run on it",
}

CLAIM_LIMITS: Mapping[str, str] = {
    "accepted_warning": "a preflight warning was accepted by name",
    "memory_cap": "the card was made small in memory, not in speed",
    "random_init": "weights are random: no quality, no natural underflow or scale history",
    "shared_device": "other processes were on the card when the run began",
    "ambiguous": "the difference lies across the edge of the noise floor",
    "not_measured": "nothing of this kind was measured for the candidates named",
    "expectation": "measured or computed off a card: an expectation, not a GPU figure",
    "control_not_caught": "a candidate that is wrong on purpose passed its gate",
    "prediction_missed": "the claim rests on a quantity that was measured outside the bound of its prediction",
    "claim_gate_failed": "a candidate named in the claim failed its gate or has none",
}


def level_limit(code: str, wording: str = "", /, **arguments: object) -> Limit:
    """A limit of the record's level. `wording` is the code of its template where that is another than the limit's."""
    if code not in LEVEL_LIMITS:
        raise KeyError(code)
    return _limit(code, wording or code, (), arguments)


def claim_limit(code: str, claims: Sequence[ClaimKind], wording: str = "", /, **arguments: object) -> Limit:
    """A limit of some claims that leaves the record's level as it is; `wording` as in `level_limit`."""
    if code not in CLAIM_LIMITS:
        raise KeyError(code)
    return _limit(code, wording or code, tuple(claims), arguments)


def _limit(code: str, wording: str, claims: tuple[ClaimKind, ...], arguments: Mapping[str, object]) -> Limit:
    said = say(SENTENCES, wording, **arguments).said
    reason, lift = (_line(line, arguments) for line in SENTENCES[wording].split("\n"))
    return Limit(code=code, reason=reason, lift=lift, claims=claims, said=said)


def _line(template: str, arguments: Mapping[str, object]) -> str:
    """One of a template's two lines: an argument may have lines of its own."""
    return say({"line": template}, "line", **{name: arguments[name] for name in fields(template)}).text
