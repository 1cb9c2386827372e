"""What a step's time is made of: the device busy, and the device waiting for Python, transfers or the host."""

from __future__ import annotations

from pathlib import Path

from experiments.evidence import record_text
from experiments.evidence.candidate import Candidate
from experiments.evidence.plots import canvas
from experiments.evidence.quantities import milliseconds, percent
from experiments.evidence.record import Record

NAME = "step"


def applies(record: Record) -> bool:
    """Whether busy time was measured for any candidate."""
    return bool(_measured(record))


def draw(record: Record, path: Path) -> Path:
    """One bar for each candidate: busy, then waiting, up to the step's median."""
    rows = _measured(record)
    with canvas.sheet(path, record_text.headline(record), 1, width=7.0, height=1.0 + 0.35 * len(rows)) as (axis,):
        for place, (candidate, step, busy) in enumerate(rows):
            look = {"height": 0.62, "edgecolor": canvas.PASSED}
            axis.barh(place, busy, color=canvas.PASSED, **look)
            axis.barh(place, max(0.0, step - busy), left=busy, color="white", hatch="....", **look)
            word = f"{milliseconds(step)} ms, busy {percent(min(1.0, busy / step))}"
            bound = ", launch-bound" if "launch_bound" in candidate.marks else ""
            canvas.note(axis, max(step, busy), place, word + bound)
        axis.set_yticks(range(len(rows)), [candidate.name for candidate, _, _ in rows])
        axis.invert_yaxis()
        axis.set_xlim(0, 1.45 * max(max(step, busy) for _, step, busy in rows))
        axis.set_xlabel("step, ms; solid: device busy, dotted: device waiting")
    return path


def _measured(record: Record) -> list[tuple[Candidate, float, float]]:
    found = []
    for candidate in record.candidates:
        step, busy = candidate.median("step_ms"), candidate.median("busy_ms")
        if candidate.role != "baseline_again" and step is not None and busy is not None and step > 0:
            found.append((candidate, step, busy))
    return found
