"""The table of faults others shipped: each with the check that kills it here and the tests that plant it.

It is made from the lists beside the tests, tests/data/*_faults.json. That every named test exists and that no fault is
left out is for tests/rendering/test_published_faults.py to say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.rendering.blocks import Language, Maker, language
from tools.rendering.profile_tables import table

LISTS = ("mechanism", "measuring", "environment")  # in tests/data, each with _faults.json behind
HEAD: Mapping[Language, tuple[str, ...]] = {
    "en": ("no.", "fault", "killed by", "planted in"),
    "zh": ("编号", "错误", "由此识破", "注入于"),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault as its list has it. `tests` are `file.py::function`, files under tests/."""

    number: int
    text: Mapping[Language, str]
    check: Mapping[Language, str]
    seen_in: tuple[str, ...]
    tests: tuple[str, ...]
    source: str  # the list it stands in


def makers(root: Path) -> dict[str, Maker]:
    """The generated parts of this module, by name."""
    return {"faults": lambda arguments, path: faults(load(root), arguments, path, root)}


def load(root: Path) -> tuple[Fault, ...]:
    """Every fault of all lists, by number. Raises ValueError for a list that is missing or lacks a field."""
    found: list[Fault] = []
    for name in LISTS:
        file = root / "tests" / "data" / f"{name}_faults.json"
        try:
            entries = json.loads(file.read_text(encoding="utf-8"))["faults"]
            found += [_fault(entry, name) for entry in entries]
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{file.name} is no list of faults: {type(error).__name__} {error}") from error
    return tuple(sorted(found, key=lambda fault: fault.number))


def _fault(entry: Mapping[str, object], source: str) -> Fault:
    """One entry. A check that is an id reads the same in both languages; one test may stand by itself."""
    tests = entry.get("tests") or [entry["test"]]
    seen = entry.get("seen_in") or []
    assert isinstance(tests, list)
    assert isinstance(seen, list)
    check = str(entry["check"])
    sentence = "check_zh" in entry
    return Fault(
        number=int(str(entry["number"])),
        text={"en": str(entry["fault"]), "zh": str(entry["fault_zh"])},
        check={
            "en": check if sentence else f"`{check}`",
            "zh": str(entry["check_zh"]) if sentence else f"`{check}`",
        },
        seen_in=tuple(map(str, seen)),
        tests=tuple(map(str, tests)),
        source=source,
    )


def faults(known: Sequence[Fault], arguments: Sequence[str], path: Path, root: Path) -> str:
    """The table, one row for each entry, tests linked to their files. ValueError for an argument."""
    if arguments:
        raise ValueError(f"this part takes no argument, found {' '.join(arguments)}")
    lang = language(path)
    linked = _linker(path, root)
    rows = [
        (
            str(fault.number),
            fault.text[lang] + (f" ({', '.join(fault.seen_in)})" if fault.seen_in else ""),
            fault.check[lang],
            "<br>".join(linked(test) for test in fault.tests),
        )
        for fault in known
    ]
    return table(HEAD[lang], rows)


def _linker(path: Path, root: Path) -> Callable[[str], str]:
    tests = os.path.relpath(root / "tests", path.parent)

    def linked(test: str) -> str:
        file, _, name = test.partition("::")
        return f"[{name}]({Path(tests, file).as_posix()})"

    return linked
