"""Which candidates a conclusion may be about: those that ran, and whose gates held. Pure functions of the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from experiments.evidence.candidate import Candidate
from experiments.evidence.vocabulary import Role
from experiments.harness.experiment import Observed


def gates_hold(candidate: Candidate) -> bool:
    """Finite, every wanted gate was run, and none that was run has failed."""
    checks = candidate.checks
    return no_gate_failed(candidate) and {"finite", *checks.gates}.issuperset(checks.wanted)


def no_gate_failed(candidate: Candidate) -> bool:
    """Finite, and no gate that was run has failed; one that was not run does not count."""
    return candidate.checks.finite is True and all(gate.passed for gate in candidate.checks.gates.values())


def control_caught(control: Candidate) -> bool:
    """Whether something noticed that a control is wrong. One that nobody looked at was not caught."""
    return control.checks.finite is False or any(not gate.passed for gate in control.checks.gates.values())


def able(
    observed: Observed[Any],
    roles: Sequence[Role] = ("candidate",),
    held: Callable[[Candidate], bool] = gates_hold,
) -> list[Candidate]:
    """Those of some roles that ran and whose gates held, in their order: the ones a claim may be about."""
    return [one for one in observed.candidates if one.role in roles and one.status == "ok" and held(one)]
