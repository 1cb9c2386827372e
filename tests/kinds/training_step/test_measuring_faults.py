"""The list of measuring faults names tests that exist, one at least for each fault it is responsible for."""

from __future__ import annotations

import ast
import json
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parents[2]
FAULTS = json.loads((HERE / "data" / "measuring_faults.json").read_text(encoding="utf-8"))["faults"]


@cache
def functions(file: str) -> frozenset[str]:
    tree = ast.parse((HERE / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def test_every_fault_of_measuring_and_precision_is_listed_once() -> None:
    assert [fault["number"] for fault in FAULTS] == [7, 8, 9, *range(19, 26)]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault["number"]))
def test_each_fault_has_a_check_and_tests_that_exist(fault: dict[str, object]) -> None:
    assert fault["check"]
    tests = fault["tests"]
    assert isinstance(tests, list)
    assert tests
    for test in tests:
        file, _, name = test.partition("::")
        assert name in functions(file), test
