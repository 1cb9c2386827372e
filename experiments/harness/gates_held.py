"""Which candidates a conclusion may be about: those that ran, and whose gates held. Pure functions of the record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from experiments.evidence.candidate import Candidate
from experiments.evidence.vocabulary import Role
from experiments.harness.experiment import Observed


def gates_hold(candidate: Candidate) -> bool:
    """Finite, every wanted gate was run, and none that was run has failed."""
    return no_gate_failed(candidate) and not lacking(candidate)


def never_run(candidates: Iterable[Candidate]) -> list[str]:
    """The gates that were wanted of candidates which ran, and were run on none of them: nothing may rest on those."""
    ran = [candidate for candidate in candidates if candidate.status == "ok"]
    seen = {gate for candidate in ran for gate in candidate.checks.gates}
    return sorted({gate for candidate in ran for gate in lacking(candidate)} - seen)


def lacking(candidate: Candidate) -> list[str]:
    """The gates that were wanted of it and not run."""
    return sorted(set(candidate.checks.wanted) - {"finite", *candidate.checks.gates})


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
