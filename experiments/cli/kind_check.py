"""Are a record's words its kind's? Asked by `results verify`: evidence itself knows no kind."""

from __future__ import annotations

from collections.abc import Iterator

from experiments import kinds
from experiments.cli import discovery
from experiments.evidence.record import Record
from experiments.evidence.verifying import NEW_RUN
from experiments.harness.kind import AnyKind, Kind
from tools.environments.errors import LabError
from tools.environments.model import Check

ID = "record.kind"
FIRST_RULES = 2  # older records say what was wanted in another form, and their kind reads it for them


def check(record: Record) -> Check:
    """One check: blocked for a word of another kind, a warning where this checkout lacks the record's kind."""
    word = record.identity.kind
    wanted = f"quantities, phases, marks, claims, gates and launch of {word}"
    registered = _registered_kind(record.identity.experiment)
    if registered not in (None, word):
        found = f"{record.identity.experiment} is an experiment of {registered}"
        return Check(ID, "blocked", wanted, found, NEW_RUN)
    try:
        kind = kinds.find(word)
    except LabError as error:
        return Check(ID, "warning", error.wanted, f"not checked: {error.found}", error.next)
    foreign = kind.words.faults(record)
    if isinstance(kind, Kind) and record.identity.rules >= FIRST_RULES:
        foreign += [*_unwanted(record, kind), *_launched_otherwise(record, kind)]
    if foreign:
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        return Check(ID, "blocked", wanted, f"not its own: {foreign[0]}{more}", NEW_RUN)
    return Check(ID, "ok", wanted, f"every word is {word}'s")


def _registered_kind(experiment: str) -> str | None:
    """The kind of the experiment as it is here; None where it is not here, or broken."""
    found, _ = discovery.each([experiment])
    return found[0].kind.word if found else None


def _unwanted(record: Record, kind: AnyKind) -> Iterator[str]:
    """Gates that the kind demands of a role and a candidate of the record does not."""
    for candidate in (one for one in record.candidates if one.status == "ok"):
        missing = [gate for gate in kind.wanted(candidate.role) if gate not in candidate.checks.wanted]
        yield from (f"gate {gate} is not wanted of {candidate.name}" for gate in missing)


def _launched_otherwise(record: Record, kind: AnyKind) -> Iterator[str]:
    """A launch that is not the one of the record's workload."""
    try:
        workload = kind.workload_from(record.workload.name, record.workload.knobs)
    except LabError:
        return  # knobs that make no workload of this kind do not have the digest of one either: `record.workload`
    expected, found = kind.launch(workload), record.identity.launch
    if found != expected:
        taken = f"{expected.type} of {expected.ranks}"
        yield f"launch {found.type} of {found.ranks}, where {record.workload.name} takes {taken}"
