"""The evidence level of a record and of each claim in it: a pure function of what was recorded, never told the answer.

    plan < cpu_mechanism < gpu_smoke < gpu_measured

A level says what was done, so it falls to the highest one whose conditions all hold; every condition that does not
hold becomes a limit with what would lift it. `gpu_reproduced` needs two records and is a status of the index.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.evidence.candidate import Candidate
from experiments.evidence.conclusion import Limit
from experiments.evidence.limits import level_limit
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import Grade
from experiments.evidence.rules.v1.claim_grading import claim_limits, grade_claim
from experiments.evidence.rules.v1.gates import said_of_failed, said_of_missing
from experiments.evidence.sentences import Sentence
from experiments.evidence.vocabulary import Level
from tools.environments.model import Check

# Checks of a preflight that together mean "the ranges and the exact build hold", whoever made the environment.
ON_PROFILE = ("torch.build", "packages.versions")
IMAGE_CHECK = "container.image"


def grade(record: Record) -> Grade:
    """What the record proves. Reads neither `evidence_level` nor any limit already written."""
    level, reasons = _level(record)
    about_claims = claim_limits(record)
    claims = tuple(grade_claim(record, claim, level, (*reasons, *about_claims)) for claim in record.claims)
    return Grade(level, (*reasons, *about_claims), claims)


def executed(candidate: Candidate) -> bool:
    """Whether the candidate came as far as doing its work, on whatever device: an OOM counts, a skip does not."""
    if "not_executed" in candidate.marks or candidate.status in ("skipped", "failed"):
        return False
    checks = candidate.checks
    looked = checks.finite is not None or bool(checks.gates) or candidate.numerics is not None
    return candidate.status == "oom" or bool(candidate.samples) or looked


def _level(record: Record) -> tuple[Level, tuple[Limit, ...]]:
    early = before_a_card(record)
    if early is not None:
        return early
    reasons = (
        *off_profile(record),
        *unregistered(record),
        *_without_floor(record),
        *dirty(record),
        *_gates(record.candidates),
    )
    return "gpu_smoke" if reasons else "gpu_measured", reasons


def before_a_card(record: Record) -> tuple[Level, tuple[Limit, ...]] | None:
    """The level of a record that shows nothing of its profile's card, and why; None for one that may."""
    mode, experiment = record.identity.run_mode, record.identity.experiment
    if mode == "dry_run":
        return "plan", (level_limit("dry_run", experiment=experiment),)
    if not any(executed(candidate) for candidate in record.candidates):
        predicted = any(candidate.predictions for candidate in record.candidates)
        wording = "only_predicted" if predicted else "no_step"
        limit = level_limit("not_executed", wording, experiment=experiment)
        return "cpu_mechanism" if predicted else "plan", (limit,)
    if mode == "cpu_mechanism":
        return "cpu_mechanism", (level_limit("cpu_only"),)
    if not record.runtime.devices:
        return "cpu_mechanism", (level_limit("no_device", experiment=experiment),)
    if foreign := _other_image(record):
        return "cpu_mechanism", (foreign,)
    return None


def _other_image(record: Record) -> Limit | None:
    """The limit of a run on a card inside an image that was not built for its profile."""
    report = record.profile.preflight
    for check in report.checks if report else ():
        if check.id == IMAGE_CHECK and check.status == "blocked":
            known = {"found": check.found, "profile": record.profile.id}
            if check.repair:
                return level_limit("other_image", "other_image_repair", **known, repair=check.repair)
            return level_limit("other_image", **known)
    return None


def off_profile(record: Record) -> tuple[Limit, ...]:
    """Checks of the preflight that did not hold or were not made: the environment is not the profile's."""
    profile, report = record.profile.id, record.profile.preflight
    if report is None:
        return (level_limit("profile_not_checked", "no_preflight", profile=profile),)
    found = []
    for check in report.checks:
        if check.status == "blocked" or (check.id in ON_PROFILE and check.status == "warning"):
            found.append(_off_profile(check, profile))
    answered = {check.id for check in report.checks if check.status != "skipped"}
    for name in ON_PROFILE:
        if name not in answered:
            found.append(level_limit("profile_not_checked", "check_not_made", check=name, profile=profile))
    return tuple(found)


def _off_profile(check: Check, profile: str) -> Limit:
    known = {"check": check.id, "found": check.found, "wanted": check.wanted}
    if check.id.split(".")[0] in ("torch", "packages"):
        return level_limit("off_profile", "off_profile_create", **known, profile=profile)
    if check.repair:
        return level_limit("off_profile", "off_profile_repair", **known, repair=check.repair)
    return level_limit("off_profile", "off_profile_ask", **known, profile=profile)


def unregistered(record: Record) -> tuple[Limit, ...]:
    """The workload is none that the experiment registers."""
    if record.workload.registered:
        return ()
    wording = "workload_differs" if record.workload.registered_digest else "workload_unknown"
    known = {"workload": record.workload.name, "experiment": record.identity.experiment}
    return (level_limit("unregistered_workload", wording, **known),)


def _without_floor(record: Record) -> tuple[Limit, ...]:
    measured = {candidate.name: candidate for candidate in record.candidates if candidate.status == "ok"}
    for floor in record.noise_floors:
        first, second = measured.get(floor.baseline), measured.get(floor.again)
        roles = (first.role if first else "", second.role if second else "")
        if floor.quantity == "step_ms" and roles == ("baseline", "baseline_again") and floor.samples > 1:
            return ()
    return (level_limit("no_noise_floor", "no_twin", experiment=record.identity.experiment),)


def dirty(record: Record) -> tuple[Limit, ...]:
    """The sources differ from the commit."""
    if not record.source.dirty:
        return ()
    return (level_limit("dirty_tree"),)


def _gates(candidates: Sequence[Candidate]) -> tuple[Limit, ...]:
    failed = [gate for candidate in candidates for gate in said_of_failed(candidate)]
    missing = [gate for candidate in candidates for gate in said_of_missing(candidate)]
    return about_gates(failed, missing)


def about_gates(failed: Sequence[Sentence], missing: Sequence[Sentence]) -> tuple[Limit, ...]:
    """The limits that gates which failed, and gates which were not run, put on the level."""
    found = []
    if failed:
        found.append(level_limit("gate_failed", failed=list(failed)))
    if missing:
        found.append(level_limit("gate_missing", missing=list(missing)))
    return tuple(found)
