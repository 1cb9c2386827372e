"""The terminal table of an all-reduce run, drawn from the record alone."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.codec import from_json, to_json
from experiments.evidence.quantities import milliseconds
from experiments.evidence.record import Record
from experiments.harness.experiment import Table
from experiments.harness.gates_held import gates_hold
from experiments.kinds.collective.collective_workload import CollectiveWorkload
from experiments.kinds.collective.foretold import Foretold, foretold
from experiments.kinds.collective.size_ladder import word_at

NOTHING = "—"


def table(record: Record) -> Table:
    """One row per candidate: time at the ends of the ladder, bandwidths, the fitted line, and what came of it."""
    knobs = {"name": record.workload.name, **to_json(record.workload.knobs)}
    workload = from_json(CollectiveWorkload, knobs, "workload")
    first, last = workload.sizes[0], workload.sizes[-1]
    columns = (
        "candidate",
        f"ms at {first}",
        f"ms at {last}",
        "alg GB/s",
        "bus GB/s",
        "alpha ms",
        "beta ns/B",
        f"ms at {workload.unseen}",
        "predicted",
        "sums",
    )
    rows = tuple(_row(candidate, workload) for candidate in record.candidates if candidate.status != "skipped")
    return Table(columns=columns, rows=rows)


def _row(candidate: Candidate, workload: CollectiveWorkload) -> tuple[str, ...]:
    found = foretold(candidate, workload)
    words = [word_at(workload.sizes[0]), "collective_ms", "algorithm_gb_per_s", "bus_gb_per_s"]
    numbers = [milliseconds(candidate.median(word)) or NOTHING for word in words]
    return (_name(candidate), *numbers, *_line(found), _sums(candidate))


def _name(candidate: Candidate) -> str:
    role = {"baseline": " (baseline)", "baseline_again": " (A/A)", "control": " (wrong on purpose)"}
    return candidate.name + role.get(candidate.role, "")


def _line(found: Foretold | None) -> tuple[str, str, str, str]:
    if found is None:
        return (NOTHING, NOTHING, NOTHING, NOTHING)
    low, high = milliseconds(found.expected.low), milliseconds(found.expected.high)
    inside = "" if found.holds else ", missed"
    line = (milliseconds(found.model.alpha_ms), f"{found.model.ns_per_byte:.3g}")
    return (*line, milliseconds(found.measured_ms), f"{low} – {high}{inside}")


def _sums(candidate: Candidate) -> str:
    if candidate.failure is not None:
        return f"{candidate.status} in {candidate.failure.phase}: {candidate.failure.kind}"
    if candidate.checks.finite is None:
        return NOTHING
    if candidate.role == "control":
        return "passed and must not" if gates_hold(candidate) else "wrong, caught"
    return "exact" if gates_hold(candidate) else "wrong"
