"""Kinds of measurement: what one repetition is, what it yields, and what has to hold before a number of it counts.

A kind is a folder here, named by its word, whose `kind.py` exposes `KIND` (see `harness.kind`). An experiment carries
its kind; whoever has only a record finds the kind by its word here.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from pathlib import Path

from experiments.evidence.record import Record
from experiments.harness.broken_module import broken
from experiments.harness.kind import AnyKind, Kind, RecordedKind
from tools.environments.errors import LabError
from tools.environments.profile_session import OWN_COMMANDS

MODULE = "kind"


def words() -> tuple[str, ...]:
    """The words of the kinds there are, found by looking at folders."""
    return tuple(sorted(path.parent.name for path in Path(__file__).parent.glob(f"*/{MODULE}.py")))


def find(word: str) -> RecordedKind:
    """The kind of that word. Raises LabError for one that this checkout lacks, or that contradicts itself."""
    known = words()
    if word not in known:
        raise LabError(
            wanted=f"a kind of measurement that this checkout has: {', '.join(known)}",
            found=ascii(word)[:80],
            next="update this checkout: git pull",
            where="identity.kind",
        )
    module = f"{__name__}.{word}.{MODULE}"
    try:
        kind: RecordedKind = importlib.import_module(module).KIND
        if kind.word != word:
            raise ValueError(f"KIND is called {kind.word!r}, its folder {word!r}")
    except (Exception, SystemExit) as error:  # whatever somebody's module does when it is imported
        raise broken(module, error, "KIND") from error
    kind.refuse_unsound()
    return kind


def of(record: Record) -> RecordedKind:
    """The kind of a record. Raises LabError as `find`.

    What a command of its own measured has the kind of that command's name: before schema 1.2 such a record had none.
    """
    name = record.identity.experiment
    return find(name if name in OWN_COMMANDS else record.identity.kind)


def hints(record: Record) -> Mapping[str, str]:
    """What a table says of each mark of the record's kind; nothing where this checkout lacks that kind."""
    try:
        return of(record).words.marks
    except LabError:
        return {}


def reproduce(record: Record) -> str:
    """The command that would measure the same again; that it is not known where this checkout lacks the kind."""
    try:
        return of(record).command(record)
    except LabError as error:
        return f"not known here: wanted {error.wanted}, found {error.found}  → {error.next}"


def measured() -> tuple[AnyKind, ...]:
    """The kinds that `run` measures, in the order of their words.

    One that is broken is left out: it is the trouble of its own experiments, which name it when they are loaded.
    """
    found: list[AnyKind] = []
    for word in words():
        with contextlib.suppress(LabError):
            kind = find(word)
            if isinstance(kind, Kind):
                found.append(kind)
    return tuple(found)
