"""One measurement in one forked process: what it returned, or how it died.

The parent has imported torch and transformers and never used them; each child therefore starts in milliseconds with a
CUDA context and an allocator of its own, and whatever happens to it (out of memory, a crash, a kill) is an outcome
for the parent to write down, not an end of the run. No retry ever happens inside an `except` block: a traceback that
holds tensors dies with its process (pytorch#18853).
"""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time

from experiments.harness.launch.child_voice import BLOCK, Heard, speak, tail_of
from experiments.harness.launch.outcome import Outcome, Work
from experiments.harness.process_group import LOOK_S, Member, ProcessGroup


def run_forked(work: Work, *, time_limit_s: float) -> Outcome:
    """Run `work(enter_phase)` in a forked child and wait for it, at most `time_limit_s`.

    KeyboardInterrupt in the parent ends the child first and goes on up. The caller may not have used CUDA. Whatever the
    work started is gone when this returns.
    """
    began = time.perf_counter()
    heard = Heard()
    read_end, write_end = os.pipe()
    with tempfile.TemporaryFile() as output, ProcessGroup() as group:

        def body() -> int:
            os.close(read_end)
            return speak(work, write_end, output.fileno())

        try:
            try:
                child = group.start(body)
            finally:
                os.close(write_end)
            timed_out = _listen(read_end, child, heard, began + time_limit_s)
        finally:
            os.close(read_end)
        if timed_out:
            group.end()
            code = -int(signal.SIGKILL)
        else:
            code = group.wait(child)
        tail = tail_of(output)
    return heard.outcome(code, tail, time_limit_s if timed_out else None, time.perf_counter() - began)


def _listen(read_end: int, child: Member, heard: Heard, deadline: float) -> bool:
    """Hear the child until it closes the pipe or dies. True when the deadline came first.

    A process that the child has forked holds the pipe open as well: its end would never come.
    """
    while True:
        left = deadline - time.perf_counter()
        if left <= 0:
            return True
        ready, _, _ = select.select([read_end, *child.watched], [], [], left if child.watched else min(left, LOOK_S))
        if read_end in ready:
            block = os.read(read_end, BLOCK)
            if not block:
                return False
            heard.hear(block)
        elif child.is_dead():
            heard.hear_the_rest(read_end)
            return False
