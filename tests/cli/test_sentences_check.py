"""`record.sentences`: a text that its code does not say is blocked, a code without a template is a warning."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sample_records import cpu_record, gpu_record
from zygote import ROOT

from experiments.cli import discovery, sentences_check
from experiments.conformance import conformance_sentences as of_conformance
from experiments.evidence import store
from experiments.evidence.conclusion import Said
from experiments.evidence.record import Record
from experiments.evidence.sentences import decision, say
from experiments.kinds.training_step import step_sentences as general
from tools.environments.errors import LabError

NOWHERE = Said(code="of_a_later_checkout", arguments={})


@pytest.mark.parametrize(("record", "held"), [(gpu_record(), 5), (cpu_record(), 8)])
def test_texts_that_follow_from_their_codes_are_ok(record: Record, held: int) -> None:
    found = sentences_check.check(record)
    assert (found.status, found.found) == ("ok", f"{held} recomputed")


def edited() -> dict[str, Record]:
    """A record with one text, code or argument that was touched."""
    record = cpu_record()
    first, *claims = record.claims
    limit, *limits = record.limits
    of_claim = first.limits[0]
    assert limit.said is not None
    assert first.said is not None
    return {
        "decision": replace(record, decision=replace(record.decision, sentence="10 x faster")),
        "statement": replace(record, claims=(replace(first, statement="10 x faster"), *claims)),
        "argument": replace(
            record,
            claims=(replace(first, said=replace(first.said, arguments={**first.said.arguments, "skips": 2})), *claims),
        ),
        "reason": replace(record, limits=(replace(limit, reason="some weights"), *limits)),
        "lift": replace(record, limits=(replace(limit, lift="nothing"), *limits)),
        "limit of a claim": replace(
            record, claims=(replace(first, limits=(replace(of_claim, lift="nothing"), *first.limits[1:])), *claims)
        ),
        "surplus argument": replace(
            record, limits=(replace(limit, said=replace(limit.said, arguments={"why": "x"})), *limits)
        ),
        "no code": replace(record, decision=replace(record.decision, said=None)),
    }


@pytest.mark.parametrize("part", edited())
def test_a_text_that_its_code_does_not_say_is_blocked(part: str) -> None:
    found = sentences_check.check(edited()[part])
    assert (found.status, found.found.split(":")[0]) == ("blocked", "a text that its code does not say")


def test_a_code_without_a_template_here_is_a_warning() -> None:
    record = gpu_record()
    later = replace(record, decision=replace(record.decision, sentence="in other words", said=NOWHERE))
    found = sentences_check.check(later)
    assert (found.status, found.found) == (
        "warning",
        "not recomputed: no template here for 'of_a_later_checkout'",
    )
    both = replace(later, claims=(replace(record.claims[0], statement="faster"), *record.claims[1:]))
    assert sentences_check.check(both).status == "blocked"


def test_a_record_before_1_2_holds_texts_only() -> None:
    record = store.read(ROOT / "experiments" / "results" / "mixed_precision_backward" / "h200-a.json")
    found = sentences_check.check(record)
    assert (found.status, found.found) == ("skipped", "schema 1.0.0 holds texts only")


def of(name: str) -> Record:
    return replace(gpu_record(), identity=replace(gpu_record().identity, experiment=name))


def test_templates_are_those_of_the_record_s_experiment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sentences_check.templates_of(of("activation_offload")).keys() >= {"only_moved", "peaks"}
    assert sentences_check.templates_of(of("conformance")) == of_conformance.SENTENCES
    assert sentences_check.templates_of(of("of_another_checkout")) == general.SENTENCES

    def refuse(name: str) -> None:
        raise LabError("code that imports", "a fault", "fix it", name)

    monkeypatch.setattr(discovery, "load", refuse)
    assert sentences_check.templates_of(of("activation_offload")) == general.SENTENCES


def test_a_conformance_run_says_by_its_own_templates() -> None:
    against = [say(of_conformance.SENTENCES, "framework", name="torch", version="2.13.0")]
    sentence = say(of_conformance.SENTENCES, "pages_passed", passed=1, pages=1, against=against, faults=9)
    assert sentence.text == "1 of 1 pages passed, checked against torch 2.13.0; 9 of 9 faults noticed"
    record = replace(of("conformance"), claims=(), decision=decision("numerics_ok", sentence))
    assert sentences_check.check(record).status == "ok"
