"""The evidence contract: its generated parts agree with the code, and every term is there in both languages."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from experiments.evidence import limits, record_comparison, schema
from experiments.evidence.rules import CURRENT
from tools.environments.layout import ROOT
from tools.rendering import blocks, contract_parts

PAGES = (ROOT / "docs" / "evidence_contract.md", ROOT / "docs" / "evidence_contract.zh.md")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_pages_are_current(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    renewed, findings = blocks.renewed(path, text, contract_parts.makers())
    assert findings == []
    assert renewed == text, "run: invoke assets.sync"
    assert {part.name for part in blocks.parts(path, text)[0]} == set(contract_parts.makers())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_field_limit_and_condition_is_told(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for name, shape in schema.build()["$defs"].items():
        assert f"### `{name}`" in text
        assert all(f"| `{field}` |" in text for field in shape["properties"])
    for word in (*limits.LEVEL_LIMITS, *limits.CLAIM_LIMITS, *record_comparison.FIELDS, *CURRENT.on_profile):
        assert f"`{word}`" in text


def test_both_languages_have_the_same_tables() -> None:
    shapes = [
        re.findall(r"^(\| `[a-z_.]+`|#+ |<!--)", path.read_text(encoding="utf-8"), re.MULTILINE) for path in PAGES
    ]
    assert shapes[0] == shapes[1]


def test_no_term_is_missing_or_left_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert contract_parts.missing_terms() == []
    terms = dict(contract_parts._terms())
    terms["Sample.mood"] = terms.pop("Sample.step")
    monkeypatch.setattr(contract_parts, "_terms", lambda: terms)
    assert contract_parts.missing_terms() == ["Sample.mood", "Sample.step"]
    with pytest.raises(ValueError, match=r"Sample\.mood"):
        contract_parts.makers()["record-limits"]((), PAGES[1])


def test_a_part_takes_no_argument() -> None:
    with pytest.raises(ValueError, match="no argument"):
        contract_parts.makers()["record-groups"](("all",), PAGES[0])
