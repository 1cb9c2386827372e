"""Predicted against measured, for each quantity a formula spoke about before the run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.evidence import record_text
from experiments.evidence.candidate import Prediction
from experiments.evidence.plots import canvas
from experiments.evidence.quantities import GIB, percent
from experiments.evidence.record import Record

NAME = "predicted"
SCALES = {"bytes": (GIB, "GiB"), "ms": (1.0, "ms")}


def applies(record: Record) -> bool:
    """Whether any prediction has its measurement."""
    return bool(_quantities(record))


def draw(record: Record, path: Path) -> Path:
    """One panel for each quantity: points on the line were predicted exactly."""
    quantities = _quantities(record)
    with canvas.sheet(path, record_text.headline(record), len(quantities), width=4.2, height=3.6) as axes:
        for axis, (quantity, pairs) in zip(axes, quantities.items(), strict=True):
            _panel(axis, quantity, pairs)
    return path


def _quantities(record: Record) -> dict[str, list[tuple[str, Prediction]]]:
    found: dict[str, list[tuple[str, Prediction]]] = {}
    for candidate in record.candidates:
        for prediction in candidate.predictions:
            if prediction.measured is not None and candidate.role != "baseline_again":
                found.setdefault(prediction.quantity, []).append((candidate.name, prediction))
    return found


def _panel(axis: Any, quantity: str, pairs: Sequence[tuple[str, Prediction]]) -> None:
    divisor, unit = SCALES.get(pairs[0][1].unit, (1.0, pairs[0][1].unit))
    points = [(p.predicted / divisor, (p.measured or 0.0) / divisor) for _, p in pairs]
    top = 1.2 * max(max(point) for point in points) or 1.0
    axis.plot([0, top], [0, top], color=canvas.INK, linewidth=0.8)
    for number, ((name, prediction), (x, y)) in enumerate(zip(pairs, points, strict=True)):
        marker, shade = canvas.MARKERS[number % len(canvas.MARKERS)], canvas.SHADES[number % len(canvas.SHADES)]
        residual = "" if prediction.residual is None else f" {percent(prediction.residual, signed=True)}"
        axis.plot([x], [y], marker, color=shade, label=f"{name}{residual}")
    axis.set_xlim(0, top)
    axis.set_ylim(0, top)
    axis.set_title(quantity.replace("_bytes", "").replace("_ms", "").replace("_", " "))
    axis.set_xlabel(f"predicted, {unit}")
    axis.set_ylabel(f"measured, {unit}")
    axis.legend(loc="upper left", fontsize=7)
