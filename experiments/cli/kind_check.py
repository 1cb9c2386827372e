"""Are a record's words its kind's? Asked by `results verify`: evidence itself knows no kind."""

from __future__ import annotations

from experiments import kinds
from experiments.evidence.record import Record
from experiments.evidence.verifying import NEW_RUN
from tools.environments.errors import LabError
from tools.environments.model import Check

ID = "record.kind"


def check(record: Record) -> Check:
    """One check: blocked for a word of another kind, a warning where this checkout lacks the record's kind."""
    word = record.identity.kind
    wanted = f"quantities, phases, marks, claims and gates of {word}"
    try:
        kind = kinds.find(word)
    except LabError as error:
        return Check(ID, "warning", error.wanted, f"not checked: {error.found}", error.next)
    foreign = kind.words.faults(record)
    if foreign:
        more = f" (and {len(foreign) - 1} more)" if len(foreign) > 1 else ""
        return Check(ID, "blocked", wanted, f"not its own: {foreign[0]}{more}", NEW_RUN)
    return Check(ID, "ok", wanted, f"every word is {word}'s")
