"""Which gates a candidate failed and which were never run on it: needed before its time or memory may count."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate, Gate


def failed_gates(candidate: Candidate) -> list[str]:
    """`name: gate (error over tolerance)` for each gate that failed. A control is meant to fail: it has none."""
    if candidate.status != "ok" or candidate.role == "control":
        return []
    found = [f"{candidate.name}: not finite"] if candidate.checks.finite is False else []
    for word, gate in _gates(candidate):
        if gate is not None and not gate.passed:
            found.append(f"{candidate.name}: {word}{_by_how_much(gate)}")
    return found


def missing_gates(candidate: Candidate) -> list[str]:
    """`name: gate` for each gate that its role asks for and that was not run."""
    if candidate.status != "ok":
        return []
    found = [f"{candidate.name}: finite"] if candidate.checks.finite is None else []
    if candidate.role != "baseline":
        found += [f"{candidate.name}: {word}" for word, gate in _gates(candidate)[:2] if gate is None]
    return found


def passes(candidate: Candidate) -> bool:
    """Finite, and every gate its role asks for was run and passed."""
    return not failed_gates(candidate) and not missing_gates(candidate)


def control_caught(candidate: Candidate) -> bool:
    """Whether something noticed that a control is wrong."""
    gates = [gate for _, gate in _gates(candidate) if gate is not None]
    return candidate.checks.finite is False or any(not gate.passed for gate in gates)


def _gates(candidate: Candidate) -> list[tuple[str, Gate | None]]:
    gates = candidate.checks.gates
    return [
        ("gradient gate", gates.get("gradient")),
        ("update gate", gates.get("update")),
        ("float64 oracle", gates.get("oracle")),
    ]


def _by_how_much(gate: Gate) -> str:
    if gate.error is None or gate.tolerance is None:
        return ""
    return f" {gate.error:.2g} over {gate.tolerance:.2g}"
