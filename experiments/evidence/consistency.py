"""What a record's parts have to agree on beyond their shape. Every fault is named, not the first one only."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from experiments.evidence.candidate import Candidate
from experiments.evidence.codec import later
from experiments.evidence.digests import digest_of
from experiments.evidence.record import Record

CONFORMANCE = "conformance"  # the command whose gates are its checks and the faults they have to notice


def faults(record: Record) -> list[str]:
    """Everything the record says twice and differently, or could not have been. Empty when it is consistent."""
    return [*_identity(record), *_subject(record), *_names(record), *_each_candidate(record)]


def _identity(record: Record) -> Iterator[str]:
    try:
        datetime.strptime(record.identity.created_at, "%Y-%m-%dT%H:%M:%SZ")
    except ValueError:
        yield f"identity.created_at is no moment in time: {record.identity.created_at}"
    report = record.profile.preflight
    if report is None:
        if record.identity.run_mode != "dry_run":
            yield "profile.preflight is null, although something was run"
        return
    if report.profile != record.profile.id:
        yield f"profile.preflight is about {ascii(report.profile)[:60]}, not about {record.profile.id}"
    if report.registry_digest != record.profile.registry_digest:
        yield "profile.preflight was made with another registry than profile.registry_digest"


def _subject(record: Record) -> Iterator[str]:
    workload, model = record.workload, record.model
    if digest_of(workload.knobs) != workload.digest:
        yield "workload.digest is not the digest of workload.knobs"
    if model is not None and model.weights_source == "hub" and not model.resolved_commit:
        yield "model.resolved_commit is null, although the weights came from a hub"
    if model is not None and model.weights_source == "random_init" and model.resolved_commit:
        yield "model.resolved_commit is set, although the weights are random"
    if record.source.commit is None and record.source.dirty is not None:
        yield "source.dirty is set without a commit"
    if record.identity.run_mode == "cpu_mechanism" and record.runtime.devices:
        yield "runtime.devices holds a card, although the run mode is cpu_mechanism"


def _names(record: Record) -> Iterator[str]:
    names = [candidate.name for candidate in record.candidates]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"two candidates are called {name!a}"
    for role in ("baseline", "baseline_again"):
        if sum(candidate.role == role for candidate in record.candidates) > 1:
            yield f"more than one candidate is {role}"
    mentioned = {name for claim in record.claims for name in claim.candidates}
    mentioned |= {name for comparison in record.comparisons for name in (comparison.candidate, comparison.baseline)}
    mentioned |= {name for floor in record.noise_floors for name in (floor.baseline, floor.again)}
    for name in sorted(mentioned - set(names)):
        yield f"no candidate is called {name!a}"


def _each_candidate(record: Record) -> Iterator[str]:
    version = record.identity.schema_version
    for candidate in record.candidates:
        for name, minor in later(Candidate).items():
            held, wanted = getattr(candidate, name) is not None, int(version.split(".")[1]) >= minor
            if held != wanted:
                yield f"candidate {candidate.name!a} {'has' if held else 'lacks'} {name}, of schema version {version}"
        yield from (f"candidate {candidate.name!a}: {fault}" for fault in _candidate(candidate))
        foreign = record.identity.experiment == CONFORMANCE
        yield from (f"candidate {candidate.name!a}: {fault}" for fault in _gates(candidate, foreign))
        if record.identity.run_mode == "dry_run" and candidate.samples:
            yield f"candidate {candidate.name!a} has samples, although the run was dry"


def _candidate(candidate: Candidate) -> Iterator[str]:
    if (candidate.failure is None) != (candidate.status == "ok"):
        yield f"status {candidate.status} {'with' if candidate.failure else 'without'} a failure"
    if "not_executed" in candidate.marks and candidate.samples:
        yield "marked not_executed, yet it has samples"
    if candidate.summary is not None and not candidate.samples:
        yield "a summary without samples"
    seen = [(sample.round, sample.step) for sample in candidate.samples]
    if len(set(seen)) != len(seen):
        yield "one step of one round is there twice"
    for prediction in candidate.predictions:
        measured, predicted = prediction.measured, prediction.predicted
        expected = None if measured is None or predicted == 0 else measured / predicted - 1
        if not _near(prediction.residual, expected):
            yield f"residual of {prediction.quantity} is not measured / predicted - 1"


def _gates(candidate: Candidate, foreign: bool) -> Iterator[str]:
    """A gate has passed exactly where its error is known and within its tolerance.

    `foreign` records are of the conformance command: a fault put in on purpose has no error there, and a check may fail
    over a shape, or over its next value, after the error that is told.
    """
    for word, gate in candidate.checks.gates.items():
        if foreign and (not gate.passed or candidate.role == "control"):
            continue
        within = gate.error is not None and gate.tolerance is not None and gate.error <= gate.tolerance
        if gate.passed != within:
            told = f"error {gate.error}, tolerance {gate.tolerance}"
            yield f"{word} gate {'passed' if gate.passed else 'failed'}, although it has {told}"


def _near(found: float | None, expected: float | None) -> bool:
    if found is None or expected is None:
        return found is expected
    return abs(found - expected) <= 1e-6 * max(1.0, abs(expected))
