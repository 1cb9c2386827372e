"""Conclusions computed again: an edited decision and a lost claim are found out, another checkout's are left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_records import cpu_record

from experiments.cli import conclusions
from experiments.evidence import source
from experiments.evidence.conclusion import Claim
from experiments.evidence.record import Record
from experiments.training_mechanism.mixed_precision_backward.experiment import EXPERIMENT

FOLDER = "experiments/training_mechanism/mixed_precision_backward"


@pytest.fixture(scope="module")
def concluded() -> Record:
    """A record of these very sources, with what its experiment concludes from its candidates."""
    smoke = EXPERIMENT.workloads["smoke"]
    bare = cpu_record()
    workload = replace(bare.workload, name="smoke", knobs=smoke.knobs(), digest=smoke.digest())
    record = replace(bare, workload=workload, source=source.look(source.scope_of(FOLDER)))
    claims, decision = conclusions.concluded(EXPERIMENT, record)
    assert claims
    return replace(record, claims=claims, decision=decision)


def test_what_follows_from_the_candidates_is_ok(concluded: Record) -> None:
    found = conclusions.check(concluded)
    assert (found.status, found.found) == ("ok", f"decision recomputed, claims recomputed: {len(concluded.claims)}")


def test_an_edited_decision_is_found_out(concluded: Record) -> None:
    edited = replace(concluded.decision, sentence="10x faster")
    found = conclusions.check(replace(concluded, decision=edited))
    assert (found.status, "'10x faster'" in found.found) == ("blocked", True)
    recoded = replace(concluded.decision, code="adopt")
    assert conclusions.check(replace(concluded, decision=recoded)).status == "blocked"


def test_an_edited_or_missing_claim_is_found_out(concluded: Record) -> None:
    first, *others = concluded.claims
    better = replace(first, statement=first.statement.replace("agree", "are equal"))
    assert better != first
    for claims in ((better, *others), tuple(others)):
        found = conclusions.check(replace(concluded, claims=claims))
        assert (found.status, first.statement[:40] in found.found) == ("blocked", True)


def test_a_claim_from_a_probe_is_counted_and_left(concluded: Record) -> None:
    more = Claim(kind="gradient_equivalence", statement="under dropout: bit-identical", candidates=("fp32",))
    found = conclusions.check(replace(concluded, claims=(*concluded.claims, more)))
    assert (found.status, "resting on probes, which a record does not hold: 1" in found.found) == ("ok", True)


def test_other_sources_and_other_commands_conclude_for_themselves(concluded: Record) -> None:
    older = replace(concluded.source, digest="sha256:" + "0" * 64)
    skipped = conclusions.check(replace(concluded, source=older))
    assert (skipped.status, "other sources" in skipped.found) == ("skipped", True)
    bare = conclusions.check(replace(concluded, source=replace(older, commit=None, dirty=None)))
    assert "the checkout it was run in" in bare.found
    elsewhere = replace(concluded, identity=replace(concluded.identity, experiment="conformance"))
    assert conclusions.check(elsewhere).status == "skipped"
