"""The page as a user runs it, and what it concludes from gradients that are wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from smoke_run import verified_run
from zygote import Zygote

from experiments.evidence.candidate import Candidate
from experiments.harness.experiment import DeviceFacts, Observed
from experiments.kinds.training_step.template.conclusions import conclude
from experiments.kinds.training_step.template.experiment import EXPERIMENT, SMOKE

CPU = DeviceFacts(kind="cpu", torch=None, bf16_native=True, tf32=False)


def test_the_run_is_graded_and_says_what_it_found(forks: Zygote, tmp_path: Path) -> None:
    record = verified_run(EXPERIMENT.name, forks, tmp_path)
    assert (record.evidence_level, record.decision.code) == ("cpu_mechanism", "numerics_ok")

    # the control is caught: a mean for each half makes gradients that are twice as large
    compared = {one.name: one.checks.gates["gradient"] for one in record.candidates if not one.is_baseline}
    passed = {name: gate.passed for name, gate in compared.items()}
    assert passed == {"whole (again)": True, "halves": True, "halves, each a mean": False}
    assert abs((compared["halves, each a mean"].error or 0.0) - 1.0) < 1e-3

    # the prediction has what was measured beside it; how near they are is the machine's affair
    foretold = {one.name: [row.quantity for row in one.predictions] for one in record.candidates}
    assert foretold["halves"] == ["step_ratio"]

    # a page that said the same of wrong gradients would say nothing
    def spoiled(one: Candidate) -> Candidate:
        gates = {word: replace(gate, passed=one.name != "halves") for word, gate in one.checks.gates.items()}
        return replace(one, checks=replace(one.checks, gates=gates))

    everybody = tuple(map(spoiled, record.candidates))
    _, decision = conclude(Observed(SMOKE, CPU, everybody, record.comparisons))
    assert decision.code == "numerics_broken"
    assert "halves" in decision.sentence
