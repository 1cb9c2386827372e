"""The page on int8 weights: a whole run graded and drawn again, what it says, and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from operator_bench import CPU, OperatorBench

from experiments.cli.concluded_again import concluded
from experiments.evidence.candidate import Candidate
from experiments.evidence.record import Record
from experiments.evidence.sentences import text_of
from experiments.harness.experiment import DeviceFacts, Observed, Options
from experiments.kinds.operator.kind import KIND
from experiments.kinds.operator.operator_table import table
from experiments.mechanisms.int8_weights import dequantise, quantise
from experiments.quantization.int8_weight_product import worker
from experiments.quantization.int8_weight_product.conclusions import conclude
from experiments.quantization.int8_weight_product.experiment import EXPERIMENT, WORKLOADS, candidates, work_of
from tools.environments.layout import ROOT

CARD = DeviceFacts(kind="cuda", torch="2.11.0+cu128", torch_cuda="12.8", bf16_native=True, tf32=True)


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Every task of the smoke workload in a fork of its own."""
    return OperatorBench(EXPERIMENT, tmp_path_factory.mktemp("run")).record()


def named(record: Record, name: str) -> Candidate:
    return next(candidate for candidate in record.candidates if candidate.name == name)


def test_the_record_is_graded_and_its_conclusions_follow_from_it(record: Record) -> None:
    assert record.evidence_level == "cpu_mechanism"
    assert (record.identity.kind, record.model, record.workload.batch) == ("operator", None, None)
    assert [candidate.status for candidate in record.candidates] == ["ok"] * 5
    claims, decision = concluded(EXPERIMENT, record)
    assert decision == record.decision
    assert [claim.statement for claim in claims] == [claim.statement for claim in record.claims]
    assert KIND.words.faults(record) == []


def test_the_record_survives_its_own_text(record: Record) -> None:
    assert Record.from_json(json.loads(json.dumps(record.to_json()))) == record


def test_every_sentence_is_made_again_from_its_code(record: Record) -> None:
    for claim in record.claims:
        assert claim.said is not None
        assert text_of(EXPERIMENT.templates(), claim.said) == claim.statement
    assert record.decision.said is not None
    assert text_of(EXPERIMENT.templates(), record.decision.said) == record.decision.sentence


def test_claims_on_values_reach_the_records_level_and_those_on_bytes_are_an_expectation(record: Record) -> None:
    kinds = [claim.kind for claim in record.claims]
    assert kinds == ["value_equivalence", "value_equivalence", "quantization_error", "memory", "memory"]
    assert {claim.level for claim in record.claims} == {"cpu_mechanism"}
    for claim in record.claims:
        codes = {limit.code for limit in claim.limits}
        assert ("expectation" in codes) == (claim.kind == "memory")
        assert not codes & {"not_measured", "claim_gate_failed", "ambiguous"}


def test_a_quarter_of_the_bytes_is_counted_and_declared(record: Record) -> None:
    workload = WORKLOADS["smoke"]
    weights = workload.in_features * workload.out_features
    assert named(record, "dense").median("weight_bytes") == 4 * weights
    for name in ("int8 dequantised", "int8 scaled after"):
        candidate = named(record, name)
        assert candidate.median("weight_bytes") == weights + 4 * workload.out_features
        assert candidate.settings["counted"] == candidate.settings["work"]


def test_the_control_is_caught_and_not_timed(record: Record) -> None:
    control = named(record, "int8 neighbour's scale")
    assert not control.samples
    assert not control.checks.gates["value"].passed
    assert "int8 neighbour's scale is" in record.claims[1].statement


def test_what_rounding_lost_is_recorded_and_said(record: Record) -> None:
    answer = (named(record, "int8 dequantised").probes or {})["rounding_error"]
    error, predicted, largest = (float(str(answer[word])) for word in ("weight_error", "predicted", "largest_step"))
    assert error == pytest.approx(predicted, rel=0.05)
    assert 0.49 < largest < 0.5 + 2**-15
    assert float(str(answer["output_error"])) == pytest.approx(error, rel=0.5)
    assert f"moves the weights by {error:.3g} of their norm" in record.claims[2].statement


def test_on_a_cpu_the_decision_is_about_numbers_alone(record: Record) -> None:
    assert record.decision.code == "numerics_ok"
    assert "read 27 % of the dense weight's bytes" in record.decision.sentence


def test_a_weight_more_than_half_a_step_off_is_no_rounding(record: Record) -> None:
    def spoiled(candidate: Candidate) -> Candidate:
        probes = {name: {**answer, "largest_step": 0.75} for name, answer in (candidate.probes or {}).items()}
        return replace(candidate, probes=probes)

    everybody = tuple(map(spoiled, record.candidates))
    observed = Observed(workload=WORKLOADS["smoke"], device=CPU, candidates=everybody, comparisons=record.comparisons)
    _, decision = conclude(observed)
    assert decision.code == "numerics_broken"
    assert "0.750 of a step off" in decision.sentence


def test_on_a_card_time_is_claimed_and_weighed(record: Record) -> None:
    observed = Observed(
        workload=WORKLOADS["smoke"], device=CARD, candidates=record.candidates, comparisons=record.comparisons
    )
    claims, decision = conclude(observed)
    assert [claim.kind for claim in claims].count("time") == 2
    assert decision.code == "inconclusive"  # no peak was read on this machine


def test_the_table_shows_what_was_read_and_how_far_off(record: Record) -> None:
    shown = table(record)
    rows = {row[0]: dict(zip(shown.columns, row, strict=True)) for row in shown.rows}
    assert rows["int8 scaled after"]["weight bytes"] == "3,264"
    assert rows["int8 scaled after"]["work"] == "as declared"
    assert rows["int8 scaled after"]["gates"] == "hold"
    assert rows["int8 neighbour's scale (wrong on purpose)"]["gates"] == "caught"
    assert rows["dense (baseline)"]["from the baseline"] == ""


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_every_registered_workload_is_within_bounds_and_declares_its_work(name: str) -> None:
    workload = WORKLOADS[name]
    KIND.check(workload, None, Options())
    for spec in candidates(workload, CPU, Options()):
        assert spec.settings["work"] == work_of(str(spec.settings["form"]), workload)


def test_the_drawn_weights_are_the_same_in_every_process(tmp_path: Path) -> None:
    context = OperatorBench(EXPERIMENT, tmp_path).context("dense")
    first, second = worker.exact(context), worker.exact(context)
    assert torch.equal(first.out, second.out)
    other = OperatorBench(EXPERIMENT, tmp_path, seed=1).context("dense")
    assert not torch.equal(first.out, worker.exact(other).out)


def test_the_size_of_the_terms_is_that_of_every_product_of_an_input_and_a_weight(tmp_path: Path) -> None:
    context = OperatorBench(EXPERIMENT, tmp_path, rows=3, in_features=5, out_features=4).context("dense")
    weight, given = worker._drawn(context)
    terms = given.double()[:, None, :] * dequantise(quantise(weight)).double()[None]
    found = worker.exact(context)
    assert found.terms == pytest.approx(float(terms.norm()), rel=1e-6)
    torch.testing.assert_close(found.out, terms.sum(dim=2), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--rows", "0"), "at least 1"),
        (("--out-features", "1"), "at least 2"),
        (("--workload", "huge"), "smoke, default, large"),
        (("--batch", "4"), "--batch"),
    ],
    ids=lambda value: "=".join(value) if isinstance(value, tuple) else "",
)
def test_bad_options_are_refused_before_anything_runs(options: tuple[str, ...], found: str) -> None:
    command = [sys.executable, "-m", "experiments", "run", EXPERIMENT.name, "--profile", "BASE-CPU", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert found in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
