"""Memory against time, one point for each candidate, with the floors no candidate can beat as lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.evidence import record_text
from experiments.evidence.candidate import Candidate, Interval
from experiments.evidence.plots import canvas
from experiments.evidence.quantities import GIB, milliseconds
from experiments.evidence.record import Record

NAME = "memory_time"
PANELS = (("peak_allocated_bytes", "peak allocated, GiB"), ("after_forward_bytes", "allocated after forward, GiB"))


def applies(record: Record) -> bool:
    """Whether two candidates or more have both a time and a memory."""
    return len(_points(record, PANELS[0][0])) > 1


def draw(record: Record, path: Path) -> Path:
    """Draw a panel for peak memory and one for residency after forward, where both were measured."""
    panels = [(quantity, label) for quantity, label in PANELS if len(_points(record, quantity)) > 1]
    with canvas.sheet(path, record_text.headline(record), len(panels), height=3.6) as axes:
        for axis, (quantity, label) in zip(axes, panels, strict=True):
            _panel(axis, _points(record, quantity), label)
            _floors(axis, record)
    return path


def _points(record: Record, quantity: str) -> list[tuple[Candidate, Interval, float]]:
    found = []
    for candidate in record.candidates:
        step = candidate.summary.intervals.get("step_ms") if candidate.summary else None
        size: int | None = getattr(candidate.memory, quantity) if candidate.memory else None
        if candidate.role != "baseline_again" and candidate.status == "ok" and step is not None and size is not None:
            found.append((candidate, step, size / GIB))
    return found


def _panel(axis: Any, points: Sequence[tuple[Candidate, Interval, float]], label: str) -> None:
    for number, (candidate, step, size) in enumerate(points):
        spread = [[step.median - step.low], [step.high - step.median]]
        axis.errorbar(
            [step.median],
            [size],
            xerr=[[max(0.0, side[0])] for side in spread],
            fmt=canvas.MARKERS[number % len(canvas.MARKERS)],
            color=canvas.SHADES[number % len(canvas.SHADES)],
            markerfacecolor="white" if candidate.is_baseline else None,
            capsize=2,
        )
        canvas.note(axis, step.median, size, candidate.name)
    axis.set_ylim(0, 1.15 * max(size for _, _, size in points))
    axis.set_xlim(0, 1.35 * max(step.high for _, step, _ in points))
    axis.set_xlabel("step, ms (bar: 95 % interval)")
    axis.set_ylabel(label)


def _floors(axis: Any, record: Record) -> None:
    """Each floor of the step time once; its line reaches over the whole panel."""
    floors = {(floor.limited_by, floor.floor) for c in record.candidates for floor in c.floors if floor.unit == "ms"}
    for number, (limited_by, value) in enumerate(sorted(floors)):
        axis.axvline(value, color=canvas.INK, linewidth=0.9, linestyle=canvas.DASHES[1 + number % 3])
        axis.annotate(
            f"floor: {limited_by}, {milliseconds(value)} ms",
            (value, 0.98 - 0.3 * (number % 3)),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            xytext=(3, 0),
            rotation=90,
            va="top",
            fontsize=7,
        )
