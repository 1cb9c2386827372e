"""The terminal table and the picture of a mixed-precision run, both drawn from the record alone."""

from __future__ import annotations

from pathlib import Path

from experiments.evidence.candidate import Candidate
from experiments.evidence.plots import numerics
from experiments.evidence.quantities import percent
from experiments.evidence.record import Record
from experiments.harness.experiment import Table
from experiments.harness.gates_held import no_gate_failed
from experiments.training_mechanism.mixed_precision_backward.conclusions import collapsed
from tools.environments.errors import LabError

NOTHING = "—"


def table(record: Record) -> Table:
    """One row per candidate that took part: loss, error, finiteness, scale, and what to make of it."""
    rows = [_row(candidate, record) for candidate in record.candidates if candidate.role != "baseline_again"]
    skipped = [c for c in record.candidates if c.status == "skipped" and c.failure]
    timed = any(c.memory for c in record.candidates)
    columns = (
        "candidate",
        "loss",
        "grad error",
        "finite",
        "scale",
        *(("step ms", "peak GiB") if timed else ()),
        "verdict",
    )
    shown = tuple(row for row, c in zip(rows, _shown(record), strict=True) if c.status != "skipped")
    notes = tuple(f"{c.name} did not run: {c.failure.message}" for c in skipped if c.failure)
    return Table(columns=columns, rows=shown, notes=notes if record.identity.run_mode != "dry_run" else ())


def _shown(record: Record) -> list[Candidate]:
    return [candidate for candidate in record.candidates if candidate.role != "baseline_again"]


def _row(candidate: Candidate, record: Record) -> tuple[str, ...]:
    name = f"{candidate.name} (baseline)" if candidate.is_baseline else candidate.name
    if candidate.failure is not None:
        blank = (NOTHING,) * (4 + (2 if any(c.memory for c in record.candidates) else 0))
        return (name, *blank, f"{candidate.status} in {candidate.failure.phase}: {candidate.failure.kind}")
    loss = next((sample.values["loss"] for sample in candidate.samples if "loss" in sample.values), None)
    gate = candidate.checks.gates.get("gradient")
    error = None if gate is None else gate.error
    cells = [
        name,
        NOTHING if loss is None else f"{loss:.4f}",
        NOTHING if error is None else f"{error:.1e}",
        {True: "yes", False: "no", None: NOTHING}[candidate.checks.finite],
        _scale(candidate),
    ]
    if any(c.memory for c in record.candidates):
        step = candidate.summary.intervals.get("step_ms") if candidate.summary else None
        peak = candidate.memory.peak_allocated_bytes if candidate.memory else None
        cells.append(NOTHING if step is None else f"{step.median:.1f} ({step.low:.1f} – {step.high:.1f})")
        cells.append(NOTHING if peak is None else f"{peak / 2**30:.2f}")
    return (*cells, _verdict(candidate))


def _scale(candidate: Candidate) -> str:
    trace = candidate.numerics.scaler if candidate.numerics else None
    return NOTHING if trace is None else f"{trace.scale_before:.0f} → {trace.scale_after:.0f}"


def _verdict(candidate: Candidate) -> str:
    if candidate.is_baseline:
        oracle = candidate.checks.gates.get("oracle")
        return NOTHING if oracle is None or oracle.error is None else f"{oracle.error:.1e} from float64"
    fallen = collapsed(candidate)
    if fallen is not None:
        return f"scale collapsed {fallen[0]:.0f} → {fallen[1]:.0f}"
    trace = candidate.numerics.scaler if candidate.numerics else None
    if trace is not None:
        return "one step skipped, state untouched" if trace.passed else "scaler state machine broken"
    share = candidate.numerics.underflow_share if candidate.numerics else None
    words = []
    if candidate.role == "control" and share is not None:
        words.append(f"{percent(share)} of gradients below fp16's normal range")
    if not no_gate_failed(candidate):
        words.append("gate failed")
    return ", ".join(words) or "gradients ok"


def picture(record: Record, folder: Path) -> Path:
    """Draw gradients.svg: error of each format beside what rounding allows, small gradients, the scaler's walk.

    Raises LabError when no candidate was checked against the baseline: the record then has nothing to draw.
    """
    if not numerics.applies(record):
        wanted = "a candidate checked against the baseline"
        repair = "compare formats under a new --run-label: --precision auto"
        raise LabError(wanted, "no candidate was checked against the baseline", repair)
    return numerics.draw(record, folder / f"{numerics.NAME}.svg")
