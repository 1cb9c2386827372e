"""Kinds of measurement: what one repetition is, what it yields, and what has to hold before a number of it counts.

A kind is a folder here, named by its word, whose `kind.py` exposes `KIND` (see `harness.kind`). An experiment carries
its kind; whoever has only a record finds the kind by its word here.
"""

from __future__ import annotations

import importlib
from pathlib import Path

from experiments.harness.kind import AnyKind, Kind, RecordedKind
from tools.environments.errors import LabError

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
    kind: RecordedKind = importlib.import_module(f"{__name__}.{word}.{MODULE}").KIND
    kind.refuse_unsound()
    return kind


def measured() -> tuple[AnyKind, ...]:
    """The kinds that `run` measures, in the order of their words."""
    found = (find(word) for word in words())
    return tuple(kind for kind in found if isinstance(kind, Kind))
