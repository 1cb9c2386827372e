"""Rules are looked up by the record: its own compute it, newer ones may only warn, missing ones leave it open."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.cli import concluded_again, results_verify
from experiments.evidence import index, rules, store, superseding, verifying
from experiments.evidence.record import Record
from experiments.evidence.rules import v1
from experiments.evidence.rules.rule_set import Grade, Known
from tools.environments.errors import LabError
from tools.environments.layout import ROOT
from tools.environments.model import Check

H200 = ROOT / "experiments" / "results" / "mixed_precision_backward" / "h200-a.json"
CHECKPOINTING = ROOT / "experiments" / "results" / "activation_checkpointing" / "2026-11-30-a.json"
FOLDER = ROOT / "experiments" / "evidence" / "rules"
NEXT = replace(v1.RULES, version=2)


def with_next(**changes: object) -> Known:
    """The rules there are, and a version 2 that differs from version 1 in these parts."""
    return {**rules.KNOWN, 2: replace(NEXT, **changes)}  # type: ignore[arg-type]


def asked(record: Record, known: Known) -> dict[str, Check]:
    registered = {record.identity.experiment: {record.workload.name: record.workload.digest}}
    return {check.id: check for check in results_verify.recomputed(record, registered, known)}


@pytest.fixture(scope="module")
def h200() -> Record:
    return store.read(H200)


def test_every_version_has_its_folder_its_number_and_its_conclusions() -> None:
    folders = {path.parent.name for path in FOLDER.glob("v*/__init__.py")}
    assert {f"v{version}" for version in rules.KNOWN} <= folders
    assert {version: found.version for version, found in rules.KNOWN.items()} == {n: n for n in rules.KNOWN}
    assert {found.conclusions for found in rules.KNOWN.values()} <= concluded_again.CONCLUDE.keys()
    assert rules.CURRENT in rules.KNOWN.values()


@pytest.mark.parametrize(("path", "schema"), [(H200, "1.0.0"), (CHECKPOINTING, "1.1.0")])
def test_records_of_schema_1_0_and_1_1_are_of_version_1(path: Path, schema: str) -> None:
    record = store.read(path)
    assert record.identity.schema_version == schema
    assert rules.of(record) is v1.RULES


def test_of_the_newest_rules_nothing_is_superseded(h200: Record) -> None:
    found = superseding.check(h200, concluded_again.again, {1: v1.RULES})
    assert (found.status, found.found) == ("ok", "version 1, the newest")


def test_newer_rules_that_decide_the_same_are_no_warning(h200: Record) -> None:
    found = superseding.check(h200, concluded_again.again, with_next())
    assert (found.status, found.found) == ("ok", "version 1; version 2 decides the same")


def _lower(record: Record) -> Grade:
    found = v1.RULES.grade(record)
    return replace(found, level="gpu_smoke", limits=(*found.limits, replace(found.limits[0], code="launch_bound")))


def _claims_lower(record: Record) -> Grade:
    found = v1.RULES.grade(record)
    return replace(found, claims=(replace(found.claims[0], level="plan"), *found.claims[1:]))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"grade": _lower}, "level gpu_smoke, not gpu_measured; limit launch_bound more"),
        ({"grade": _claims_lower}, "claim on gradient_equivalence of tf32, bf16, fp16 + scaler at plan"),
        ({"failed_gates": lambda candidate: [candidate.name]}, "gates of fp32 failed"),
        (
            {"comparisons": lambda cs, qs: tuple(replace(c, verdict="faster") for c in v1.RULES.comparisons(cs, qs))},
            "tf32 in step_ms faster, not ambiguous",
        ),
        (
            {"comparisons": lambda cs, qs: v1.RULES.comparisons(cs, qs)[1:]},
            "tf32 in step_ms not compared, not ambiguous",
        ),
        ({"noise_floors": lambda cs, qs: ()}, "level gpu_smoke, not gpu_measured; limit no_noise_floor more"),
    ],
    ids=["level", "claim", "gates", "verdict", "comparison", "noise floor"],
)
def test_a_newer_rule_that_decides_otherwise_is_named(h200: Record, changes: dict[str, object], named: str) -> None:
    found = superseding.check(h200, concluded_again.again, with_next(**changes))
    assert found.status == "warning"
    assert found.found.startswith("superseded rule: version 2 would say ")
    assert named in found.found
    assert found.repair == verifying.NEW_RUN


def test_a_decision_that_newer_rules_would_not_take_is_named(h200: Record) -> None:
    faster = with_next(
        comparisons=lambda cs, qs: tuple(replace(c, verdict="faster") for c in v1.RULES.comparisons(cs, qs))
    )
    told = list(superseding.differences(h200, rules.of(h200), faster[2], concluded_again.again))
    assert told[-1] == "decision adopt, not inconclusive"
    found = superseding.check(h200, concluded_again.again, faster)
    assert found.found.endswith(f"; and {len(told) - superseding.MOST_NAMED} more")


def test_newer_rules_answer_no_other_question(h200: Record) -> None:
    now, before = asked(h200, with_next(grade=_lower)), asked(h200, rules.KNOWN)
    assert now.pop("record.rules") != before.pop("record.rules")
    assert now == before


def test_what_rules_compute_of_a_record_is_drawn_once_by_each_version(h200: Record) -> None:
    drawn: list[tuple[int, str]] = []

    def counted(version: int) -> object:
        def summarise(name: str, samples: object, quantities: object) -> object:
            drawn.append((version, name))
            return v1.RULES.summarise(name, samples, quantities)  # type: ignore[arg-type]

        return summarise

    asked(h200, {1: replace(v1.RULES, summarise=counted(1)), 2: replace(NEXT, summarise=counted(2))})  # type: ignore[arg-type]
    names = [candidate.name for candidate in h200.candidates]
    assert sorted(drawn) == sorted((version, name) for version in (1, 2) for name in names)


def test_other_digits_alone_supersede_nothing(h200: Record) -> None:
    def wider(name: str, samples: object, quantities: object) -> object:
        found = v1.RULES.summarise(name, samples, quantities)  # type: ignore[arg-type]
        if found is None:
            return found
        wide = {word: replace(one, high=one.high * 1.001) for word, one in found.intervals.items()}
        return replace(found, intervals=wide)

    assert superseding.check(h200, concluded_again.again, with_next(summarise=wider)).status == "ok"


def test_without_its_rules_nothing_of_a_record_is_called_ok_that_they_compute(h200: Record) -> None:
    elsewhere: Known = {2: NEXT}
    found = {**asked(h200, elsewhere), "record.valid": results_verify.valid(h200, elsewhere)}
    computed = [f"record.{name}" for name in ("valid", "summaries", "comparisons", "sources", "conclusions", "rules")]
    for name in computed:
        assert (found[name].status, found[name].wanted) == ("warning", "rules version 2")
        assert found[name].found == "not recomputed: this checkout has no rules version 1"
        assert found[name].repair == "update this checkout: git pull"
    assert {name for name, check in found.items() if check.status == "ok"} == {
        "record.workload",
        "record.privacy",
        "record.kind",
    }
    with pytest.raises(LabError, match="rules version 1"):
        rules.of(h200, elsewhere)


def test_a_level_that_nothing_here_has_computed_is_read_and_does_not_count() -> None:
    document = json.loads(CHECKPOINTING.read_text(encoding="utf-8"))
    document["evidence_level"] = "gpu_measured"
    boast = json.dumps(document).encode()
    elsewhere: Known = {2: NEXT}
    record = store.parse(boast, "here", elsewhere)
    assert index.status_of([record], elsewhere) == "not measured"
    with pytest.raises(LabError, match="cpu_mechanism, as recomputed"):
        store.parse(boast, "here")
