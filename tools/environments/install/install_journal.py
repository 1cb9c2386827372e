"""What an install has finished so far: one line of JSON an event, appended as it happens, read after an interruption.

It lies beside the environment, not in it, so that it also knows of an environment that was only half created. A torn
last line is what kill -9 leaves and means "not finished"; anything else that is not a journal is a finding.
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.environments.errors import LabError
from tools.environments.installed.environment_lock import unwritable

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Progress:
    """The state a journal tells: which install it is of, and how far that came."""

    identity: Mapping[str, str]  # what must be equal for the install to be resumed
    facts: Mapping[str, Any] = field(default_factory=dict)  # what earlier steps found out, by name
    done: tuple[str, ...] = ()
    begun: str | None = None  # the step that was running, if any
    finished: bool = False


class DamagedJournalError(LabError):
    """The file is no journal, or holds a line that this never wrote."""


class InstallJournal:
    """The journal of one environment.

    Nothing waits for the disk: after a power cut the journal may lag behind the files, which only repeats a step; were
    it ahead of them, the sweep of every RECORD would still find what is missing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Progress | None:
        """What was journalled; None where nothing was. DamagedJournalError for a file this did not write."""
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise unwritable(self.path.parent, error) from error
        lines = raw.split(b"\n")
        progress: Progress | None = None
        for number, line in enumerate(lines[:-1], start=1):  # what follows the last newline was never finished
            progress = self._apply(progress, line, number)
        return progress

    def begin(self, identity: Mapping[str, str]) -> None:
        """Start over: the first line of a new journal, in place of the old one."""
        part = self.path.with_suffix(".part")
        try:
            part.write_bytes(_line({"event": "begin", "format": FORMAT, "identity": dict(identity)}))
            os.replace(part, self.path)
        except OSError as error:
            raise unwritable(self.path.parent, error) from error

    def fact(self, name: str, value: object) -> None:
        """Keep something a later call needs, such as the torch that was chosen."""
        self._append({"event": "fact", "name": name, "value": value})

    def start(self, step: str) -> None:
        """A step begins: from here on what it writes may be half there."""
        self._append({"event": "start", "step": step})

    def done(self, step: str) -> None:
        """A step is whole."""
        self._append({"event": "done", "step": step})

    def undo(self, steps: tuple[str, ...]) -> None:
        """These steps turned out not to be whole after all and must run again."""
        self._append({"event": "undo", "steps": list(steps)})

    def finish(self) -> None:
        """All steps are whole and the stamp is written."""
        self._append({"event": "finish"})

    def _append(self, event: dict[str, object]) -> None:
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_APPEND)
            try:
                size = os.fstat(handle).st_size
                torn = size > 0 and os.pread(handle, 1, size - 1) != b"\n"
                if torn:  # a line that kill -9 cut off: closed by a newline it would be read as damage, so cut it back
                    os.ftruncate(handle, os.pread(handle, size, 0).rfind(b"\n") + 1)
                line = _line(event)
                if os.write(handle, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            finally:
                os.close(handle)
        except OSError as error:
            raise unwritable(self.path.parent, error) from error

    def _apply(self, progress: Progress | None, line: bytes, number: int) -> Progress:
        try:
            event = json.loads(line)
            return _next(progress, event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DamagedJournalError(
                wanted="a journal of this installer",
                found=f"line {number} is damaged, so what this environment holds is not known",
                next="build it anew: run the same command with --recreate",
                where=str(self.path),
            ) from None


def _next(progress: Progress | None, event: Mapping[str, Any]) -> Progress:
    kind = event["event"]
    if kind == "begin":
        if event["format"] != FORMAT or progress is not None:
            raise ValueError("another format")
        return Progress({str(key): str(value) for key, value in event["identity"].items()})
    if progress is None:
        raise ValueError("no beginning")
    at = progress
    if kind == "fact":
        return Progress(at.identity, {**at.facts, str(event["name"]): event["value"]}, at.done, at.begun)
    if kind == "start":
        return Progress(at.identity, at.facts, at.done, str(event["step"]))
    if kind == "done":
        step = str(event["step"])
        return Progress(at.identity, at.facts, (*(name for name in at.done if name != step), step))
    if kind == "undo":
        undone = [str(name) for name in event["steps"]]
        return Progress(at.identity, at.facts, tuple(name for name in at.done if name not in undone))
    if kind == "finish":
        return Progress(at.identity, at.facts, at.done, finished=True)
    raise ValueError("another event")


def _line(event: dict[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"
