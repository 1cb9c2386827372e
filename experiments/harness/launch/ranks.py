"""N ranks of one task: forked together, meeting on loopback, ending together. One that dies or hangs ends the others.

Rank 0's answer is the task's, and every rank's is kept beside it. Which rank is at fault is found as a person would: a
rank that raised or was killed by itself, and only after that one whose complaint is that a peer has gone; where all
others have ended or complained and one says nothing, that one hangs. The launch is then ended as a whole, at the latest
`rank_limit_s` after its first rank ended: half of that is the patience of the ranks with each other in a collective,
half the patience with a rank whose peers are gone.
"""

from __future__ import annotations

import os
import re
import select
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from experiments.harness.launch.child_voice import BLOCK, Heard, speak, tail_of
from experiments.harness.launch.outcome import RANK_LIMIT_S, Died, Outcome, Work
from experiments.harness.process_group import LOOK_S, Member, ProcessGroup

SETTLE_S = 0.2  # so long after a first failure another may be heard that came first
# What a rank says whose only trouble is that another has gone, or keeps it waiting.
_PEER = re.compile(
    r"connection (closed|reset|refused)|by peer|timed? ?out|timeout|NCCL|remote process exited|broken pipe", re.I
)


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one process in a launch, and where the ranks meet."""

    rank: int
    ranks: int
    meeting: Path  # a file that does not exist yet, in a folder of this launch alone
    patience_s: float  # with the others, in one collective


@dataclass(slots=True)
class _Rank:
    number: int
    member: Member
    read_end: int
    output: IO[bytes]
    heard: Heard
    code: int | None = None  # None while it lives

    @property
    def is_over(self) -> bool:
        return self.code is not None

    def outcome(self, limit_s: float | None, wall_s: float) -> Outcome:
        code = -int(signal.SIGKILL) if self.code is None else self.code
        return self.heard.outcome(code, tail_of(self.output), limit_s, wall_s)


def run_ranks(
    work: Callable[[Seat], Work], *, ranks: int, time_limit_s: float, rank_limit_s: float = RANK_LIMIT_S
) -> Outcome:
    """Run `work(seat)(enter_phase)` in `ranks` forked processes, at most `time_limit_s`.

    They meet in the machine's own folder for temporary files: runs may lie on a file system that cannot lock.
    KeyboardInterrupt in the parent ends them first and goes on up. Whatever they started is gone when this returns.
    """
    began = time.perf_counter()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ranks-")))
        group = stack.enter_context(ProcessGroup())
        started: list[_Rank] = []
        for number in range(ranks):
            seat = Seat(number, ranks, folder / "meeting", rank_limit_s / 2)
            output = stack.enter_context(tempfile.TemporaryFile())
            started.append(_start(group, work(seat), number, output, [one.read_end for one in started]))
            stack.callback(os.close, started[-1].read_end)
        limit = _listen(group, started, began + time_limit_s, time_limit_s, rank_limit_s / 2)
        found = _outcome(started, limit, time.perf_counter() - began)
        group.end()
    return found


def _start(group: ProcessGroup, work: Work, number: int, output: IO[bytes], foreign: Sequence[int]) -> _Rank:
    read_end, write_end = os.pipe()

    def body() -> int:
        for descriptor in (read_end, *foreign):
            os.close(descriptor)
        return speak(work, write_end, output.fileno())

    try:
        member = group.start(body)
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    return _Rank(number, member, read_end, output, Heard())


def _listen(
    group: ProcessGroup, ranks: Sequence[_Rank], deadline: float, time_limit_s: float, patience_s: float
) -> float | None:
    """Hear the ranks until all have ended, or one is at fault. The limit that came first, or None where none did."""
    ending: float | None = None  # when the patience with those that still live is over
    while any(not one.is_over for one in ranks):
        now = time.perf_counter()
        if now >= deadline:
            return time_limit_s
        if ending is not None and now >= ending:
            return patience_s
        _hear(group, ranks, min(deadline, ending or deadline) - now)
        over = [one for one in ranks if one.is_over or one.heard.is_done]
        if any(_own_fault(one) for one in over):
            ending = min(ending or deadline, time.perf_counter() + min(SETTLE_S, patience_s))
        elif over and ending is None:
            ending = time.perf_counter() + patience_s
    return None


def _hear(group: ProcessGroup, ranks: Sequence[_Rank], wait_s: float) -> None:
    """Wait for a word or a death, and take in whatever there is."""
    living = [one for one in ranks if not one.is_over]
    watched = [one.read_end for one in living]
    deaths = [death for one in living for death in one.member.watched]
    wait_s = wait_s if len(deaths) == len(living) else min(wait_s, LOOK_S)
    ready, _, _ = select.select([*watched, *deaths], [], [], max(0.0, wait_s))
    for one in living:
        block = os.read(one.read_end, BLOCK) if one.read_end in ready else None
        if block:
            one.heard.hear(block)
        elif block == b"" or one.member.is_dead():
            one.heard.hear_the_rest(one.read_end)
            one.code = group.wait(one.member)


def _own_fault(one: _Rank) -> bool:
    """Whether a rank that is over has failed for a reason of its own: not because a peer has gone or keeps it waiting.

    NCCL's watchdog ends a process that waited too long in a collective by SIGABRT.
    """
    if one.heard.result is not None:
        return False
    if one.heard.failure is not None:
        said = f"{one.heard.failure['kind']} {one.heard.failure['message']}"
        return bool(one.heard.failure["oom"]) or not _PEER.search(said)
    return one.is_over and one.code != -int(signal.SIGABRT)


def _outcome(ranks: Sequence[_Rank], limit_s: float | None, wall_s: float) -> Outcome:
    """The task's outcome: every rank's answer, or the failure of the rank at fault."""
    if all(one.heard.result is not None for one in ranks):
        first, *others = (one.heard.result for one in ranks)
        return Outcome("ok", first, None, wall_s, tuple(answer for answer in others if answer is not None))
    over = [one for one in ranks if one.is_over or one.heard.is_done]
    silent = [one for one in ranks if not one.is_over and not one.heard.is_done]
    faulty = next((one for one in over if _own_fault(one)), None)
    if faulty is None and silent:
        faulty = silent[0]
    if faulty is None:  # all complain of a peer; one that a signal ended without a word is the one they miss
        failed = [one for one in over if one.heard.result is None]
        faulty = next((one for one in failed if one.heard.failure is None), failed[0])
    hangs = faulty in silent
    outcome = faulty.outcome(limit_s if hangs else None, wall_s)
    died = outcome.died or Died("other", "Exited", "no result")
    message = _hanging(faulty, ranks, limit_s) if hangs and over else died.message
    return replace(outcome, died=replace(died, message=f"rank {faulty.number}: {message}"))


def _hanging(faulty: _Rank, ranks: Sequence[_Rank], limit_s: float | None) -> str:
    others = ", ".join(str(one.number) for one in ranks if one is not faulty and (one.is_over or one.heard.is_done))
    return f"no word within {limit_s or 0:g} s after the end of rank {others}; the ranks were ended"
