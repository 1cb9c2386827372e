"""Does this checkout have the rules a record names, and would newer ones decide otherwise about it?

A record keeps the rules it was made with: what newer ones say of it is a warning, and nothing in it changes. What its
own compute of it is in it already, and `verifying` asks whether it is right: it is not drawn a second time here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace

from experiments.evidence import rules
from experiments.evidence.conclusion import Claim, Decision
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import Known, Rules
from experiments.evidence.verifying import NEW_RUN, not_recomputed
from tools.environments.model import Check

ID = "record.rules"
MOST_NAMED = 4  # of what differs; the rest is counted

Concluded = tuple[tuple[Claim, ...], Decision]
Conclude = Callable[[Record, Rules], Concluded | None]  # None where there is nothing to conclude by


def nothing_concluded(record: Record, by: Rules) -> Concluded | None:
    """For records whose claims and decision are not drawn by an experiment of this checkout."""
    return None


def check(record: Record, conclude: Conclude = nothing_concluded, known: Known = rules.KNOWN) -> Check:
    """One check: a warning where the record's rules are missing, or where the newest ones would decide otherwise."""
    own, newest = rules.find(record, known), known[max(known)]
    if own is None:
        return not_recomputed(ID, record, known)
    wanted = "rules that decide as the newest do"
    if newest.version <= own.version:
        return Check(ID, "ok", wanted, f"version {own.version}, the newest")
    found = list(differences(record, own, newest, conclude))
    if not found:
        return Check(ID, "ok", wanted, f"version {own.version}; version {newest.version} decides the same")
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    told = f"superseded rule: version {newest.version} would say {'; '.join(found[:MOST_NAMED])}{more}"
    return Check(ID, "warning", wanted, told, NEW_RUN)


def differences(record: Record, own: Rules, newer: Rules, conclude: Conclude) -> Iterator[str]:
    """What newer rules would decide otherwise: level, limits, gates, verdicts, claims, decision. Not their digits."""
    old, new = record, computed(record, newer)
    if old.evidence_level != new.evidence_level:
        yield f"level {new.evidence_level}, not {old.evidence_level}"
    ours, theirs = (Counter(limit.code for limit in found.limits) for found in (old, new))
    yield from (f"limit {code} more" for code in sorted((theirs - ours).elements()))
    yield from (f"limit {code} less" for code in sorted((ours - theirs).elements()))
    for candidate in record.candidates:
        failed, fails = bool(own.failed_gates(candidate)), bool(newer.failed_gates(candidate))
        if failed != fails:
            yield f"gates of {candidate.name} {'failed' if fails else 'passed'}"
    before, after = ({(c.candidate, c.quantity): c.verdict for c in found.comparisons} for found in (old, new))
    for pair in [*before, *(pair for pair in after if pair not in before)]:
        if before.get(pair) != after.get(pair):
            name, quantity = pair
            yield f"{name} in {quantity} {after.get(pair, 'not compared')}, not {before.get(pair, 'not compared')}"
    for claim, other in zip(old.claims, new.claims, strict=True):
        grades = [(found.level, [limit.code for limit in found.limits]) for found in (claim, other)]
        if grades[0] != grades[1]:
            limits = ", ".join(grades[1][1]) or "none"
            yield f"claim on {claim.kind} of {', '.join(claim.candidates)} at {other.level} with limits {limits}"
    yield from _conclusions(conclude(record, own), conclude(new, newer))


def computed(record: Record, by: Rules) -> Record:
    """The record with everything that a version of the rules computes from its samples, and graded by that version."""
    candidates = tuple(
        replace(candidate, summary=by.summarise(candidate.name, candidate.samples, record.quantities))
        for candidate in record.candidates
    )
    floors, comparisons = by.noise_floors(candidates, record.quantities), by.comparisons(candidates, record.quantities)
    restated = replace(record, candidates=candidates, noise_floors=floors, comparisons=comparisons)
    return rules.graded(restated, {record.identity.rules: by})


def _conclusions(old: Concluded | None, new: Concluded | None) -> Iterator[str]:
    if old is None or new is None:
        return
    if old[1].code != new[1].code:
        yield f"decision {new[1].code}, not {old[1].code}"
    ours, theirs = (Counter(claim.kind for claim in found[0]) for found in (old, new))
    yield from (f"a claim on {kind} more" for kind in sorted((theirs - ours).elements()))
    yield from (f"a claim on {kind} less" for kind in sorted((ours - theirs).elements()))
