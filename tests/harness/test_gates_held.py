"""Which candidates a conclusion may be about, by the gates that were wanted, run and passed."""

from __future__ import annotations

import pytest
from sample_observed import candidate, gate, observed

from experiments.evidence.candidate import Checks
from experiments.harness.gates_held import able, control_caught, gates_hold, no_gate_failed

PASSED, FAILED = gate(1e-4), gate(1.0)


@pytest.mark.parametrize(
    ("checks", "hold", "none_failed", "caught"),
    [
        (Checks(finite=True, wanted=("finite", "value"), gates={"value": PASSED}), True, True, False),
        (Checks(finite=True, wanted=("finite", "value"), gates={"value": FAILED}), False, False, True),
        (Checks(finite=True, wanted=("finite",), gates={"value": FAILED}), False, False, True),  # run, though not asked
        (Checks(finite=True, wanted=("finite", "value")), False, True, False),
        (Checks(finite=False, wanted=("finite", "value"), gates={"value": PASSED}), False, False, True),
        (Checks(wanted=("finite",)), False, False, False),
    ],
    ids=["holds", "failed", "failed unasked", "not run", "not finite", "not looked at"],
)
def test_gates(checks: Checks, hold: bool, none_failed: bool, caught: bool) -> None:
    made = candidate("x", checks=checks)
    assert (gates_hold(made), no_gate_failed(made), control_caught(made)) == (hold, none_failed, caught)


def test_a_claim_may_be_about_those_that_ran_in_the_roles_asked_for() -> None:
    checks = Checks(finite=True, wanted=("finite", "value"), gates={"value": PASSED})
    baseline, one = candidate("base", "baseline", checks=checks), candidate("one", checks=checks)
    unasked = candidate("unasked", checks=Checks(finite=True, wanted=("finite", "value")))
    seen = observed(baseline, one, unasked, candidate("skipped", status="skipped", checks=checks))
    assert able(seen) == [one]
    assert able(seen, ("baseline", "candidate")) == [baseline, one]
    assert able(seen, held=no_gate_failed) == [one, unasked]
