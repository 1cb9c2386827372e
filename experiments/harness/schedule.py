"""The order of a run: what has to be known first, then rounds in which every candidate takes its turn.

Each round is a fresh random order with the baseline and its twin both in it, so a drift of the machine falls on all
alike and shows up between the twins. The order follows from the run's seed alone: a resumed run walks the same road.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.experiment import CandidateSpec

TaskKind = Literal["reference", "gate", "probe", "calibration", "measure"]
DEVICE = "device"  # whom the calibration is about


@dataclass(frozen=True, slots=True)
class Task:
    """One forked process. `round` and `position` are set for measuring, `probe` for a probe."""

    kind: TaskKind
    candidate: str
    round: int | None = None
    position: int | None = None
    probe: str | None = None

    @property
    def id(self) -> str:
        """Names the task in the journal: the same in a resumed run."""
        parts = [self.kind, self.candidate, self.probe, None if self.round is None else f"round {self.round}"]
        return " / ".join(part for part in parts if part)

    def to_json(self) -> dict[str, JsonValue]:
        """Plain values for the journal and for events."""
        return {
            "id": self.id,
            "kind": self.kind,
            "candidate": self.candidate,
            "round": self.round,
            "position": self.position,
            "probe": self.probe,
        }


def tasks(
    specs: Sequence[CandidateSpec],
    references: Sequence[CandidateSpec],
    *,
    rounds: int,
    seed: int,
    calibrate: bool,
) -> tuple[Task, ...]:
    """Every task of a run in order: references, gates (the baseline's first), probes, calibration, measuring rounds."""
    able = [spec for spec in specs if spec.unavailable is None]
    gates = sorted(able, key=lambda spec: (spec.role != "baseline", spec.role != "baseline_again"))
    ordered = [Task(kind="reference", candidate=spec.name) for spec in references]
    ordered.extend(Task(kind="gate", candidate=spec.name) for spec in gates)
    ordered.extend(Task(kind="probe", candidate=spec.name, probe=probe) for spec in able for probe in spec.probes)
    if calibrate:
        ordered.append(Task(kind="calibration", candidate=DEVICE))
    draw = random.Random(seed)
    for number in range(rounds):
        names = [spec.name for spec in able if spec.timed and (spec.most_rounds is None or number < spec.most_rounds)]
        draw.shuffle(names)
        ordered.extend(
            Task(kind="measure", candidate=name, round=number, position=place) for place, name in enumerate(names)
        )
    return tuple(ordered)
