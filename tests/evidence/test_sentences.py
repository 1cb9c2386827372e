"""Sentences as data: what a template may hold, what its arguments may be, and the text made again from a record."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import discovery
from experiments.conformance import conformance_sentences as of_conformance
from experiments.evidence import limit_sentences
from experiments.evidence.codec import from_json, to_json
from experiments.evidence.conclusion import Limit, Said
from experiments.evidence.limits import level_limit
from experiments.evidence.sentences import NAMED, Templates, fields, merged, names, say, text_of
from experiments.kinds.training_step import step_sentences as general
from tools.environments.layout import ROOT

TEMPLATES = {
    "takes": "{candidate} takes {ratio:.3f} x{more}",
    "busy": ", {ratio:.2f} x busy",
    "failed": "failed: {failures:; }",
    "failure": "{candidate} in {phase}",
    "holds": "{size:gib.2f} GiB, {size:gib}, {share:percent}, {time:ms} ms, {word:words}, {given:quoted}",
    "named": "{candidates:names} | {candidates:, } | {candidates: and }",
}
EVERY: dict[str, Templates] = {
    "limits": limit_sentences.SENTENCES,
    "conformance": of_conformance.SENTENCES,
    **{experiment.name: experiment.templates() for experiment in discovery.each()[0]},
}


def again(said: Said) -> str:
    """The text made from what a file holds of it."""
    return text_of(TEMPLATES, from_json(Said, json.loads(json.dumps(to_json(said)))))


def test_a_sentence_is_a_code_with_arguments_and_a_text() -> None:
    said, text = say(TEMPLATES, "takes", candidate="a", ratio=1.23456, more=[])
    assert text == "a takes 1.235 x"
    assert said == Said(code="takes", arguments={"candidate": "a", "ratio": 1.23456, "more": ()})
    assert again(said) == text


def test_a_clause_is_recorded_with_its_own_code() -> None:
    said, text = say(TEMPLATES, "takes", candidate="a", ratio=2, more=[say(TEMPLATES, "busy", ratio=0.5)])
    assert text == "a takes 2.000 x, 0.50 x busy"
    assert said.arguments["more"] == ({"code": "busy", "arguments": {"ratio": 0.5}},)
    assert again(said) == text
    one = say(TEMPLATES, "takes", candidate="a", ratio=2, more=say(TEMPLATES, "busy", ratio=0.5))
    assert again(one.said) == one.text == text


def test_clauses_are_joined_by_the_field_s_spec() -> None:
    failures = [say(TEMPLATES, "failure", candidate=name, phase="backward") for name in "ab"]
    said, text = say(TEMPLATES, "failed", failures=failures)
    assert text == again(said) == "failed: a in backward; b in backward"


def test_a_clause_needs_no_template_among_those_of_its_sentence() -> None:
    own = say({"own": "of a page"}, "own")
    assert say(TEMPLATES, "takes", candidate="a", ratio=1, more=own).text.endswith("of a page")


def test_specs_of_the_house() -> None:
    size = 3 * 2**29
    found = say(TEMPLATES, "holds", size=size, share=0.123, time=12.25, word="a_word", given="it's")
    assert found.text == '1.50 GiB, 1.50, 12 %, 12.2 ms, a word, "it\'s"'
    assert say(TEMPLATES, "named", candidates=["a", "b"]).text == "a, b | a, b | a and b"
    assert say(TEMPLATES, "named", candidates=["a, b", "c"]).text.startswith("a, b; c | ")
    assert names([]) == ""


def test_an_unknown_code_is_a_key_error_that_names_it() -> None:
    with pytest.raises(KeyError, match="nowhere"):
        say(TEMPLATES, "nowhere")
    with pytest.raises(KeyError, match="nowhere"):
        text_of(TEMPLATES, Said(code="nowhere", arguments={}))
    inner = {"code": "nowhere", "arguments": {}}
    with pytest.raises(KeyError, match="nowhere"):
        text_of(TEMPLATES, Said(code="takes", arguments={"candidate": "a", "ratio": 1.0, "more": (inner,)}))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"ratio": 1.0}, "missing ['phase']"),
        ({}, "missing ['phase', 'ratio']"),
        ({"phase": "a", "ratio": 1.0, "why": "b"}, "too many ['why']"),
        ({"phase": Path("a"), "ratio": 1.0}, "busy.phase"),
        ({"phase": None, "ratio": 1.0}, "busy.phase"),
        ({"phase": True, "ratio": 1.0}, "busy.phase"),
        ({"phase": "a", "ratio": float("nan")}, "busy.ratio"),
        ({"phase": "a", "ratio": float("inf")}, "busy.ratio"),
        ({"phase": "a", "ratio": "2"}, "busy"),
    ],
)
def test_wrong_arguments_are_a_value_error_that_names_the_code(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)) as refused:
        say({"busy": "{phase} {ratio:.2f}"}, "busy", **arguments)
    assert "busy" in str(refused.value)


def nested(depth: int) -> Any:
    """A clause in a clause, `depth` times."""
    value: Any = "x"
    for _ in range(depth):
        value = {"code": "one", "arguments": {"a": value}}
    return value


@pytest.mark.parametrize(
    "value",
    [
        None, True, {}, {"code": "one"}, {"code": "one", "arguments": ()}, {"code": 1, "arguments": {}, "more": 2},
        (1, 2), (("a",),), ({"code": "one", "arguments": {"b": 1}},), 10**400, nested(100_000),
    ],
)  # fmt: skip
def test_whatever_a_record_holds_ends_in_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError, match=r"one|many"):
        text_of({"one": "{a}", "many": "{b:.1f}{a}"}, Said(code="many", arguments={"a": value, "b": value}))


@pytest.mark.parametrize("template", ["{0}", "{}", "{a.b}", "{a[0]}", "{a!r}", "{a:{b}}", "{a", "a}"])
def test_a_template_holds_names_and_specs_only(template: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever Python says of a broken format string
        fields(template)


def test_templates_of_two_sources_share_no_code() -> None:
    assert merged({"a": "1"}, {"b": "2"}) == {"a": "1", "b": "2"}
    with pytest.raises(ValueError, match="two templates of the code a"):
        merged({"a": "1"}, {"a": "1"})


def test_an_experiment_s_templates_may_not_replace_general_ones() -> None:
    (experiment, *_), _ = discovery.each()
    assert experiment.templates().keys() > general.SENTENCES.keys()
    with pytest.raises(ValueError, match="two templates of the code peaks"):
        type(experiment)(
            **{
                **{name: getattr(experiment, name) for name in experiment.__dataclass_fields__},
                "sentences": {"peaks": "other words"},
            }
        )


def filled(template: str) -> dict[str, Any]:
    """Arguments that a template can show, by the specs of its fields."""
    found: dict[str, Any] = {}
    for name, spec in re.findall(r"\{(\w+):?([^}]*)\}", template):
        number = spec[-1:] in tuple("feg") or spec.startswith("gib") or spec in ("percent", "ms")
        text = spec in ("", "quoted", "words")
        found[name] = 0.5 if number else "a_word" if text else ["a", "b"]
    return found


@pytest.mark.parametrize("whose", EVERY)
def test_every_template_can_be_filled_and_made_again(whose: str) -> None:
    for code, template in EVERY[whose].items():
        said, text = say(EVERY[whose], code, **filled(template))
        assert re.fullmatch("[a-z][a-z0-9_]*", code)
        assert text_of(EVERY[whose], said) == text
        assert "{" not in text


def test_every_template_is_said_by_somebody() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted((ROOT / "experiments").rglob("*.py"))
        if not path.stem.endswith("sentences")
    )
    unsaid = [code for templates in EVERY.values() for code in templates if f'"{code}"' not in sources]
    assert unsaid == []


def test_numbers_are_shown_by_a_template_and_never_before_it() -> None:
    specs = {spec for templates in EVERY.values() for text in templates.values() for spec in _specs(text)}
    assert {".3f", ".1e", "gib.2f", "names"} <= specs
    assert all(spec in NAMED or re.fullmatch(r",?(gib)?\.\d[fge]|g|[;,]? ?(and )?", spec) for spec in specs)


def _specs(template: str) -> list[str]:
    return re.findall(r"\{\w+:?([^}]*)\}", template)


def test_a_limit_is_said_in_two_lines_from_one_code() -> None:
    limit = level_limit("other_image", "other_image_repair", found="a\nb", profile="P", repair="c\nd")
    assert (limit.reason, limit.lift) == ("a\nb, not one for P", "c\nd")
    assert limit.said is not None
    assert text_of(limit_sentences.SENTENCES, limit.said) == f"{limit.reason}\n{limit.lift}"
    with pytest.raises(ValueError, match="too many"):
        level_limit("dry_run", experiment="x", profile="P")
    assert isinstance(limit, Limit)
