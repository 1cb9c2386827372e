"""The page as a user runs it, and what it concludes from a product that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from smoke_run import verified_run
from zygote import Zygote

from experiments.evidence.candidate import Candidate
from experiments.harness.experiment import DeviceFacts, Observed
from experiments.kinds.operator.template.conclusions import conclude
from experiments.kinds.operator.template.experiment import EXPERIMENT, SMOKE, work_of

CPU = DeviceFacts(kind="cpu", torch=None, bf16_native=True, tf32=False)


def test_the_run_is_graded_and_says_what_it_found(forks: Zygote, tmp_path: Path) -> None:
    record = verified_run(EXPERIMENT.name, forks, tmp_path)
    assert (record.evidence_level, record.decision.code) == ("cpu_mechanism", "numerics_ok")

    # the control is caught, by the comparison with float64 and by nothing else
    value = {one.name: one.checks.gates["value"].passed for one in record.candidates}
    assert value == {"whole": True, "whole (again)": True, "halves": True, "shifted by one": False}

    # the prediction: every process did the work that is declared
    foretold = work_of(SMOKE)
    counted = [{word: one.settings["counted"][word] for word in foretold} for one in record.candidates]
    assert counted == [foretold] * 4

    # a page that said the same of a wrong product would say nothing
    def spoiled(one: Candidate) -> Candidate:
        gates = {**one.checks.gates, "value": replace(one.checks.gates["value"], passed=one.name != "halves")}
        return replace(one, checks=replace(one.checks, gates=gates))

    everybody = tuple(map(spoiled, record.candidates))
    _, decision = conclude(Observed(SMOKE, CPU, everybody, record.comparisons))
    assert decision.code == "numerics_broken"
    assert "halves" in decision.sentence
