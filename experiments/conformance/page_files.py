"""Reads the TOML files of a page's folder and of its topic; a file that is wrong is named with what it lacks.

experiments/<topic>/conformance/topic.toml           names in records, frameworks beside torch (may be absent)
experiments/<topic>/conformance/<page>/page.toml     order and titles
experiments/<topic>/conformance/<page>/mutants.toml  the faults, a table each
experiments/<topic>/conformance/<page>/exercise.toml module, task and gaps of the exercise
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.conformance.page import Mutant
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

Kinds = Mapping[str, type]

TOPIC: Kinds = {"part": str, "workload": str, "frameworks": list, "import_ahead": list}
PAGE: Kinds = {"order": int, "title": str, "title_zh": str}
MUTANT: Kinds = {"module": str, "old": str, "new": str, "fault": str}
MUTANT_MAY: Kinds = {"report": int, "noticed_by": str}
EXERCISE: Kinds = {"module": str, "task": str, "gap": list}
GAP: Kinds = {"old": str, "new": str}


def topic(folder: Path) -> dict[str, Any]:
    """What topic.toml says; nothing where a topic has none. Raises LabError for a file that cannot be used."""
    file = folder / "topic.toml"
    return _checked(_read(file), {}, TOPIC, file) if file.is_file() else {}


def page(folder: Path) -> dict[str, Any]:
    """What page.toml says. Raises LabError for a file that is missing or cannot be used."""
    file = folder / "page.toml"
    return _checked(_read(file), PAGE, {"part": str}, file)


def mutants(folder: Path) -> tuple[Mutant, ...]:
    """The faults of mutants.toml, in its order, each named as its table. Raises LabError."""
    file = folder / "mutants.toml"
    tables = _read(file)
    return tuple(
        Mutant(name=name, **_checked(fields, MUTANT, MUTANT_MAY, file, name)) for name, fields in tables.items()
    )


def exercise(folder: Path) -> dict[str, Any]:
    """What exercise.toml says: module, task, and the gaps as `gap`, each with `old` and `new`. Raises LabError."""
    file = folder / "exercise.toml"
    found = _checked(_read(file), EXERCISE, {}, file)
    for number, one in enumerate(found["gap"], 1):
        _checked(one, GAP, {}, file, f"gap {number}")
    return found


def shown(path: Path) -> str:
    """The path as a user would type it from the repository's root."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        write = "write it: CONTRIBUTING.md says what a page's folder holds"
        raise LabError(f"{file.name} in a page's folder", "no such file", write, shown(file)) from None
    except (OSError, ValueError) as error:  # TOMLDecodeError and UnicodeDecodeError are ValueErrors
        raise LabError("a TOML file", " ".join(str(error).split())[:160], "correct it", shown(file)) from None


def _checked(fields: Any, wanted: Kinds, optional: Kinds, file: Path, table: str = "") -> dict[str, Any]:
    """The fields as they are, where all that are wanted are there and none is unknown or of another type."""
    where = shown(file) + (f" [{table}]" if table else "")
    if not isinstance(fields, dict):
        raise LabError(f"a table with {', '.join(wanted)}", ascii(fields)[:80], "make it a table", where)
    known = {**wanted, **optional}
    missing, unknown = [name for name in wanted if name not in fields], [name for name in fields if name not in known]
    wrong = [name for name, kind in known.items() if name in fields and type(fields[name]) is not kind]
    for names, what in ((missing, "missing"), (unknown, "unknown"), (wrong, "of another type")):
        if names:
            kinds = ", ".join(f"{name} ({kind.__name__})" for name, kind in known.items())
            raise LabError(kinds, f"{what}: {', '.join(map(str, names))}", "correct the file", where)
    return fields
