"""Where each test of the baseline runs today: in the gate, in part there, or in the full stage alone.

`data/stage_map.json` names every test function of the baseline by its file's base name, so that a moved file stays what
it was; a renamed one is in `renamed`. What is marked anew is written by `python tests/stage_map.py`.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

TESTS = next(folder for folder in Path(__file__).resolve().parents if folder.name == "tests")
MAP = TESTS / "data" / "stage_map.json"
Counts = dict[str, list[int]]  # file::function -> how many of it there are, how many of them for the full stage alone


def function_of(item: pytest.Item) -> str:
    """file::function of a collected test, without its folder and parameters."""
    path, _, rest = item.nodeid.partition("::")
    return f"{Path(path).name}::{rest.partition('[')[0]}"


def count(items: Iterable[pytest.Item]) -> Counts:
    """What was collected, by function."""
    found: Counts = {}
    for item in items:
        counts = found.setdefault(function_of(item), [0, 0])
        counts[0] += 1
        counts[1] += item.get_closest_marker("full") is not None
    return found


def stage_of(counts: list[int]) -> str:
    """`gate`: all of it runs there, `part`: some of its cases, `full`: none."""
    everything, full = counts
    return "gate" if not full else "full" if full == everything else "part"


def is_whole(found: Mapping[str, object]) -> bool:
    """Whether every file of tests was collected."""
    return {path.name for path in TESTS.rglob("test_*.py")} == {name.partition("::")[0] for name in found}


def collect() -> Counts:
    """Collect everything in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "collected.json"
        command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", str(TESTS)]
        done = subprocess.run([*command, "--collected", str(target)], cwd=TESTS.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        found: Counts = json.loads(target.read_text(encoding="utf-8"))
    return found


def load() -> dict[str, Any]:
    """The committed map."""
    document: dict[str, Any] = json.loads(MAP.read_text(encoding="utf-8"))
    return document


def mapped(document: dict[str, Any]) -> dict[str, str]:
    """file::function at the baseline -> its stage, as committed."""
    return {
        f"{file}::{function}": stage
        for file, stages in document["files"].items()
        for stage, functions in stages.items()
        for function in functions
    }


def successor(document: dict[str, Any], name: str) -> str:
    """What a test of the baseline is called today."""
    return str(document["renamed"].get(name, name))


def write(document: dict[str, Any], found: Counts) -> None:
    """Commit where each test of the baseline runs today; one that is gone stays where it was, for the test to name."""
    before = mapped(document)
    files: dict[str, dict[str, list[str]]] = {}
    for name, stage in before.items():
        file, _, function = name.partition("::")
        today = successor(document, name)
        kept = stage_of(found[today]) if today in found else stage
        files.setdefault(file, {}).setdefault(kept, []).append(function)
    document["files"] = {
        file: {stage: sorted(functions) for stage, functions in stages.items()} for file, stages in files.items()
    }
    MAP.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(load(), collect())
