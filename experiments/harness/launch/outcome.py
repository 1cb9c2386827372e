"""What came of one launched task, as the journal keeps it: an answer of each process, or how it died."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from experiments.evidence.vocabulary import JsonValue, Phase

Status = Literal["ok", "oom", "failed"]
EnterPhase = Callable[[Phase], None]
Work = Callable[[EnterPhase], Mapping[str, JsonValue]]  # what a child does: says its phases, returns its answer

DISK_FULL = "DiskFull"  # the kind of failure that is nobody's result: the run stops and can be resumed


@dataclass(frozen=True, slots=True)
class Died:
    """How a child ended without a result."""

    phase: Phase
    kind: str  # class of the exception, or Killed, Exited, TimeLimit
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one task."""

    status: Status
    result: Mapping[str, JsonValue] | None
    died: Died | None
    wall_s: float
    others: tuple[Mapping[str, JsonValue], ...] = ()  # of ranks 1, 2, ...; `result` is rank 0's

    def to_json(self) -> dict[str, JsonValue]:
        """Plain values for the journal."""
        died: JsonValue = None
        if self.died is not None:
            died = {"phase": self.died.phase, "kind": self.died.kind, "message": self.died.message}
        others: dict[str, JsonValue] = {"others": list(self.others)} if self.others else {}
        return {"status": self.status, "result": self.result, "died": died, "wall_s": round(self.wall_s, 4), **others}

    @staticmethod
    def from_json(value: Mapping[str, object]) -> Outcome:
        """From a journal line. Raises KeyError, TypeError or ValueError when the line is not one of ours."""
        died, status, result, wall = value["died"], value["status"], value["result"], value["wall_s"]
        if status not in get_args(Status) or not isinstance(wall, int | float):
            raise ValueError("not an outcome")
        if result is not None and not isinstance(result, dict):
            raise TypeError("result is no object")
        others = value.get("others", [])
        if not isinstance(others, list) or not all(isinstance(other, dict) for other in others):
            raise TypeError("others is no list of objects")
        found = None
        if isinstance(died, dict):
            found = Died(phase=cast(Phase, died["phase"]), kind=str(died["kind"]), message=str(died["message"]))
        return Outcome(cast(Status, status), result, found, float(wall), tuple(others))
