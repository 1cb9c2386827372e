"""Conclusions computed again: what was edited or lost is found out, another checkout's are left alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_records import cpu_record
from zygote import ROOT, Zygote

from experiments.cli import concluded_again, discovery
from experiments.evidence import rules, source, store
from experiments.evidence.conclusion import Claim
from experiments.evidence.record import Record
from experiments.evidence.rules import CURRENT
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT

FOLDER = "experiments/training_mechanism/mixed_precision_backward"


@pytest.fixture(scope="module")
def concluded() -> Record:
    """A record of these very sources, with what its experiment concludes from its candidates."""
    smoke = EXPERIMENT.workloads["smoke"]
    bare = cpu_record()
    workload = replace(bare.workload, name="smoke", knobs=smoke.knobs(), digest=smoke.digest())
    record = replace(bare, workload=workload, source=source.look(CURRENT.scope_of(FOLDER)))
    claims, decision = concluded_again.concluded(EXPERIMENT, record)
    assert claims
    return replace(record, claims=claims, decision=decision)


def test_what_follows_from_the_candidates_is_ok(concluded: Record) -> None:
    found = concluded_again.check(concluded)
    assert (found.status, found.found) == ("ok", f"decision recomputed, claims recomputed: {len(concluded.claims)}")


def test_an_edited_decision_is_found_out(concluded: Record) -> None:
    edited = replace(concluded.decision, sentence="10x faster")
    found = concluded_again.check(replace(concluded, decision=edited))
    assert (found.status, "'10x faster'" in found.found) == ("blocked", True)
    recoded = replace(concluded.decision, code="adopt")
    assert concluded_again.check(replace(concluded, decision=recoded)).status == "blocked"


def test_an_edited_or_missing_claim_is_found_out(concluded: Record) -> None:
    first, *others = concluded.claims
    better = replace(first, statement=first.statement.replace("agree", "are equal"))
    assert better != first
    for claims in ((better, *others), tuple(others)):
        found = concluded_again.check(replace(concluded, claims=claims))
        assert (found.status, first.statement[:40] in found.found) == ("blocked", True)


def test_a_claim_too_many_is_found_out(concluded: Record) -> None:
    more = Claim(kind="gradient_equivalence", statement="under dropout: bit-identical", candidates=("fp32",))
    for claims in ((*concluded.claims, more), (*concluded.claims, concluded.claims[0])):
        found = concluded_again.check(replace(concluded, claims=claims))
        assert (found.status, found.found.split(":")[0]) == ("blocked", "a claim that does not follow")


COMMITTED = ("activation_checkpointing/2026-11-30-b", "mixed_precision_backward/h200-a")


def committed(name: str) -> Record:
    return store.read(ROOT / "experiments" / "results" / f"{name}.json")


@pytest.mark.parametrize("name", COMMITTED)
def test_a_record_of_other_sources_is_held_against_codes_and_kinds(name: str) -> None:
    record = committed(name)
    found = concluded_again.check(record)
    assert (record.identity.schema_version, found.status) == ("1.0.0", "ok")
    assert found.found.startswith(f"recomputed with other sources: decision {record.decision.code}, ")
    assert found.found.endswith("; what a probe found is not in a record of schema 1.0")
    reworded = replace(record, decision=replace(record.decision, sentence="the same in other words"))
    assert concluded_again.check(reworded).status == "ok"


@pytest.mark.parametrize("name", COMMITTED)
def test_an_edited_record_of_other_sources_is_a_warning_that_names_its_commit(name: str) -> None:
    record = committed(name)
    free = Claim(kind="time", statement="fp16 is 100 x faster on any GPU", candidates=())
    for edited, words in (
        (replace(record, decision=replace(record.decision, code="adopt")), "decision adopt; these other sources: "),
        (replace(record, claims=(*record.claims, free)), "a claim on time more"),
        (replace(record, claims=()), "less than by these other sources"),
    ):
        found = concluded_again.check(edited)
        assert (found.status, words in found.found) == ("warning", True), found
        commit = source.find_commit(record.source)
        assert found.repair.endswith(f"git checkout {commit[:12]}" if commit else "the checkout it was run in")


@pytest.mark.parametrize("name", [*COMMITTED, "gradient_accumulation/2026-11-30-b", "activation_offload/2026-11-30-b"])
def test_a_free_claim_is_refused_of_every_experiment(name: str) -> None:
    """A record as these sources would write it, and the same with one sentence more."""
    bare = committed(name)
    package = discovery.packages()[bare.identity.experiment]
    ours = replace(bare, source=source.look(rules.of(bare).scope_of(package.replace(".", "/"))))
    claims, decision = concluded_again.concluded(discovery.load(bare.identity.experiment), ours)
    record = replace(ours, claims=claims, decision=decision)
    assert concluded_again.check(record).status == "ok"
    for kind in ("time", "memory", "gradient_equivalence"):
        free = Claim(kind=kind, statement="fp16 is 100 x faster on any GPU", candidates=())
        found = concluded_again.check(replace(record, claims=(*claims, free)))
        assert found.found == "a claim that does not follow: 'fp16 is 100 x faster on any GPU'"
        assert found.status == "blocked"


def test_no_version_number_lets_a_claim_through(concluded: Record) -> None:
    """These sources write no record of schema 1.0: one that says so was edited."""
    more = Claim(kind="gradient_equivalence", statement="under dropout: bit-identical", candidates=("fp32",))
    older = replace(
        concluded,
        identity=replace(concluded.identity, schema_version="1.0.0"),
        candidates=tuple(replace(candidate, probes=None) for candidate in concluded.candidates),
        claims=(*concluded.claims, more),
    )
    assert concluded_again.check(older).status == "blocked"


def test_other_sources_and_other_commands_conclude_for_themselves(concluded: Record) -> None:
    older = replace(concluded.source, digest="sha256:" + "0" * 64, commit=None, dirty=None)
    other = concluded_again.check(replace(concluded, source=older))
    assert (other.status, "with other sources" in other.found) == ("ok", True)
    assert "probe" not in other.found
    bare = concluded_again.check(replace(concluded, source=older, decision=replace(concluded.decision, code="avoid")))
    assert (bare.status, bare.repair) == ("warning", "recompute in the checkout it was run in")
    broken = concluded_again.check(
        replace(concluded, source=older, workload=replace(concluded.workload, knobs={"x": 1}))
    )
    assert (broken.status, "conclude nothing" in broken.found) == ("warning", True)
    elsewhere = replace(concluded, identity=replace(concluded.identity, experiment="conformance"))
    assert concluded_again.check(elsewhere).status == "skipped"


@pytest.fixture(scope="module")
def smoke(forks: Zygote, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The record of a run whose claims rest on a probe; as small as a run can be, for nobody reads its times."""
    runs = tmp_path_factory.mktemp("runs")
    zygote = forks.at(runs)
    small = ("--batch", "1", "--sequence", "16", "--steps", "1", "--rounds", "1", "--warmup", "0")
    done = zygote.run("run", "activation_checkpointing", *small, "--run-label", "smoke")
    assert done.code == 0, done.stderr
    verified = zygote.run("results", "verify", "smoke")
    assert verified.code == 0, verified.stdout
    assert "decision recomputed, claims recomputed: 2\n" in verified.stdout
    return runs / "activation_checkpointing" / "smoke" / "record.json"


@pytest.mark.slow
def test_every_claim_of_a_run_is_drawn_again_from_its_record(smoke: Path) -> None:
    record = store.read(smoke)
    assert [claim.statement for claim in record.claims if claim.statement.startswith("under dropout 0.1")]
    found = concluded_again.check(record)
    assert (found.status, found.found) == ("ok", "decision recomputed, claims recomputed: 2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({"kept_error": 1e-4}, "not among its claims: 'under dropout 0.1: gradients are 1.0e-04 off"),
        ({"kept_error": 0.5}, "another decision"),
        ({"lost_error": None}, "a claim that does not follow: 'under dropout"),
        ({"dropout": 0.5}, "not among its claims: 'under dropout 0.5"),
    ],
)
def test_an_edited_answer_of_a_probe_is_found_out(
    smoke: Path, tmp_path: Path, answer: dict[str, Any], named: str
) -> None:
    document = json.loads(smoke.read_text(encoding="utf-8"))
    (probes,) = (candidate["probes"] for candidate in document["candidates"] if candidate["probes"])
    probes["dropout_random_state"].update(answer)
    edited = tmp_path / "record.json"
    edited.write_text(json.dumps(document), encoding="utf-8")
    found = concluded_again.check(store.read(edited))
    assert (found.status, named in found.found) == ("blocked", True), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({}, "a claim that does not follow: 'under dropout"),
        ({"kept_error": 0.0, "lost_error": 0.1}, "nothing can be concluded: KeyError('dropout')"),
    ],
)
def test_an_answer_taken_away_is_found_out(smoke: Path, answer: dict[str, Any], named: str) -> None:
    record = store.read(smoke)
    emptied = tuple(
        replace(candidate, probes=dict.fromkeys(candidate.probes or {}, answer)) for candidate in record.candidates
    )
    found = concluded_again.check(replace(record, candidates=emptied))
    assert (found.status, named in found.found) == ("blocked", True), found
