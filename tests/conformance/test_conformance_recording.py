"""From results to record to documents: nothing is lost on the way, and a failure never reads like a pass."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from experiments.conformance import catalogue, conformance_record
from experiments.conformance.check_results import CheckResult, MutantResult, PageResult, RunResult
from experiments.evidence import index, rules, store
from experiments.evidence.record import Record
from experiments.evidence.subject import ProfileFacts
from tools.environments.errors import LabError
from tools.environments.layout import ROOT
from tools.environments.model import Check, Report
from tools.environments.registry import registry
from tools.rendering import conformance_parts

DIGEST = "sha256:" + "0" * 64
VERSIONS = {"torch": "2.13.0+cpu", "transformers": "5.24.0"}
PASSED = CheckResult(
    name="causal",
    ours="attention.attention",
    theirs="torch.sdpa",
    status="passed",
    tolerance="1.0e-14 (float64, 45 roundings: softmax)",
    worst_error=3e-16,
    worst_share=0.03,
    allowed=1e-14,
    comparisons=80,
    cases=20,
)
NOTICED = MutantResult("scale_missing", "attention", "the scores are not scaled", "causal", "output differs", 5, 0.1)


def record(*pages: PageResult, seed: int = conformance_record.SEED) -> Record:
    report = Report("TRAIN-CPU", DIGEST, (Check("python.version", "ok", "3.11", "3.11"),))
    facts = ProfileFacts(id="TRAIN-CPU", registry_digest=DIGEST, requirement_digest=DIGEST, preflight=report)
    began = datetime(2026, 12, 1, 10, 0, 0, tzinfo=UTC)
    return conformance_record.record(RunResult(pages, VERSIONS, seed), facts, "first", began, 1.25)


def page(*checks: CheckResult, mutants: tuple[MutantResult, ...] = (NOTICED,)) -> PageResult:
    return PageResult("attention", checks, mutants, VERSIONS, 0.5)


def test_a_passed_page_keeps_error_tolerance_and_its_formula(tmp_path: Path) -> None:
    written = store.write(record(page(PASSED)), tmp_path / "record.json")
    check, fault = written.candidates
    gate = check.checks.gates["oracle"]
    assert gate is not None
    assert (gate.passed, gate.against, gate.error, gate.tolerance, gate.tensors) == (
        True,
        "torch.sdpa",
        3e-16,
        1e-14,
        80,
    )
    assert "45 roundings: softmax" in gate.yardstick
    assert fault.settings["public_report"] == 5
    assert "oracle" in fault.checks.gates
    assert fault.checks.gates["oracle"].against == "causal"
    assert written.evidence_level == "cpu_mechanism"
    assert written.decision.code == "numerics_ok"
    assert "1 of 1 faults noticed" in written.decision.sentence
    assert store.read(tmp_path / "record.json") == written


def test_a_check_that_failed_over_a_shape_is_stored_and_one_beyond_its_tolerance_has_not_passed(tmp_path: Path) -> None:
    failed = replace(PASSED, status="failed", reason="output differs at its shape")
    survivor = replace(NOTICED, killed_by=None, how="")
    store.write(record(page(failed, mutants=(survivor,))), tmp_path / "record.json")
    with pytest.raises(LabError, match=r"oracle gate passed, although it has error 0\.5"):
        store.write(record(page(replace(PASSED, worst_error=0.5))), tmp_path / "other.json")


def test_a_failed_check_is_a_gate_that_did_not_pass() -> None:
    failed = replace(PASSED, status="failed", reason="output differs at [0]: ours 1, theirs 2")
    made = record(page(failed, mutants=()))
    gate = made.candidates[0].checks.gates["oracle"]
    assert gate is not None
    assert not gate.passed
    assert gate.yardstick == "output differs at [0]: ours 1, theirs 2"
    assert made.decision.code == "numerics_broken"


def test_a_skipped_check_is_skipped_with_its_reason() -> None:
    skipped = CheckResult("eager", "attention", "transformers", "skipped", "transformers is not installed")
    made = record(page(PASSED, skipped))
    assert made.candidates[1].status == "skipped"
    assert made.candidates[1].failure is not None
    assert made.candidates[1].failure.message == "transformers is not installed"
    assert made.decision.code == "inconclusive"


def test_a_survivor_is_a_control_that_was_not_caught() -> None:
    survivor = replace(NOTICED, killed_by=None, how="")
    graded = rules.graded(record(page(PASSED, mutants=(survivor,))))
    assert [limit.code for limit in graded.limits].count("control_not_caught") == 1
    assert graded.decision.code == "numerics_broken"


def test_another_seed_is_another_workload() -> None:
    assert record(page(PASSED)).workload.registered
    assert not record(page(PASSED), seed=3).workload.registered


def _entry(folder: Path, made: Record) -> index.Entry:
    target = folder / "experiments" / "results" / "conformance" / "first.json"
    target.parent.mkdir(parents=True)
    store.write(made, target)
    entries, refused = index.load(folder / "experiments" / "results")
    assert not refused
    return entries[0]


def test_the_documents_show_what_the_record_says(tmp_path: Path) -> None:
    made = record(page(PASSED))
    whole = replace(
        made, workload=conformance_record.workload(catalogue.ids("training_mechanism"), conformance_record.SEED)
    )
    makers = conformance_parts.makers([_entry(tmp_path, whole)], registry.load(ROOT))
    here = tmp_path / "docs" / "training_mechanism" / "a.md"
    summary = makers["conformance-pages"](("training_mechanism",), here)
    assert "| `attention` | Attention backward | passed | 1 | 1 / 1 | 3 % (`causal`) |" in summary
    assert "../../experiments/results/conformance/first.json" in summary
    assert "| `causal` | torch.sdpa | 20 | 3.0e-16 | 1.0e-14 | float64, 45 roundings: softmax |" in makers[
        "conformance-checks"
    ](("attention",), here)
    faults = makers["conformance-faults"](("attention",), here)
    assert "| the scores are not scaled | `attention` | 5 | `causal` |" in faults
    assert "放进代码的错误" in makers["conformance-faults"](("attention",), here.with_name("a.zh.md"))


def test_without_a_record_the_documents_say_so(tmp_path: Path) -> None:
    makers = conformance_parts.makers([], registry.load(ROOT))
    for name, arguments in (("conformance-pages", ("training_mechanism",)), ("conformance-checks", ("attention",))):
        assert makers[name](arguments, tmp_path / "a.md") == "no record is committed yet"
    with pytest.raises(ValueError, match="one of autograd"):
        makers["conformance-faults"](("no_such",), tmp_path / "a.md")
    with pytest.raises(ValueError, match="one of training_mechanism"):
        makers["conformance-pages"]((), tmp_path / "a.md")
