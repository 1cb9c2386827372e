"""What a launched process says to its parent, and how the parent understands it: JSON lines over a pipe.

A phase when it is entered, then one result or one failure. A process that dies says nothing more; its exit code and
the end of its output then have to do.
"""

from __future__ import annotations

import json
import os
import re
import signal
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, BinaryIO, cast

from experiments.evidence.vocabulary import JsonValue, Phase
from experiments.harness.launch.outcome import DISK_FULL, Died, Outcome, Status, Work
from tools.environments.errors import LabError

TAIL = 4096  # bytes of a process's output that are looked at
BLOCK = 65536
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory|CUBLAS_STATUS_ALLOC_FAILED", re.I)
_DEVICE_LOST = re.compile(r"device-side assert|unspecified launch failure|uncorrectable|has fallen off|no longer", re.I)


@dataclass(slots=True)
class Heard:
    """What one process has said so far."""

    phase: Phase = "load"
    result: Mapping[str, JsonValue] | None = None
    failure: Mapping[str, object] | None = None
    _buffer: bytearray = field(default_factory=bytearray)

    @property
    def is_done(self) -> bool:
        """Whether its last word was heard."""
        return self.result is not None or self.failure is not None

    def hear(self, block: bytes) -> None:
        """More of its lines. Whole ones only: a process that is killed while writing leaves half of one."""
        self._buffer += block
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer = bytearray(rest)
        for line in lines:
            message = json.loads(line)
            if "phase" in message:
                self.phase = cast(Phase, message["phase"])
            self.result = message.get("result", self.result)
            self.failure = message.get("failure", self.failure)

    def hear_the_rest(self, read_end: int) -> None:
        """What a process that is dead had said before: its last word may have come after the last look at the pipe."""
        os.set_blocking(read_end, False)  # what it started may hold the pipe open still
        try:
            while block := os.read(read_end, BLOCK):
                self.hear(block)
        except BlockingIOError:
            pass

    def outcome(self, code: int, tail: str, limit_s: float | None, wall_s: float) -> Outcome:
        """What came of it: `code` is its exit code, `limit_s` the limit it was ended at, or None."""
        if self.result is not None:
            return Outcome("ok", self.result, None, wall_s)
        if self.failure is not None:
            status: Status = "oom" if self.failure["oom"] else "failed"
            died = Died(self.phase, str(self.failure["kind"]), str(self.failure["message"]))
            return Outcome(status, None, died, wall_s)
        return Outcome("failed", None, self._silent(code, tail, limit_s), wall_s)

    def _silent(self, code: int, tail: str, limit_s: float | None) -> Died:
        last = tail.strip().splitlines()[-1:] or [""]
        if limit_s is not None:
            return Died(self.phase, "TimeLimit", f"no result within {limit_s:g} s; the process was ended")
        if code < 0:
            name = signal.Signals(-code).name
            hint = "; the kernel's out-of-memory killer does this" if name == "SIGKILL" else ""
            return Died(self.phase, "Killed", f"ended by {name}{hint}. {last[0]}".strip())
        return Died(self.phase, "Exited", f"exit code {code} without a result. {last[0]}".strip())


def speak(work: Work, write_end: int, output: int) -> int:
    """What the child does: the work, and one last word about it. Its exit code."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    with os.fdopen(write_end, "wb", buffering=0) as pipe:
        try:
            result = work(lambda phase: _say(pipe, {"phase": phase}))
            _say(pipe, {"result": result})
        except BaseException as error:
            traceback.print_exc()
            _say(pipe, {"failure": _failure(error)})
    return 0


def tail_of(output: IO[bytes]) -> str:
    """The end of what a process wrote."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - TAIL))
    return output.read().decode(errors="replace")


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
