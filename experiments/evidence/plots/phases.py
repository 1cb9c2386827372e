"""Where the peak of a step falls: the highest allocation in each phase, candidate by candidate."""

from __future__ import annotations

from pathlib import Path

from experiments.evidence import record_text
from experiments.evidence.candidate import Candidate
from experiments.evidence.plots import canvas
from experiments.evidence.quantities import GIB, gib
from experiments.evidence.record import Record

NAME = "phases"


def applies(record: Record) -> bool:
    """Whether any candidate's phases were told apart."""
    return bool(_measured(record))


def draw(record: Record, path: Path) -> Path:
    """One group of bars for each candidate, a bar for each phase, the peak named."""
    measured = _measured(record)
    order = list(dict.fromkeys(part.phase for c in measured if c.memory for part in c.memory.phases))
    height = 0.8 / len(order)
    with canvas.sheet(
        path, record_text.headline(record), 1, width=7.0, height=0.8 + 0.2 * len(order) * len(measured)
    ) as (axis,):
        for place, candidate in enumerate(measured):
            memory = candidate.memory
            if memory is None:
                continue
            for part in memory.phases:
                number = order.index(part.phase)
                top = part.phase == memory.peak_phase
                at = place + height * (number - (len(order) - 1) / 2)
                size = part.peak_allocated_bytes / GIB
                axis.barh(
                    at,
                    size,
                    height=height * 0.9,
                    color=canvas.PASSED if top else canvas.PALE,
                    edgecolor=canvas.PASSED,
                    linewidth=0.6,
                )
                word = f"{record_text.PHASES.get(part.phase, part.phase)} {gib(part.peak_allocated_bytes)}"
                canvas.note(axis, size, at, f"{word}, the peak" if top else word)
        axis.set_yticks(range(len(measured)), [c.name for c in measured])
        axis.invert_yaxis()
        axis.set_xlim(0, 1.3 * max(p.peak_allocated_bytes for c in measured if c.memory for p in c.memory.phases) / GIB)
        axis.set_xlabel("highest allocation in the phase, GiB")
    return path


def _measured(record: Record) -> list[Candidate]:
    return [c for c in record.candidates if c.role != "baseline_again" and c.memory and c.memory.phases]
