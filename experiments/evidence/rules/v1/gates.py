"""Which gates a candidate failed and which were never run on it: needed before its time or memory may count."""

from __future__ import annotations

from experiments.evidence.candidate import Candidate, Gate
from experiments.evidence.limit_sentences import SENTENCES
from experiments.evidence.sentences import Sentence, say

FINITE, ORACLE = "finite", "oracle"


def failed_gates(candidate: Candidate) -> list[str]:
    """`name: gate (error over tolerance)` for each gate that failed. A control is meant to fail: it has none."""
    return [said.text for said in said_of_failed(candidate)]


def said_of_failed(candidate: Candidate) -> list[Sentence]:
    """The same as clauses of a limit."""
    if candidate.status != "ok" or candidate.role == "control":
        return []
    found = [say(SENTENCES, "not_finite", candidate=candidate.name)] if candidate.checks.finite is False else []
    gates = _gates(candidate)
    return [*found, *(failed(candidate, word, gate) for word, gate in gates if gate is not None and not gate.passed)]


def missing_gates(candidate: Candidate) -> list[str]:
    """`name: gate` for each gate that its role asks for and that was not run."""
    return [said.text for said in said_of_missing(candidate)]


def said_of_missing(candidate: Candidate) -> list[Sentence]:
    """The same as clauses of a limit."""
    if candidate.status != "ok":
        return []
    found = [missing(candidate, FINITE)] if candidate.checks.finite is None else []
    if candidate.role != "baseline":
        found += [missing(candidate, word) for word, gate in _gates(candidate)[:2] if gate is None]
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
    return [(word, gates.get(word)) for word in ("gradient", "update", ORACLE)]


def failed(candidate: Candidate, word: str, gate: Gate) -> Sentence:
    """That a gate did not pass, and by how much where that is known."""
    known = {"candidate": candidate.name, "gate": _called(word)}
    if gate.error is None or gate.tolerance is None:
        return say(SENTENCES, "gate_of", **known)
    return say(SENTENCES, "gate_over", **known, error=gate.error, tolerance=gate.tolerance)


def missing(candidate: Candidate, word: str) -> Sentence:
    """That a gate was not run."""
    return say(SENTENCES, "gate_of", candidate=candidate.name, gate=_called(word))


def _called(word: str) -> Sentence:
    return say(SENTENCES, word) if word in (FINITE, ORACLE) else say(SENTENCES, "gate", name=word)
