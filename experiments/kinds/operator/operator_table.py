"""The terminal table of an operator's experiment, drawn from the record as every other table is."""

from __future__ import annotations

from experiments.evidence import record_text
from experiments.evidence.candidate import Candidate
from experiments.evidence.record import Record
from experiments.harness.experiment import Table
from experiments.harness.gates_held import gates_hold
from experiments.kinds.operator.kind import WORDS

HEADS = {"value": "from float64", "dense": "from the baseline"}


def table(record: Record) -> Table:
    """The record's own table with rate, weight, errors and work beside it; columns nobody measured are left out."""
    columns, rows = record_text.table(record, WORDS.marks)
    added = [
        ("TFLOP/s", [_number(c.median("tflop_per_s"), ".3g") for c in record.candidates]),
        ("weight bytes", [_number(c.median("weight_bytes"), ",.0f") for c in record.candidates]),
        *((head, [_error(c, gate) for c in record.candidates]) for gate, head in HEADS.items()),
        ("work", [_work(c) for c in record.candidates]),
        ("gates", [_verdict(c) for c in record.candidates]),
    ]
    kept = [(head, cells) for head, cells in added if any(cells)]
    shown = [
        (*row, *cells)
        for row, candidate, *cells in zip(rows, record.candidates, *(cells for _, cells in kept), strict=True)
        if candidate.status != "skipped"
    ]
    return Table(columns=(*columns, *(head for head, _ in kept)), rows=tuple(shown))


def _number(value: float | None, spec: str) -> str:
    return "" if value is None else format(value, spec)


def _error(candidate: Candidate, gate: str) -> str:
    found = candidate.checks.gates.get(gate)
    return "" if found is None else _number(found.error, ".1e") or "not finite"


def _work(candidate: Candidate) -> str:
    found = candidate.checks.gates.get("work")
    return "" if found is None else "as declared" if found.passed else f"other {found.worst}"


def _verdict(candidate: Candidate) -> str:
    if candidate.status != "ok" or candidate.checks.finite is None:
        return ""
    held = gates_hold(candidate)
    if candidate.role == "control":
        return "passed and must not" if held else "caught"
    return "hold" if held else "failed"
