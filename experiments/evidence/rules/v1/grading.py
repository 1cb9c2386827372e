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
from experiments.evidence.rules.v1.gates import failed_gates, missing_gates
from experiments.evidence.vocabulary import Level

# Checks of a preflight that together mean "the ranges and the exact build hold", whoever made the environment.
ON_PROFILE = ("torch.build", "packages.versions")
IMAGE_CHECK = "container.image"
PROFILES = "python tools/environment_preflight.py --list-profiles"


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
        *unregistered(record, again(record)),
        *_without_floor(record, again(record)),
        *dirty(record),
        *_gates(record.candidates),
    )
    return "gpu_smoke" if reasons else "gpu_measured", reasons


def again(record: Record) -> str:
    """The command that measures the experiment once more."""
    return f"python -m experiments run {record.identity.experiment} --run-label NEW"


def before_a_card(record: Record) -> tuple[Level, tuple[Limit, ...]] | None:
    """The level of a record that shows nothing of its profile's card, and why; None for one that may."""
    mode = record.identity.run_mode
    if mode == "dry_run":
        return "plan", (
            level_limit("dry_run", "a dry run: nothing was executed", f"{again(record)} without --run-mode dry_run"),
        )
    if not any(executed(candidate) for candidate in record.candidates):
        predicted = any(candidate.predictions for candidate in record.candidates)
        reason = "only predictions were computed: not executed" if predicted else "no candidate came as far as a step"
        return "cpu_mechanism" if predicted else "plan", (level_limit("not_executed", reason, again(record)),)
    if mode == "cpu_mechanism":
        reason = "ran on CPU: numerics and semantics on this machine, nothing about GPU memory or speed"
        return "cpu_mechanism", (
            level_limit("cpu_only", reason, f"run it on a card, under a CUDA profile of: {PROFILES}"),
        )
    if not record.runtime.devices:
        reason = "run mode real_gpu, but the runtime snapshot holds no card"
        return "cpu_mechanism", (
            level_limit("no_device", reason, f"check that nvidia-smi answers, then {again(record)}"),
        )
    if foreign := _other_image(record):
        return "cpu_mechanism", (foreign,)
    return None


def _other_image(record: Record) -> Limit | None:
    """The limit of a run on a card inside an image that was not built for its profile."""
    report = record.profile.preflight
    for check in report.checks if report else ():
        if check.id == IMAGE_CHECK and check.status == "blocked":
            reason = f"{check.found}, not one for {record.profile.id}"
            return level_limit("other_image", reason, check.repair or f"nox -s {record.profile.id} -- --image")
    return None


def off_profile(record: Record) -> tuple[Limit, ...]:
    """Checks of the preflight that did not hold or were not made: the environment is not the profile's."""
    profile, report = record.profile.id, record.profile.preflight
    ask = f"python tools/environment_preflight.py --profile {profile}"
    create = (
        "create a new environment: python tools/install_environment_profile.py "
        f"--profile {profile} --env-name NEW_NAME (leave this one as it is)"
    )
    if report is None:
        return (level_limit("profile_not_checked", "no preflight report was made", ask),)
    found = []
    for check in report.checks:
        if check.status == "blocked" or (check.id in ON_PROFILE and check.status == "warning"):
            lift = create if check.id.split(".")[0] in ("torch", "packages") else check.repair or ask
            reason = f"{check.id}: {check.found} is not the profile's {check.wanted}"
            found.append(level_limit("off_profile", reason, lift))
    answered = {check.id for check in report.checks if check.status != "skipped"}
    for name in ON_PROFILE:
        if name not in answered:
            found.append(level_limit("profile_not_checked", f"{name} was not checked", f"{ask} (without --quick)"))
    return tuple(found)


def unregistered(record: Record, again: str) -> tuple[Limit, ...]:
    """The workload is none that the experiment registers."""
    if record.workload.registered:
        return ()
    known = (
        "differs from the one registered under that name" if record.workload.registered_digest else "is not registered"
    )
    reason = f"workload {record.workload.name!r} {known}"
    return (level_limit("unregistered_workload", reason, f"{again} --workload smoke (or default, fit-8gib, large)"),)


def _without_floor(record: Record, again: str) -> tuple[Limit, ...]:
    measured = {candidate.name: candidate for candidate in record.candidates if candidate.status == "ok"}
    for floor in record.noise_floors:
        first, second = measured.get(floor.baseline), measured.get(floor.again)
        roles = (first.role if first else "", second.role if second else "")
        if floor.quantity == "step_ms" and roles == ("baseline", "baseline_again") and floor.samples > 1:
            return ()
    return (level_limit("no_noise_floor", "the baseline has no finished A/A twin: the noise is not known", again),)


def dirty(record: Record) -> tuple[Limit, ...]:
    """The sources differ from the commit."""
    if not record.source.dirty:
        return ()
    return (
        level_limit(
            "dirty_tree", "sources differ from the commit", "commit the changes, then run again under a new label"
        ),
    )


def _gates(candidates: Sequence[Candidate]) -> tuple[Limit, ...]:
    failed = [name for candidate in candidates for name in failed_gates(candidate)]
    missing = [name for candidate in candidates for name in missing_gates(candidate)]
    return about_gates(failed, missing)


def about_gates(failed: Sequence[str], missing: Sequence[str]) -> tuple[Limit, ...]:
    """The limits that gates which failed, and gates which were not run, put on the level."""
    found = []
    if failed:
        lift = "look at random state, in-place changes, saved tensors, and which gradients were compared"
        found.append(level_limit("gate_failed", f"did not pass: {', '.join(failed)}", lift))
    if missing:
        found.append(level_limit("gate_missing", f"not run: {', '.join(missing)}", "measure again with the gates on"))
    return tuple(found)
