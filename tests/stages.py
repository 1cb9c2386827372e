"""What differs between the gate and the full stage: how often something is tried, and from which seed.

The gate runs at every push, tries a twentieth and draws the same every time. The full stage runs weekly and tries
everything, from seeds that its session hands over. `conftest.py` says which of the two this run is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import hypothesis
import pytest

GATE_SHARE = 20  # the gate tries one of so many


@dataclass
class Stage:
    """The stage of this run. `seed` moves every draw that no test fixes itself."""

    name: str = "gate"
    seed: int = 0

    @property
    def is_full(self) -> bool:
        return self.name == "full"


CURRENT = Stage()


def count(full: int) -> int:
    """How often something is tried that the full stage tries `full` times; at least once."""
    return full if CURRENT.is_full else max(1, full // GATE_SHARE)


def few(gate: int, cases: Iterable[Any], *, alone: bool = False) -> list[Any]:
    """Cases of a parametrised test: the gate runs the first `gate` of them, the full stage all.

    A tuple is one value for each name of the parametrisation; with `alone` it is one value for its only name.
    """
    listed = list(cases)
    rows = [case if isinstance(case, tuple) and not alone else (case,) for case in listed[gate:]]
    return [*listed[:gate], *(pytest.param(*row, marks=pytest.mark.full) for row in rows)]


def begin(name: str, seed: int) -> None:
    """Make this run one of the gate or of the full stage, before any test module is imported.

    Hypothesis draws from each test's own name in the gate, and from its own --hypothesis-seed in the full stage. It
    keeps no database: what a run does must not depend on what the run before found.
    """
    CURRENT.name, CURRENT.seed = name, seed
    hypothesis.settings.register_profile(
        name, max_examples=count(100), derandomize=name == "gate", deadline=None, database=None, print_blob=True
    )
    hypothesis.settings.load_profile(name)
