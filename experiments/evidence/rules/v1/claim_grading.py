"""The level of one claim: the record's, unless the claim's own candidates or kind hold it lower."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Claim, Limit
from experiments.evidence.limits import EVERY_CLAIM, claim_limit
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import ClaimGrade
from experiments.evidence.rules.v1.gates import control_caught, passes
from experiments.evidence.vocabulary import LEVELS, ClaimKind, Level


def claim_limits(record: Record) -> tuple[Limit, ...]:
    """Limits that hold for kinds of claims in the whole record, and leave its level alone."""
    loose = [c.name for c in record.candidates if c.role == "control" and c.status == "ok" and not control_caught(c)]
    return (
        *accepted_warnings(record, EVERY_CLAIM),
        *of_the_device(record, ("memory", "time")),
        *random_weights(record),
        *loose_controls(loose),
    )


def accepted_warnings(record: Record, kinds: Sequence[ClaimKind]) -> tuple[Limit, ...]:
    """A limit for each warning of the preflight that was accepted by name."""
    report = record.profile.preflight
    if report is None:
        return ()
    found = []
    for check in report.checks:
        if check.status == "warning" and check.id in report.accepted:
            known = {"check": check.id, "wanted": check.wanted, "found": check.found, "repair": check.repair}
            found.append(claim_limit("accepted_warning", kinds, **known))
    return tuple(found)


def of_the_device(record: Record, kinds: Sequence[ClaimKind]) -> tuple[Limit, ...]:
    """A memory cap, and other processes on the card."""
    found = []
    for device in record.runtime.devices:
        if device.memory_cap_gib is not None:
            found.append(claim_limit("memory_cap", kinds, device=device.name, cap_gib=device.memory_cap_gib))
        if device.other_processes:
            others = device.other_processes
            found.append(claim_limit("shared_device", kinds, processes=others, device=device.name))
    return tuple(found)


def random_weights(record: Record) -> tuple[Limit, ...]:
    """What weights that were never trained cannot show."""
    if record.model is None or record.model.weights_source != "random_init":
        return ()
    return (claim_limit("random_init", ("quality", "scaler_semantics")),)


def loose_controls(names: Sequence[str]) -> tuple[Limit, ...]:
    """Candidates that are wrong on purpose and passed."""
    if not names:
        return ()
    return (claim_limit("control_not_caught", ("gradient_equivalence",), controls=list(names)),)


def not_measured(claim: Claim) -> Limit:
    """The limit of a claim whose candidates lack what it needs."""
    named = list(claim.candidates)
    if not named:
        return claim_limit("not_measured", (claim.kind,), "nothing_named", kind=claim.kind)
    return claim_limit("not_measured", (claim.kind,), kind=claim.kind, candidates=named)


def grade_claim(record: Record, claim: Claim, level: Level, limits: Sequence[Limit]) -> ClaimGrade:
    """Level and limits of `claim` in a record of `level`; `limits` are the record's."""
    found = [limit for limit in limits if not limit.claims or claim.kind in limit.claims]
    named = [candidate for candidate in record.candidates if candidate.name in claim.candidates]
    ceilings: list[Level] = [level]
    if not _measured(record, claim, named):
        found.append(not_measured(claim))
        ceilings.append("plan")
    if claim.kind in ("memory", "time") and level == "cpu_mechanism":
        found.append(claim_limit("expectation", (claim.kind,)))
    if claim.kind in ("memory", "time", "gradient_equivalence"):
        suspect = [c.name for c in named if c.status == "ok" and c.role != "control" and not passes(c)]
        if suspect:
            found.append(claim_limit("claim_gate_failed", (claim.kind,), "claim_gate_failed_v1", candidates=suspect))
            ceilings.append("plan" if claim.kind == "gradient_equivalence" else "gpu_smoke")
    if claim.kind == "time":
        about = [c for c in record.comparisons if c.candidate in claim.candidates and c.quantity == "step_ms"]
        unclear = [comparison.candidate for comparison in about if comparison.verdict == "ambiguous"]
        if unclear:
            found.append(claim_limit("ambiguous", ("time",), candidates=unclear))
    return ClaimGrade(min(ceilings, key=LEVELS.index), tuple(found))


def _measured(record: Record, claim: Claim, named: Sequence[Candidate]) -> bool:
    if not named or len(named) != len(set(claim.candidates)):
        return False
    if record.identity.run_mode == "dry_run":
        return True  # a plan may say what it would measure: the level is `plan` already
    if claim.kind == "time":
        return all(c.status == "ok" and c.median("step_ms") is not None for c in named) or _predicted(named, "step_ms")
    if claim.kind == "memory":
        seen = all(c.status == "oom" or (c.memory and c.memory.peak_allocated_bytes is not None) for c in named)
        return seen or _predicted(named, "peak_allocated_bytes")
    if claim.kind == "gradient_equivalence":
        return all(
            c.status == "ok" and ({"gradient", "oracle"} & c.checks.gates.keys() or c.is_baseline) for c in named
        )
    if claim.kind == "scaler_semantics":
        return all(c.numerics and c.numerics.scaler and c.numerics.scaler.passed for c in named)
    # Quality: nothing here measures it yet, and random weights cannot.
    return False


def _predicted(named: Sequence[Candidate], quantity: str) -> bool:
    """A ledger's word counts as the result only of candidates that were not executed; the level says so."""
    return all("not_executed" in c.marks and any(p.quantity == quantity for p in c.predictions) for c in named)
