"""The level of one claim: the record's, unless what the claim rests on holds it lower.

A claim names the quantities, gates and probes that each of its candidates must have for it. Nothing here knows a kind
of claim, so that a new kind of measurement brings its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Limit
from experiments.evidence.limits import EVERY_CLAIM, claim_limit
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import ClaimGrade
from experiments.evidence.rules.v1 import claim_grading
from experiments.evidence.rules.v2.gates_by_name import control_caught, passes
from experiments.evidence.vocabulary import LEVELS, PREDICTION_MISSED, Level

SCALER = "scaler"  # ground of a claim on the scaler's state machine: the trace in `numerics`, where it passed


def claim_limits(record: Record) -> tuple[Limit, ...]:
    """Limits that hold for kinds of claims in the whole record, and leave its level alone."""
    sized = _kinds(record, "repetition", "process")
    return (
        *claim_grading.accepted_warnings(record, _every_kind(record)),
        *claim_grading.of_the_device(record, tuple(dict.fromkeys(("memory", "time", *sized)))),
        *claim_grading.random_weights(record),
        *_loose_controls(record),
    )


def _loose_controls(record: Record) -> tuple[Limit, ...]:
    """Candidates that are wrong on purpose and passed: they limit what rests on the gates that should have seen them.

    Where no claim does, any claim of the record.
    """
    loose = [c for c in record.candidates if c.role == "control" and c.status == "ok" and not control_caught(c)]
    if not loose:
        return ()
    gates = {word for control in loose for word in (*control.checks.wanted, *control.checks.gates)}
    kinds = tuple(dict.fromkeys(claim.kind for claim in record.claims if gates & set(claim.rests_on)))
    names = [control.name for control in loose]
    return (claim_limit("control_not_caught", kinds or _every_kind(record), controls=names),)


def grade_claim(record: Record, claim: Claim, level: Level, limits: Sequence[Limit]) -> ClaimGrade:
    """Level and limits of `claim` in a record of `level`; `limits` are the record's."""
    found = [limit for limit in limits if not limit.claims or claim.kind in limit.claims]
    named = [candidate for candidate in record.candidates if candidate.name in claim.candidates]
    quantities = [word for word in claim.rests_on if record.quantity(word) is not None]
    gates = [word for word in claim.rests_on if any(word in candidate.checks.wanted for candidate in record.candidates)]
    ceilings: list[Level] = [level]
    if not _grounded(record, claim, named):
        found.append(claim_grading.not_measured(claim))
        ceilings.append("plan")
    if quantities and level == "cpu_mechanism":
        found.append(claim_limit("expectation", (claim.kind,)))
    suspect = [c.name for c in named if c.status == "ok" and c.role != "control" and not passes(c)]
    if (quantities or gates) and suspect:
        found.append(claim_limit("claim_gate_failed", (claim.kind,), candidates=suspect))
        ceilings.append("plan" if gates else "gpu_smoke")
    missed = [c.name for c in named if PREDICTION_MISSED in c.marks and _predicts(c, claim)]
    if missed:
        found.append(claim_limit("prediction_missed", (claim.kind,), candidates=missed))
    unclear = [
        comparison.candidate
        for comparison in record.comparisons
        if comparison.candidate in claim.candidates
        and comparison.quantity in quantities
        and comparison.verdict == "ambiguous"
    ]
    if unclear:
        found.append(claim_limit("ambiguous", (claim.kind,), candidates=list(dict.fromkeys(unclear))))
    return ClaimGrade(min(ceilings, key=LEVELS.index), tuple(found))


def _grounded(record: Record, claim: Claim, named: Sequence[Candidate]) -> bool:
    if not named or len(named) != len(set(claim.candidates)) or not claim.rests_on:
        return False
    if record.identity.run_mode == "dry_run":
        return True  # a plan may say what it would measure: the level is `plan` already
    return all(_has(record, candidate, word) for candidate in named for word in claim.rests_on)


def _has(record: Record, candidate: Candidate, word: str) -> bool:
    """Whether a candidate has what a claim rests on. A ledger's word counts only where nothing was executed."""
    quantity = record.quantity(word)
    if quantity is None:
        return candidate.status == "ok" and (candidate.is_baseline or _checked(candidate, word))
    if "not_executed" in candidate.marks:
        return any(prediction.quantity == word for prediction in candidate.predictions)
    if quantity.taken == "repetition":
        return candidate.status == "ok" and candidate.median(word) is not None
    return candidate.status == "oom" or getattr(candidate.memory, word, None) is not None


def _predicts(candidate: Candidate, claim: Claim) -> bool:
    """Whether a claim rests on a quantity for which a formula of the candidate states a value."""
    return any(prediction.quantity in claim.rests_on for prediction in candidate.predictions)


def _checked(candidate: Candidate, word: str) -> bool:
    if word == SCALER:
        return bool(candidate.numerics and candidate.numerics.scaler and candidate.numerics.scaler.passed)
    return word in candidate.checks.gates or word in (candidate.probes or {})


def _every_kind(record: Record) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*EVERY_CLAIM, *(claim.kind for claim in record.claims))))


def _kinds(record: Record, *taken: str) -> tuple[str, ...]:
    """Kinds of claims in the record that rest on a quantity taken so."""
    words = {quantity.word for quantity in record.quantities if quantity.taken in taken}
    return tuple(claim.kind for claim in record.claims if words & set(claim.rests_on))
