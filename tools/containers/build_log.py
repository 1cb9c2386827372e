"""The stream of events that an engine sends while it builds, read into stages, steps and their last lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_STEP = re.compile(r"Step (\d+)/(\d+) : (.*)", re.DOTALL)
_STAGE = re.compile(r"FROM \S+(?: AS (\S+))?", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_BOOKKEEPING = (" --->", "Removing intermediate container", "Successfully built", "Successfully tagged")
KEPT_LINES = 40


@dataclass(slots=True)
class Stage:
    """One FROM of the Dockerfile: how many steps it had, and how many the cache gave."""

    name: str
    steps: int = 0
    cached: int = 0

    @property
    def kept(self) -> bool:
        """Whether every step came from the cache. The FROM itself is no step of a stage."""
        return self.cached == self.steps


@dataclass(slots=True)
class BuildLog:
    """What a build has said so far. `feed` takes its events in order."""

    stages: list[Stage] = field(default_factory=list)
    step: str = ""  # "Step 13/44 : RUN sh .layers/torch.sh"
    lines: list[str] = field(default_factory=list)  # of the step under way
    image: str = ""  # id of the finished image
    error: str = ""
    text: list[str] = field(default_factory=list)  # everything, for the log
    _rest: str = ""

    @property
    def stage(self) -> str:
        """The stage under way; `base` before the first FROM."""
        return self.stages[-1].name if self.stages else "base"

    @property
    def last(self) -> str:
        """The last line that a step's own command printed."""
        return self.lines[-1] if self.lines else self.step

    def feed(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        if "stream" in event:
            self._say(str(event["stream"]))
        elif "errorDetail" in event or "error" in event:
            detail = event.get("errorDetail") or {}
            self.error = str(detail.get("message") or event.get("error"))
        elif isinstance(event.get("aux"), Mapping) and "ID" in event["aux"]:
            self.image = str(event["aux"]["ID"])
        elif "status" in event:  # a base image on its way
            self.lines.append(" ".join(str(event[part]) for part in ("id", "status", "progress") if event.get(part)))

    def _say(self, stream: str) -> None:
        self.text.append(stream)
        *whole, self._rest = (self._rest + stream).split("\n")
        for line in whole:
            self._line(_COLOUR.sub("", line.rpartition("\r")[2] or line.strip("\r")))

    def _line(self, line: str) -> None:
        if found := _STEP.match(line):
            self._begin(line, found[3])
        elif line.strip() == "---> Using cache" and self.stages:
            self.stages[-1].cached += 1
        elif line.strip() and not line.startswith(_BOOKKEEPING):
            self.lines = [*self.lines[-KEPT_LINES:], line]

    def _begin(self, line: str, command: str) -> None:
        self.step, self.lines = line, []
        if found := _STAGE.match(command):
            self.stages.append(Stage(found[1] or f"stage {len(self.stages)}"))
        elif self.stages:
            self.stages[-1].steps += 1
