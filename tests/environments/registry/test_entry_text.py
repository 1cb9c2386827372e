"""One more experiment in the registry's text: one line of a diff, wherever and however a list is written."""

from __future__ import annotations

import difflib
import json
from typing import Any

import pytest

from tools.environments.layout import REGISTRY_PATH, ROOT
from tools.environments.registry import entry_text, registry

TEXT = REGISTRY_PATH.read_bytes().decode("utf-8")
PROFILES = [profile for profile in registry.load(ROOT).profiles.values() if not profile.companion_of]


def document(entry: str) -> str:
    other = '{"id": "OTHER", "purpose": "of \\"id\\": \\"ONE\\"", "experiments": ["kept"], "environment": "b"}'
    return f'{{\n  "topics": {{"profiles": {{}}}},\n  "profiles": [{other},\n    {entry}\n  ]\n}}\n'


def experiments(text: str, profile: str = "ONE") -> Any:
    return next(one["experiments"] for one in json.loads(text)["profiles"] if one["id"] == profile)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.id)
def test_in_the_registry_one_line_is_another_and_nothing_else(profile: Any) -> None:
    text = entry_text.with_experiment(TEXT, profile.id, "added", profile.experiments)
    changed = [line for line in difflib.ndiff(TEXT.splitlines(), text.splitlines()) if line[0] in "+-"]
    assert len(changed) <= 2
    value = json.loads(text)
    found = next(one for one in value["profiles"] if one["id"] == profile.id)
    assert found["experiments"] == [*profile.experiments, "added"]
    before = json.loads(TEXT)
    wanted = next(one for one in before["profiles"] if one["id"] == profile.id)
    wanted["experiments"] = [*profile.experiments, "added"]
    assert value == before


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        ('{"id": "ONE", "experiments": []}', '{"id": "ONE", "experiments": ["new"]}'),
        ('{"id": "ONE", "experiments": [ ]}', '{"id": "ONE", "experiments": ["new"]}'),
        ('{"experiments": ["a"], "id": "ONE"}', '{"experiments": ["a", "new"], "id": "ONE"}'),
        ('{"id": "ONE", "experiments": ["a","b"]}', '{"id": "ONE", "experiments": ["a","b","new"]}'),
        (
            '{"id": "ONE", "experiments": [\n  "a"\n]}',
            '{"id": "ONE", "experiments": [\n  "a",\n  "new"\n]}',
        ),
        (
            '{"id": "ONE", "experiments": [\n  "a",\n  "b"\n]}',
            '{"id": "ONE", "experiments": [\n  "a",\n  "b",\n  "new"\n]}',
        ),
        (
            '{"id": "ONE", "note": "]\\"}", "environment": "e"}',
            '{"id": "ONE", "note": "]\\"}", "experiments": ["above", "new"], "environment": "e"}',
        ),
        (
            '{\n      "id": "ONE",\n      "environment": "e"}',
            '{\n      "id": "ONE",\n      "experiments": ["above", "new"],\n      "environment": "e"}',
        ),
        ('{"id": "ONE"}', '{"experiments": ["above", "new"], "id": "ONE"}'),
    ],
)
def test_a_list_keeps_its_form(entry: str, after: str) -> None:
    text = entry_text.with_experiment(document(entry), "ONE", "new", ("above",))
    assert text == document(after)
    assert experiments(text)[-1] == "new"
    assert experiments(text, "OTHER") == ["kept"]


@pytest.mark.parametrize("name", ["TRAIN-CUDA130-MECHANISM", "cpu", "NOBODY"])
def test_what_has_no_entry_of_its_own_is_not_found(name: str) -> None:
    with pytest.raises(KeyError):
        entry_text.with_experiment(TEXT, name, "added")
