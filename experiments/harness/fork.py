"""One measurement in one forked process: what it returned, or how it died. The process door of the harness.

The parent has imported torch and transformers and never used them; each child therefore starts in milliseconds with a
CUDA context and an allocator of its own, and whatever happens to it (out of memory, a crash, a kill) is an outcome
for the parent to write down, not an end of the run. No retry ever happens inside an `except` block: a traceback that
holds tensors dies with its process (pytorch#18853).

The child speaks JSON lines over a pipe: the phase it has entered, then one result or one failure.
"""

from __future__ import annotations

import gc
import json
import os
import re
import select
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO, Literal, cast, get_args

from experiments.evidence.vocabulary import JsonValue, Phase
from experiments.harness.process_group import LOOK_S, Member, ProcessGroup
from tools.environments.errors import LabError

Status = Literal["ok", "oom", "failed"]
Job = Callable[[Callable[[Phase], None]], Mapping[str, JsonValue]]

PHASES: tuple[Phase, ...] = get_args(Phase)
DISK_FULL = "DiskFull"  # the kind of failure that is nobody's result: the run stops and can be resumed
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED", re.I)
_DEVICE_LOST = re.compile(r"device-side assert|unspecified launch failure|uncorrectable|has fallen off|no longer", re.I)


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

    def to_json(self) -> dict[str, JsonValue]:
        """Plain values for the journal."""
        died: JsonValue = None
        if self.died is not None:
            died = {"phase": self.died.phase, "kind": self.died.kind, "message": self.died.message}
        return {"status": self.status, "result": self.result, "died": died, "wall_s": round(self.wall_s, 4)}

    @staticmethod
    def from_json(value: Mapping[str, object]) -> Outcome:
        """From a journal line. Raises KeyError, TypeError or ValueError when the line is not one of ours."""
        died, status, result, wall = value["died"], value["status"], value["result"], value["wall_s"]
        if status not in get_args(Status) or not isinstance(wall, int | float):
            raise ValueError("not an outcome")
        if result is not None and not isinstance(result, dict):
            raise TypeError("result is no object")
        found = None
        if isinstance(died, dict):
            found = Died(phase=cast(Phase, died["phase"]), kind=str(died["kind"]), message=str(died["message"]))
        return Outcome(status=cast(Status, status), result=result, died=found, wall_s=float(wall))


def run_forked(job: Job, *, time_limit_s: float) -> Outcome:
    """Run `job(enter_phase)` in a forked child and wait for it, at most `time_limit_s`.

    KeyboardInterrupt in the parent ends the child first and goes on up. The caller may not have used CUDA. Whatever the
    job started is gone when this returns.
    """
    began = time.perf_counter()
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as output, ProcessGroup() as group:
        try:
            try:
                child = group.start(lambda: _do(job, read_end, write_end, output.fileno()))
            finally:
                os.close(write_end)
            messages, timed_out = _listen(read_end, child, began + time_limit_s)
        finally:
            os.close(read_end)
        if timed_out:
            group.end()
            code = -int(signal.SIGKILL)
        else:
            code = group.wait(child)
        output.seek(max(0, output.seek(0, os.SEEK_END) - 4096))
        tail = output.read().decode(errors="replace")
    return _outcome(messages, code, tail, time_limit_s if timed_out else None, time.perf_counter() - began)


def _listen(read_end: int, child: Member, deadline: float) -> tuple[list[dict[str, object]], bool]:
    """Collect the child's lines until it closes the pipe or dies. True when the deadline came first.

    A process that the child has forked holds the pipe open as well: its end would never come.
    """
    buffer = bytearray()
    while True:
        left = deadline - time.perf_counter()
        if left <= 0:
            return _lines(buffer), True
        ready, _, _ = select.select([read_end, *child.watched], [], [], left if child.watched else min(left, LOOK_S))
        if read_end in ready:
            block = os.read(read_end, 65536)
            if not block:
                return _lines(buffer), False
            buffer += block
        elif child.is_dead():
            return _lines(buffer), False


def _lines(buffer: bytearray) -> list[dict[str, object]]:
    """Whole JSON lines only: a child killed while writing leaves half of one."""
    found = []
    for line in bytes(buffer).splitlines(keepends=True):
        if line.endswith(b"\n"):
            found.append(json.loads(line))
    return found


def _outcome(messages: list[dict[str, object]], code: int, tail: str, limit_s: float | None, wall_s: float) -> Outcome:
    phase: Phase = "load"
    for message in messages:
        if "phase" in message:
            phase = cast(Phase, message["phase"])
        if "result" in message:
            return Outcome("ok", cast("dict[str, JsonValue]", message["result"]), None, wall_s)
        if "failure" in message:
            failure = cast("dict[str, str]", message["failure"])
            status: Status = "oom" if failure["oom"] else "failed"
            return Outcome(status, None, Died(phase, failure["kind"], failure["message"]), wall_s)
    last = tail.strip().splitlines()[-1:] or [""]
    if limit_s is not None:
        died = Died(phase, "TimeLimit", f"no result within {limit_s:.0f} s; the process was ended")
    elif code < 0:
        name = signal.Signals(-code).name
        hint = "; the kernel's out-of-memory killer does this" if name == "SIGKILL" else ""
        died = Died(phase, "Killed", f"ended by {name}{hint}. {last[0]}".strip())
    else:
        died = Died(phase, "Exited", f"exit code {code} without a result. {last[0]}".strip())
    return Outcome("failed", None, died, wall_s)


def _do(job: Job, read_end: int, write_end: int, output: int) -> int:
    """What the child does: the job, and one last word about it."""
    os.close(read_end)
    os.dup2(output, 1)
    os.dup2(output, 2)
    gc.freeze()  # what the parent imported stays out of the child's collections, and its pages stay shared
    with os.fdopen(write_end, "wb", buffering=0) as pipe:
        try:
            result = job(lambda phase: _say(pipe, {"phase": phase}))
            _say(pipe, {"result": result})
        except BaseException as error:
            traceback.print_exc()
            _say(pipe, {"failure": _failure(error)})
    return 0


def _failure(error: BaseException) -> dict[str, object]:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, LabError):
        text = f"wanted {error.wanted}; found {error.found}; {error.next}"
    message = "\n".join(text.splitlines()[:3])[:600]
    kind = type(error).__name__
    oom = isinstance(error, MemoryError) or "OutOfMemory" in kind or bool(_OUT_OF_MEMORY.search(text))
    if isinstance(error, OSError) and error.errno in (28, 122):  # ENOSPC, EDQUOT
        kind = DISK_FULL
    elif not oom and _DEVICE_LOST.search(text):
        kind = "DeviceLost"
    return {"kind": kind, "message": message, "oom": oom}


def _say(pipe: BinaryIO, message: Mapping[str, object]) -> None:
    line = json.dumps(message, allow_nan=False).encode() + b"\n"
    view = memoryview(line)
    while view:
        view = view[os.write(pipe.fileno(), view) :]
