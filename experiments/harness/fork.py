"""One measurement in one forked process: what it returned, or how it died. The process door of the harness.

The parent has imported torch and transformers and never used them; each child therefore starts in milliseconds with a
CUDA context and an allocator of its own, and whatever happens to it (out of memory, a crash, a kill) is an outcome
for the parent to write down, not an end of the run. No retry ever happens inside an `except` block: a traceback that
holds tensors dies with its process (pytorch#18853).

The child speaks JSON lines over a pipe: the phase it has entered, then one result or one failure.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO, Literal, NoReturn, cast, get_args

from experiments.evidence.vocabulary import JsonValue, Phase
from tools.environments.errors import LabError

Status = Literal["ok", "oom", "failed"]
EnterPhase = Callable[[Phase], None]
Job = Callable[[EnterPhase], Mapping[str, JsonValue]]

HELD = (signal.SIGINT, signal.SIGTERM)
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


def run_forked(job: Job, *, time_limit_s: float) -> Outcome:
    """Run `job(enter_phase)` in a forked child and wait for it, at most `time_limit_s`.

    KeyboardInterrupt in the parent ends the child first and goes on up. The caller may not have used CUDA.
    """
    began = time.perf_counter()
    sys.stdout.flush()
    sys.stderr.flush()
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as output:
        parent = os.getpid()
        held = _HeldSignals()
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of threads at fork. Imported libraries keep idle ones; no lock of ours is held here.
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
        except OSError:
            held.release()
            raise
        if child == 0:
            os.close(read_end)
            _live_as_child(job, write_end, output.fileno(), parent)
        os.close(write_end)
        try:
            held.release()
            messages, timed_out = _listen(read_end, began + time_limit_s)
        except BaseException:
            _end(child)
            raise
        finally:
            os.close(read_end)
        if timed_out:
            _end(child)
            code = -int(signal.SIGKILL)
        else:
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(max(0, output.seek(0, os.SEEK_END) - 4096))
        tail = output.read().decode(errors="replace")
    return _outcome(messages, code, tail, time_limit_s if timed_out else None, time.perf_counter() - began)


class _HeldSignals:
    """Ctrl-C and SIGTERM noted from now on, and answered on `release`.

    A handler that ran in one of Python's own at-fork callbacks would have its exception swallowed. Blocking the signals
    would not do: any other thread takes them, and its handler still runs in this one.
    """

    def __init__(self) -> None:
        self._noted: list[int] = []
        self._handlers: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}
        if threading.current_thread() is threading.main_thread():  # elsewhere no handler runs
            for number in HELD:
                self._handlers[number] = signal.signal(number, lambda noted, _: self._noted.append(noted))

    def release(self) -> None:
        """Put the handlers back, and have them run for what came meanwhile."""
        for number in reversed(self._handlers):
            signal.signal(number, self._handlers[number] or signal.SIG_DFL)
        for noted in self._noted:
            signal.raise_signal(noted)


def _listen(read_end: int, deadline: float) -> tuple[list[dict[str, object]], bool]:
    """Collect the child's lines until it closes the pipe. True when the deadline came first."""
    buffer = bytearray()
    while True:
        left = deadline - time.perf_counter()
        if left <= 0:
            return _lines(buffer), True
        ready, _, _ = select.select([read_end], [], [], left)
        if not ready:
            continue
        block = os.read(read_end, 65536)
        if not block:
            return _lines(buffer), False
        buffer += block


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


def _live_as_child(job: Job, write_end: int, output: int, parent: int) -> NoReturn:
    """Everything the child does; it leaves by `os._exit`, since torch's teardown alone costs 0.3 s."""
    code = 1
    try:
        _follow_parent(parent)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
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
        code = 0
    finally:
        os._exit(code)


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


def _follow_parent(parent: int) -> None:
    """Ask Linux to end this child when its parent is gone: a killed run leaves nobody behind on the card.

    Elsewhere the child ends by itself at its next word into the broken pipe.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if os.getppid() != parent:  # it went before we asked
            os._exit(1)


def _end(child: int) -> None:
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass
