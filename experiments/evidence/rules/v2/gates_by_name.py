"""Which gates a candidate failed and which were never run on it, by the names that its kind demands.

`finite` is one of those names and no gate of its own: the check that loss, gradients or results were finite numbers.
"""

from __future__ import annotations

from experiments.evidence.candidate import Candidate, Gate

FINITE = "finite"


def failed_gates(candidate: Candidate) -> list[str]:
    """`name: gate (error over tolerance)` for each gate that failed. A control is meant to fail: it has none."""
    if candidate.status != "ok" or candidate.role == "control":
        return []
    found = [f"{candidate.name}: not finite"] if candidate.checks.finite is False else []
    gates = candidate.checks.gates.items()
    return [
        *found,
        *(f"{candidate.name}: {_called(word)}{_by_how_much(gate)}" for word, gate in gates if not gate.passed),
    ]


def missing_gates(candidate: Candidate) -> list[str]:
    """`name: gate` for each gate that is wanted of it and that was not run."""
    if candidate.status != "ok":
        return []
    checks = candidate.checks
    have = {*checks.gates, *([] if checks.finite is None else [FINITE])}
    return [f"{candidate.name}: {_called(word)}" for word in checks.wanted if word not in have]


def passes(candidate: Candidate) -> bool:
    """Finite, and every gate that is wanted of it was run and passed."""
    return not failed_gates(candidate) and not missing_gates(candidate)


def control_caught(candidate: Candidate) -> bool:
    """Whether something noticed that a control is wrong."""
    return candidate.checks.finite is False or any(not gate.passed for gate in candidate.checks.gates.values())


def _called(word: str) -> str:
    return {FINITE: FINITE, "oracle": "float64 oracle"}.get(word, f"{word.replace('_', ' ')} gate")


def _by_how_much(gate: Gate) -> str:
    if gate.error is None or gate.tolerance is None:
        return ""
    return f" {gate.error:.2g} over {gate.tolerance:.2g}"
