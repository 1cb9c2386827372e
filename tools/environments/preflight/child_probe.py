"""Starts probing children and collects what they answered, however they ended.

Importing torch here would make every fault of torch a fault of ours. So it happens in children: a child that raises,
crashes, calls exit or never returns is a finding with the step it happened in. What children print goes into a pipe of
its own, and only its end is kept.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

CHILD = Path(__file__).with_name("probe_child.py")
Steps = Sequence[tuple[str, str]]  # ("import", "torch"), ("torch-facts", ""), ("operate", "float16 cpu")
TAIL_BYTES = 2000
BLOCK_BYTES = 65536


@dataclass(frozen=True, slots=True)
class ProbeOutcome:
    """One finished step: `error` is empty when it went well."""

    ok: bool
    error: str
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """What one child answered. `died` says how it ended early and in which step; None when it went through."""

    outcomes: Mapping[str, ProbeOutcome]
    died: str | None = None
    died_in: str | None = None
    tail: str = ""  # the last of what the child printed, for a reader who wants to know more


class Probe:
    """One running child. `finish` waits for it; `abandon` ends it. One of the two must be called."""

    def __init__(self, steps: Steps, *, time_limit_s: float, flags: Sequence[str] = (), python: str = sys.executable):
        import subprocess

        self.time_limit_s = time_limit_s
        self._answers, answer = os.pipe()
        self._printed, printed = os.pipe()
        spec = json.dumps({"fd": answer, "time_limit_s": time_limit_s, "steps": [list(step) for step in steps]})
        try:
            self._child: subprocess.Popen[bytes] = subprocess.Popen(
                [python, *flags, "-P", str(CHILD), spec],
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=printed,
                pass_fds=(answer,),
                start_new_session=True,
            )
        except OSError:
            os.close(self._answers)
            os.close(self._printed)
            raise
        finally:
            os.close(answer)
            os.close(printed)
        self._deadline = time.monotonic() + time_limit_s
        self._over = False

    def finish(self) -> ProbeFacts:
        """Wait for the child, no longer than its time limit, and return everything it answered."""
        text, tail, in_time = self._listen()
        facts = self._judge(text, tail.decode("utf-8", "replace"), in_time)
        self.abandon()
        return facts

    def abandon(self) -> None:
        """End the child and whatever it started; a second call does nothing."""
        import contextlib
        import signal
        import subprocess

        if self._over:
            return
        self._over = True
        with contextlib.suppress(OSError):
            os.killpg(self._child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(1)
        for fd in (self._answers, self._printed):
            with contextlib.suppress(OSError):
                os.close(fd)

    def _listen(self) -> tuple[bytes, bytes, bool]:
        """Everything answered, the last of what was printed, and whether it ended within the time limit."""
        import select

        text = tail = b""
        open_fds = [self._answers, self._printed]
        while self._answers in open_fds and not text.endswith(b'{"end": true}\n'):
            left = self._deadline - time.monotonic()
            if left <= 0:
                return text, tail, False
            ready, _, _ = select.select(open_fds, [], [], min(left, 0.5))
            for fd in ready:
                piece = os.read(fd, BLOCK_BYTES)
                if not piece:
                    open_fds.remove(fd)
                elif fd == self._answers:
                    text += piece
                else:
                    tail = (tail + piece)[-TAIL_BYTES:]
            if not ready and self._child.poll() is not None:
                break  # it ended, though something it started keeps the pipe open
        if self._printed in open_fds and select.select([self._printed], [], [], 0)[0]:
            tail = (tail + os.read(self._printed, BLOCK_BYTES))[-TAIL_BYTES:]
        return text, tail, True

    def _judge(self, text: bytes, tail: str, in_time: bool) -> ProbeFacts:
        outcomes: dict[str, ProbeOutcome] = {}
        current: str | None = None
        ended = False
        for line in text.splitlines():
            message = _message(line)
            if "end" in message:
                ended = True
            elif "ok" in message:
                outcomes[str(message["step"])] = ProbeOutcome(
                    bool(message["ok"]), str(message.get("error", "")), message.get("facts", {})
                )
                current = None
            elif "step" in message:
                current = str(message["step"])
        if ended:
            return ProbeFacts(outcomes, tail=tail)
        died = self._ending() if in_time else f"no answer within {self.time_limit_s:g} s"
        return ProbeFacts(outcomes, died, current, tail)

    def _ending(self) -> str:
        import signal
        import subprocess

        try:
            code = self._child.wait(1)
        except subprocess.TimeoutExpired:
            return "closed its pipe and did not end"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"killed by signal {-code}"


def outcome(probes: Sequence[ProbeFacts], step: str) -> ProbeOutcome | None:
    """How `step` went, in whichever child; a child's death in it counts as its failure. None: it was not reached."""
    for probe in probes:
        if step in probe.outcomes:
            return probe.outcomes[step]
        if probe.died and probe.died_in == step:
            return ProbeOutcome(False, probe.died, {})
        if probe.died and probe.died_in is None and step.startswith("import ") and not probe.outcomes:
            return ProbeOutcome(False, f"the interpreter itself {probe.died}", {})
    return None


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:  # cut off where the child died
        return {}
    return message if isinstance(message, dict) else {}
