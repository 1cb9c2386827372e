"""How one record is shown on the terminal: head, table, floor, what it says, what it does not, how to reproduce it."""

from __future__ import annotations

from typing import Any

from experiments import kinds
from experiments.cli import discovery
from experiments.cli.printing import say, status, table
from experiments.evidence import record_text
from experiments.evidence.record import Record
from tools.environments.errors import LabError


def show_record(record: Record, standing: str | None = None) -> None:
    """Print one record."""
    level = record.evidence_level or "plan"
    say(record_text.headline(record, standing).replace(level, status(level), 1))
    say()
    own, not_drawn = None, ""
    try:
        own = own_table(record)
    except LabError as error:
        not_drawn = f"its own table is not drawn: {error.where}: {error.found}"
    if own is not None:
        for line in table(own.columns, own.rows):
            say(line)
        for note in own.notes:
            say(f"  {note}")
    head, rows = record_text.table(record, kinds.hints(record))
    if own is None or (record.runtime.devices and not set(head) <= set(own.columns)):
        if own is not None:
            say()
        for line in table(head, rows):
            say(line)
    if not_drawn:
        say(f"  {not_drawn}")
    say()
    details(record)


def details(record: Record) -> None:
    """What stands under the table."""
    lines: list[tuple[str, str]] = []
    if floors := record_text.floors(record):
        lines.append(("floor", floors))
    for candidate in record.candidates:
        if candidate.failure is not None:
            proposal = f" → {candidate.failure.proposal}" if candidate.failure.proposal else ""
            lines.append((candidate.status, f"{candidate.name}: {candidate.failure.message}{proposal}"))
    lines += [("says", line) for line in record_text.says(record)]
    lines.append(("does not say", record_text.does_not_say(record)))
    lines.append(("decision", f"{record.decision.code}: {record.decision.sentence}"))
    for limit in record.limits:
        lines.append(("limit", f"{limit.code}: {limit.reason}" + (f" → {limit.lift}" if limit.lift else "")))
    lines.append(("reproduce", kinds.reproduce(record)))
    previous = ""
    for word, text in lines:
        say(f"{'' if word == previous else word:<14}{text}")
        previous = word


def own_table(record: Record) -> Any:
    """The experiment's own table, drawn from the record; None where this checkout has no such experiment.

    LabError where it has one that is broken, and for a record whose numbers do not fit together.
    """
    if record.identity.experiment not in discovery.packages():
        return None
    draw = getattr(discovery.load(record.identity.experiment), "table", None)
    try:
        return draw(record) if draw is not None else None
    except Exception as error:  # the numbers of an edited record need not fit together
        raise LabError(
            wanted="a record whose numbers fit together",
            found=f"{type(error).__name__}: {str(error)[:80]}",
            next="python -m experiments results verify LABEL|PATH",
            where="its numbers",
        ) from error
