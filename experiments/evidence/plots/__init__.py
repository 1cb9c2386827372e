"""Pictures of a record, one module each, drawn from the record alone: nothing is measured, asked or guessed here.

A plot module exposes `NAME` (the file's stem), `applies(record) -> bool` and `draw(record, path) -> Path`; naming it in
`MODULES` is all it takes for `draw_all` to know it. matplotlib is imported when something is drawn, not before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from experiments.evidence.record import Record

MODULES = ("numerics", "tradeoff", "phases", "breakdown", "predicted")


@dataclass(frozen=True, slots=True)
class Plot:
    """One kind of picture."""

    name: str
    applies: Callable[[Record], bool]
    draw: Callable[[Record, Path], Path]


def plots() -> tuple[Plot, ...]:
    """Every kind of picture there is, in order."""
    modules = [import_module(f"{__name__}.{name}") for name in MODULES]
    return tuple(Plot(module.NAME, module.applies, module.draw) for module in modules)


def draw_all(record: Record, folder: Path) -> tuple[Path, ...]:
    """Draw every picture the record has data for into `folder`. Raises LabError when it cannot be written."""
    return tuple(plot.draw(record, folder / f"{plot.name}.svg") for plot in plots() if plot.applies(record))
