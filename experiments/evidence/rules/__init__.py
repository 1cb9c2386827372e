"""Rules that compute, one folder a version: a record names the version it was made with, and is verified by that one.

Adding a version is its folder and its entry in `KNOWN`. Nothing is ever computed by checking out an old commit.
"""

from __future__ import annotations

from dataclasses import replace

from experiments.evidence.record import Record
from experiments.evidence.rules import v1, v2
from experiments.evidence.rules.rule_set import Known, Rules
from experiments.evidence.vocabulary import RULES_VERSION
from tools.environments.errors import LabError

KNOWN: Known = {1: v1.RULES, 2: v2.RULES}
CURRENT: Rules = KNOWN[RULES_VERSION]  # of a record that is made now
UPDATE = "update this checkout: git pull"


def find(record: Record, known: Known = KNOWN) -> Rules | None:
    """The rules a record was computed with; None where this checkout does not have them."""
    return known.get(record.identity.rules)


def of(record: Record, known: Known = KNOWN) -> Rules:
    """The rules a record was computed with. Raises LabError where this checkout does not have them."""
    found = find(record, known)
    if found is None:
        raise LabError(f"a record of rules {versions(known)}", lacking(record), UPDATE, record.identity.run_label)
    return found


def graded(record: Record, known: Known = KNOWN) -> Record:
    """The record with level, limits and the claims' levels filled in by its own rules. Raises LabError as `of`."""
    found = of(record, known).grade(record)
    claims = tuple(
        replace(claim, level=answer.level, limits=answer.limits)
        for claim, answer in zip(record.claims, found.claims, strict=True)
    )
    return replace(record, evidence_level=found.level, limits=found.limits, claims=claims)


def lacking(record: Record) -> str:
    """What to say of a record whose rules are not here."""
    return f"rules version {record.identity.rules}"


def versions(known: Known) -> str:
    """`version 1`, `versions 1, 2`."""
    return f"version{'s' if len(known) > 1 else ''} {', '.join(map(str, sorted(known)))}"
