"""Gradient error beside what rounding allows, gradients below the normal range, and the walk of the loss scale."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.evidence import record_text
from experiments.evidence.candidate import Candidate, Gate
from experiments.evidence.plots import canvas
from experiments.evidence.quantities import percent
from experiments.evidence.record import Record

NAME = "gradients"
SMALLEST = 1e-12  # where the error axis may begin at the very left


def applies(record: Record) -> bool:
    """Whether a gradient gate was run on any candidate, or its number formats looked at."""
    return bool(_panels(record))


def draw(record: Record, path: Path) -> Path:
    """Draw the panels the record has data for; returns `path`."""
    panels = _panels(record)
    with canvas.sheet(path, record_text.headline(record), len(panels)) as axes:
        for axis, panel in zip(axes, panels, strict=True):
            panel(axis)
    return path


def _panels(record: Record) -> list[Callable[[Any], None]]:
    shown = [candidate for candidate in record.candidates if candidate.role != "baseline_again"]
    gated = [(c, gate) for c in shown if (gate := c.checks.gates.get("gradient")) and gate.error is not None]
    lossy = [c for c in shown if c.numerics and c.numerics.underflow_share is not None]
    scaled = [c for c in shown if c.numerics and c.numerics.scale_sequence]
    panels: list[Callable[[Any], None]] = []
    if gated:
        panels.append(lambda axis: _errors(axis, gated))
    if lossy:
        panels.append(lambda axis: _underflow(axis, lossy))
    if scaled:
        panels.append(lambda axis: _scale(axis, scaled))
    return panels


def _errors(axis: Any, gated: Sequence[tuple[Candidate, Gate]]) -> None:
    known = [gate.error for _, gate in gated if gate.error]
    left = max(SMALLEST, 10.0 ** math.floor(math.log10(min(known)) - 1)) if known else 1e-8
    values = [max(gate.error or 0.0, left) for _, gate in gated]  # an error of exactly zero has no bar, and is named
    lengths = [value - left for value in values]
    canvas.bars(axis, [c.name for c, _ in gated], lengths, [gate.passed for _, gate in gated], left=left)
    for place, ((_, gate), value) in enumerate(zip(gated, values, strict=True)):
        if gate.tolerance is not None:
            axis.plot([gate.tolerance] * 2, [place - 0.4, place + 0.4], color=canvas.INK, linewidth=1.4)
        word = "bit for bit" if gate.error == 0 else f"{gate.error:.1e}"
        canvas.note(axis, max(value, gate.tolerance or 0.0), place, word if gate.passed else f"{word}, gate failed")
    axis.set_xscale("log")
    axis.set_xlim(left, 60.0 * max(*values, *(gate.tolerance or 0.0 for _, gate in gated)))
    axis.set_xlabel("relative L2 error of the gradient; upright line: largest that passes")


def _underflow(axis: Any, lossy: Sequence[Candidate]) -> None:
    shares = [c.numerics.underflow_share or 0.0 if c.numerics else 0.0 for c in lossy]
    canvas.bars(axis, [c.name for c in lossy], [100 * share for share in shares], [True] * len(lossy))
    for place, share in enumerate(shares):
        canvas.note(axis, 100 * share, place, "none" if share == 0 else percent(share))
    axis.set_xlim(0, max(1.0, 130 * max(shares)))
    axis.set_xlabel("gradient entries below the format's normal range, %")


def _scale(axis: Any, scaled: Sequence[Candidate]) -> None:
    for number, candidate in enumerate(scaled):
        if candidate.numerics is None:
            continue
        scales = candidate.numerics.scale_sequence
        dash, shade = canvas.DASHES[number % len(canvas.DASHES)], canvas.SHADES[number % len(canvas.SHADES)]
        axis.step(range(len(scales)), scales, where="post", linestyle=dash, color=shade, label=candidate.name)
        for step in candidate.numerics.skipped_steps:
            if step < len(scales):
                axis.plot(step, scales[step], "x", color=canvas.INK, markersize=7)
                axis.annotate("skipped", (step, scales[step]), textcoords="offset points", xytext=(0, 6), ha="center")
    axis.set_yscale("log", base=2)
    axis.margins(y=0.18)
    axis.set_xlabel("optimizer step")
    axis.set_ylabel("loss scale")
    axis.legend(loc="best")
