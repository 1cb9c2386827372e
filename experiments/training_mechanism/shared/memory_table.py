"""The terminal table of the pages that trade memory for time, drawn from the record as every other table is."""

from __future__ import annotations

from experiments.evidence import record_text
from experiments.evidence.candidate import Candidate
from experiments.evidence.quantities import percent
from experiments.evidence.record import Record
from experiments.harness.experiment import Table
from experiments.harness.gates_held import no_gate_failed
from experiments.kinds.training_step.kind import WORDS


def table(record: Record) -> Table:
    """The record's own table with busy share and gradients beside it; columns nobody measured are left out."""
    columns, rows = record_text.table(record, WORDS.marks)
    busy = [_busy(candidate) for candidate in record.candidates]
    shown = [
        (*row, *((share,) if any(busy) else ()), _verdict(candidate))
        for row, share, candidate in zip(rows, busy, record.candidates, strict=True)
        if candidate.status != "skipped"
    ]
    notes = tuple(f"{c.name} did not run: {c.failure.message}" for c in record.candidates if _left_out(c) and c.failure)
    dry = record.identity.run_mode == "dry_run"
    head = (*columns, *(("card busy",) if any(busy) else ()), "gradients")
    return Table(columns=head, rows=tuple(shown), notes=() if dry else notes)


def _busy(candidate: Candidate) -> str:
    """Share of a step in which the card had something to do; the rest of it, it waited for Python or for a copy."""
    step, busy = candidate.median("step_ms"), candidate.median("busy_ms")
    return "" if not step or busy is None else percent(min(1.0, busy / step))


def _left_out(candidate: Candidate) -> bool:
    return candidate.status == "skipped" and candidate.role != "baseline_again"


def _verdict(candidate: Candidate) -> str:
    gate = candidate.checks.gates.get("gradient")
    if candidate.is_baseline:
        oracle = candidate.checks.gates.get("oracle")
        return "" if oracle is None or oracle.error is None else f"{oracle.error:.1e} from float64"
    if gate is None or gate.error is None:
        return "" if candidate.checks.finite is not False else "not finite"
    size = "bit-identical" if gate.error == 0 else f"{gate.error:.1e}"
    if candidate.role == "control":
        return f"{size}, passed and must not" if no_gate_failed(candidate) else f"{size}, caught"
    return size if no_gate_failed(candidate) else f"{size}, gate failed"
