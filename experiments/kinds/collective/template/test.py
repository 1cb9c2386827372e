"""The page as a user runs it on two ranks, and what it concludes from a sum that is wrong."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from smoke_run import verified_run
from zygote import Zygote

from experiments.evidence.candidate import Candidate
from experiments.harness.experiment import DeviceFacts, Observed
from experiments.kinds.collective.template.conclusions import conclude
from experiments.kinds.collective.template.experiment import EXPERIMENT, WORKLOADS

CPU = DeviceFacts(kind="cpu", torch=None, bf16_native=True, tf32=False)


def test_the_run_is_graded_and_says_what_it_found(forks: Zygote, tmp_path: Path) -> None:
    record = verified_run(EXPERIMENT.name, forks, tmp_path)
    assert (record.evidence_level, record.decision.code) == ("cpu_mechanism", "numerics_ok")

    # the control is caught: its sums are wrong, and not every rank is in them
    sums = {one.name: one.checks.gates["sums"].passed for one in record.candidates}
    assert sums == {"whole": True, "whole (again)": True, "halves": True, "a half left out": False}

    # the prediction has what was measured beside it; how near they are is the machine's affair
    workload = WORKLOADS["smoke"]
    foretold = [one.predictions for one in record.candidates if one.name == "halves"]
    assert [[row.quantity for row in rows] for rows in foretold] == [[f"ms_at_{workload.unseen}"]]

    # a page that said the same of a wrong sum would say nothing
    def spoiled(one: Candidate) -> Candidate:
        gates = {**one.checks.gates, "sums": replace(one.checks.gates["sums"], passed=one.name != "halves")}
        return replace(one, checks=replace(one.checks, gates=gates))

    everybody = tuple(map(spoiled, record.candidates))
    _, decision = conclude(Observed(workload, CPU, everybody, record.comparisons))
    assert decision.code == "numerics_broken"
    assert "halves" in decision.sentence
