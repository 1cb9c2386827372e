"""Which gates a candidate failed and which were never run on it, by the names that its kind demands.

`finite` is one of those names and no gate of its own: the check that loss, gradients or results were finite numbers.
"""

from __future__ import annotations

from experiments.evidence.candidate import Candidate
from experiments.evidence.limit_sentences import SENTENCES
from experiments.evidence.rules.v1 import gates
from experiments.evidence.rules.v1.gates import FINITE
from experiments.evidence.sentences import Sentence, say


def failed_gates(candidate: Candidate) -> list[str]:
    """`name: gate (error over tolerance)` for each gate that failed. A control is meant to fail: it has none."""
    return [said.text for said in said_of_failed(candidate)]


def said_of_failed(candidate: Candidate) -> list[Sentence]:
    """The same as clauses of a limit."""
    if candidate.status != "ok" or candidate.role == "control":
        return []
    found = [say(SENTENCES, "not_finite", candidate=candidate.name)] if candidate.checks.finite is False else []
    failed = [gates.failed(candidate, word, gate) for word, gate in candidate.checks.gates.items() if not gate.passed]
    return [*found, *failed]


def said_of_missing(candidate: Candidate) -> list[Sentence]:
    """A clause of a limit for each gate that is wanted of it and that was not run."""
    if candidate.status != "ok":
        return []
    checks = candidate.checks
    have = {*checks.gates, *([] if checks.finite is None else [FINITE])}
    return [gates.missing(candidate, word) for word in checks.wanted if word not in have]


def passes(candidate: Candidate) -> bool:
    """Finite, and every gate that is wanted of it was run and passed."""
    return not said_of_failed(candidate) and not said_of_missing(candidate)


def control_caught(candidate: Candidate) -> bool:
    """Whether something noticed that a control is wrong."""
    return candidate.checks.finite is False or any(not gate.passed for gate in candidate.checks.gates.values())
