"""The journal of a run: one JSON line per finished task, on disk before the next task begins.

A run that is killed at any moment loses at most the task it was in. The last line may be torn by the kill; it is left
out on reading and cut off before more is written. One process writes a journal at a time (a lock the kernel drops when
that process dies).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.launch.outcome import Outcome
from tools.environments.errors import LabError

NAME = "journal.jsonl"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True, slots=True)
class Story:
    """What a journal tells: how the run was planned, what is finished, how often it was taken up again."""

    plan: Mapping[str, JsonValue]
    finished: Mapping[str, Outcome] = field(default_factory=dict)  # task id -> outcome
    resumed: int = 0
    elapsed_s: float = 0.0  # of all sittings, up to their last finished task
    complete: bool = False  # the record was written


class Journal:
    """Open for writing; `with Journal.create(...)` or `with Journal.resume(...)`."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @classmethod
    def create(cls, path: Path, plan: Mapping[str, JsonValue]) -> Self:
        """A new journal that begins with the plan. Raises LabError when one is there already or the disk is full.

        It appears under its name only when the plan is whole on disk, so no kill leaves a journal without a plan.
        """
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o644)
        except OSError as error:
            raise _disk(path, error) from error
        journal = cls(path, descriptor)
        journal._lock()
        try:
            journal._write({"plan": plan})
            os.link(draft, path)
        except FileExistsError as error:
            journal.close()
            raise LabError(
                wanted="a run label that no other run has",
                found=f"{path.parent.name}, which another run has just taken",
                next="choose a new --run-label, or leave it out",
                where="--run-label",
            ) from error
        finally:
            draft.unlink(missing_ok=True)
        return journal

    @classmethod
    def resume(cls, path: Path) -> tuple[Self, Story]:
        """Take up a journal again: cut a torn last line, write that it was resumed. Raises LabError."""
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise _disk(path, error) from error
        journal = cls(path, descriptor)
        journal._lock()
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(descriptor, whole)
        story = read(path)
        journal._write({"resumed": story.resumed + 1})
        return journal, story

    def finished(self, task_id: str, outcome: Outcome, elapsed_s: float) -> None:
        """One task is done: on disk when this returns. Raises LabError when the disk is full."""
        self._write({"task": task_id, "outcome": outcome.to_json(), "elapsed_s": round(elapsed_s, 3)})

    def completed(self, record: str) -> None:
        """The record is written; nothing more comes."""
        self._write({"record": record})

    def close(self) -> None:
        """Give up the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise LabError(
                wanted="a run that nobody else is at",
                found="another process is writing this journal",
                next="wait for it, or choose a new --run-label",
                where=f"{self._path.parent.name}/{self._path.name}",
            ) from error

    def _write(self, line: Mapping[str, object]) -> None:
        data = json.dumps(line, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            written = os.write(self._descriptor, data)
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, before)
            raise _disk(self._path, error) from error


def read(path: Path) -> Story:
    """What a journal tells, its torn last line left out. Raises LabError when it is no journal of ours."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _disk(path, error) from error
    lines = content.split(b"\n")[:-1]  # what stands behind the last line end is torn, or empty
    plan: Mapping[str, JsonValue] | None = None
    finished: dict[str, Outcome] = {}
    resumed, elapsed, sitting, complete = 0, 0.0, 0.0, False
    for number, text in enumerate(lines, start=1):
        try:
            line = json.loads(text)
            if "plan" in line:
                plan = line["plan"]
            elif "task" in line:
                finished[line["task"]] = Outcome.from_json(line["outcome"])
                sitting = float(line["elapsed_s"])
            elif "resumed" in line:
                resumed, elapsed, sitting = int(line["resumed"]), elapsed + sitting, 0.0
            elif "record" in line:
                complete = True
            else:
                raise ValueError("a line of no kind we write")
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged(path, number) from error
    if not isinstance(plan, dict):
        raise _damaged(path, 1)
    return Story(plan=plan, finished=finished, resumed=resumed, elapsed_s=elapsed + sitting, complete=complete)


def _damaged(path: Path, number: int) -> LabError:
    return LabError(
        wanted="a journal written by a run",
        found=f"line {number} is not one of its lines",
        next="begin again under a new --run-label; the finished tasks before that line can still be read in the file",
        where=f"{path.parent.name}/{path.name}",
    )


def _disk(path: Path, error: OSError) -> LabError:
    if error.errno in _FULL:
        return LabError(
            wanted="room on the disk for the journal",
            found="the disk is full",
            next=f"free some space, then go on with --resume {path.parent.name}; finished tasks are kept",
            where=f"{path.parent.name}/{path.name}",
        )
    return LabError(
        wanted="a run folder that can be read and written",
        found=os.strerror(error.errno or 0),
        next="check the folder's owner and mode, or set TMLAB_RUNS to another folder",
        where=f"{path.parent.name}/{path.name}",
    )
