"""The published table of faults: complete, in both languages, and every test it names is there."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from experiments.conformance import catalogue
from tools.environments.layout import ROOT
from tools.rendering import fault_parts

HERE = Path(__file__).parents[1]
KNOWN = fault_parts.load(ROOT)
PAGES = {"en": ROOT / "docs" / "training_mechanism" / "faults.md"}
PAGES["zh"] = PAGES["en"].with_suffix(".zh.md")


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_fault_is_covered_and_each_by_one_list_only() -> None:
    lists = {fault.number: {other.source for other in KNOWN if other.number == fault.number} for fault in KNOWN}
    assert sorted(lists) == list(range(1, 32))
    assert all(len(sources) == 1 for sources in lists.values())
    assert [fault.number for fault in KNOWN] == sorted(fault.number for fault in KNOWN)


@pytest.mark.parametrize("fault", KNOWN, ids=lambda fault: f"{fault.number}-{fault.text['en'][:40]}")
def test_every_test_that_is_named_exists(fault: fault_parts.Fault) -> None:
    assert fault.tests
    assert all(fault.check.values())
    for test in fault.tests:
        file, _, name = test.partition("::")
        assert name in functions(file), test


def test_the_mutants_of_a_fault_are_those_that_repeat_its_report() -> None:
    listed = json.loads((HERE / "data" / "mechanism_faults.json").read_text(encoding="utf-8"))["faults"]
    repeated: dict[int, set[str]] = {entry["number"]: set() for entry in listed}
    for page in catalogue.ids():
        for mutant in catalogue.mutants(page):
            if mutant.report in repeated:
                repeated[mutant.report].add(f"{page}.{mutant.name}")
    assert {entry["number"]: set(entry["mutants"]) for entry in listed} == repeated


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_the_page_has_a_row_for_each_entry_with_links_to_its_tests(lang: Any) -> None:
    page = PAGES[lang]
    text = page.read_text(encoding="utf-8")
    made = fault_parts.faults(KNOWN, (), page, ROOT)
    assert made in text, "run: invoke assets.sync"
    rows = made.splitlines()[2:]
    assert len(rows) == len(KNOWN)
    for row, fault in zip(rows, KNOWN, strict=True):
        assert row.startswith(f"| {fault.number} | {fault.text[lang]}")
        assert row.count("](../../tests/") == len(fault.tests)


def test_only_the_chinese_page_is_chinese() -> None:
    for fault in KNOWN:
        assert fault.text["en"].isascii()
        assert not fault.text["zh"].isascii()


def lists(root: Path, **entries: Any) -> None:
    folder = root / "tests" / "data"
    folder.mkdir(parents=True)
    for name in fault_parts.LISTS:
        text = json.dumps({"faults": entries.get(name, [])})
        (folder / f"{name}_faults.json").write_text(text, encoding="utf-8")


ENTRY = {"number": 3, "fault": "a", "fault_zh": "甲", "check": "torch.build", "test": "test_a.py::test_b"}


def test_a_check_that_is_an_id_is_code_and_a_sentence_is_none(tmp_path: Path) -> None:
    told = {**ENTRY, "number": 2, "check": "it is refused", "check_zh": "被拒绝", "seen_in": ["x#1"]}
    lists(tmp_path, environment=[ENTRY], measuring=[told])
    made = fault_parts.faults(fault_parts.load(tmp_path), (), tmp_path / "docs" / "a.zh.md", tmp_path)
    assert made.splitlines()[2:] == [
        "| 2 | 甲 (x#1) | 被拒绝 | [test_b](../tests/test_a.py) |",
        "| 3 | 甲 | `torch.build` | [test_b](../tests/test_a.py) |",
    ]


@pytest.mark.parametrize("lacks", ["number", "fault", "fault_zh", "check", "test"])
def test_an_entry_that_lacks_a_field_is_named_with_its_list(tmp_path: Path, lacks: str) -> None:
    lists(tmp_path, measuring=[{key: value for key, value in ENTRY.items() if key != lacks}])
    with pytest.raises(ValueError, match=r"measuring_faults\.json is no list of faults: KeyError"):
        fault_parts.load(tmp_path)


def test_a_missing_or_broken_list_is_a_finding_and_no_crash(tmp_path: Path) -> None:
    lists(tmp_path)
    file = tmp_path / "tests" / "data" / "mechanism_faults.json"
    file.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match="JSONDecodeError"):
        fault_parts.load(tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match="FileNotFoundError"):
        fault_parts.load(tmp_path)


def test_the_part_takes_no_argument() -> None:
    with pytest.raises(ValueError, match="takes no argument"):
        fault_parts.faults(KNOWN, ("all",), PAGES["en"], ROOT)
