"""The evidence level of a record of any kind: version 1's conditions, with gates and quantities by name.

plan < cpu_mechanism < gpu_smoke < gpu_measured
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Limit
from experiments.evidence.limits import level_limit
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import Grade
from experiments.evidence.rules.v1 import grading
from experiments.evidence.rules.v2.claims_by_ground import claim_limits, grade_claim
from experiments.evidence.rules.v2.gates_by_name import said_of_failed, said_of_missing
from experiments.evidence.vocabulary import Level

ON_PROFILE = grading.ON_PROFILE


def grade(record: Record) -> Grade:
    """What the record proves. Reads neither `evidence_level` nor any limit already written."""
    level, reasons = _level(record)
    about_claims = claim_limits(record)
    claims = tuple(grade_claim(record, claim, level, (*reasons, *about_claims)) for claim in record.claims)
    return Grade(level, (*reasons, *about_claims), claims)


def _level(record: Record) -> tuple[Level, tuple[Limit, ...]]:
    early = grading.before_a_card(record)
    if early is not None:
        return early
    reasons = (
        *grading.off_profile(record),
        *grading.unregistered(record),
        *_without_floor(record),
        *grading.dirty(record),
        *_gates(record.candidates),
    )
    return "gpu_smoke" if reasons else "gpu_measured", reasons


def _without_floor(record: Record) -> tuple[Limit, ...]:
    """A noise floor is known of the quantity that the record compares by, from a finished baseline and its twin."""
    compared_by = record.compared_by()
    if compared_by is None:
        return ()  # nothing is compared: there is no difference to tell from noise
    measured = {candidate.name: candidate for candidate in record.candidates if candidate.status == "ok"}
    for floor in record.noise_floors:
        first, second = measured.get(floor.baseline), measured.get(floor.again)
        roles = (first.role if first else "", second.role if second else "")
        if floor.quantity == compared_by.word and roles == ("baseline", "baseline_again"):
            return ()
    return (level_limit("no_noise_floor", "no_twin_in_two_rounds", experiment=record.identity.experiment),)


def _gates(candidates: Sequence[Candidate]) -> tuple[Limit, ...]:
    failed = [gate for candidate in candidates for gate in said_of_failed(candidate)]
    missing = [gate for candidate in candidates for gate in said_of_missing(candidate)]
    return grading.about_gates(failed, missing)
