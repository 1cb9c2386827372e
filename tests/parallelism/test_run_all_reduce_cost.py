"""The all-reduce page as a user runs it: two gloo ranks, a graded and verified record, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from zygote import Zygote

from experiments.evidence import store
from experiments.evidence.record import Launch
from experiments.parallelism.all_reduce_cost.experiment import EXPERIMENT

NAME = EXPERIMENT.name


def test_a_run_with_two_gloo_ranks_writes_a_graded_and_verified_record(forks: Zygote, tmp_path: Path) -> None:
    lab = forks.at(tmp_path)
    options = ("--steps", "3", "--warmup", "1", "--sizes", "1024,16384,65536,262144", "--unseen", "32768")
    done = lab.run("run", NAME, *options, "--profile", "BASE-CPU", "--run-mode", "cpu_mechanism", "--run-label", "a")
    assert done.code == 0, done.stderr
    record = store.read(tmp_path / NAME / "a" / "record.json")
    assert record.identity.launch == Launch(type="ranks", ranks=2)
    assert record.evidence_level == "cpu_mechanism"
    assert record.decision.code == "numerics_ok"
    assert [c.checks.gates["sums"].passed for c in record.candidates] == [True, True, True, False, False]
    assert [c.checks.gates["ranks"].passed for c in record.candidates] == [True, True, True, False, False]
    assert {c.settings["process_group"] for c in record.candidates} == {"gloo"}
    assert len([claim for claim in record.claims if claim.kind == "cost_model"]) == 2
    verified = lab.run("results", "verify", "a", "--json")
    checks = {check["id"]: check["status"] for check in json.loads(verified.stdout)[0]["checks"]}
    assert {checks[name] for name in ("record.kind", "record.conclusions", "record.summaries")} == {"ok"}
    assert "wrong, caught" in lab.run("show", NAME, "--run-label", "a").stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ranks", "1"), "a whole number of at least 2"),
        (("--sizes", "1024,5000,65536"), "powers of two"),
        (("--unseen", "1024"), "not on the ladder"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    forks: Zygote, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    done = forks.at(tmp_path).run("run", NAME, *options, "--profile", "BASE-CPU", "--run-mode", "cpu_mechanism")
    assert done.code == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
