"""Processes that are started together and end together, with everything they start. The one door to a child process.

    with ProcessGroup() as group:
        ranks = [group.start(partial(run_rank, number)) for number in range(4)]
        server = group.start(lambda: os.execvp(command[0], command))

A member is forked and leads a session of its own, so one kill reaches its whole group and Ctrl-C at a terminal reaches
the parent alone, which decides. Whatever a member leaves behind when it ends, in whichever way, is ended before its
exit code is told: while a group is open its parent adopts orphans (PR_SET_CHILD_SUBREAPER), those too that went to a
session of their own. Where the parent itself is killed, `process_watch` beside it does the same.

Linux has all of that; elsewhere a member's group is ended, and one that left it is not found.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import NoReturn, Self

from experiments.harness import process_watch
from tools.environments.errors import EXIT_INTERRUPTED

HELD = (signal.SIGINT, signal.SIGTERM)
SET_SUBREAPER, GET_SUBREAPER = 36, 37  # of prctl(2)
LOOK_S = 0.1  # how often a member is looked at where no file says that it is dead
Body = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Member:
    """One started process. `death` becomes readable when it is dead; None where this kernel has no such file."""

    pid: int
    death: int | None

    @property
    def watched(self) -> tuple[int, ...]:
        """What to wait for besides its words: `death`, if there is one."""
        return () if self.death is None else (self.death,)

    def is_dead(self) -> bool:
        """Whether it has ended; its exit code is still to be asked for."""
        return _look_at(self.pid, os.WNOHANG)


class ProcessGroup:
    """Members that end with this block, however it is left.

    The process that opens it may have children of its own; one that another thread starts meanwhile, in a session of
    its own, would be taken for an orphan of a member.
    """

    def __init__(self) -> None:
        self._members: dict[int, Member] = {}
        self._own: set[int] = set()  # children that were there before, and orphans that are not ours to end

    def __enter__(self) -> Self:
        _OPEN.append(_adopts_orphans())
        _adopt_orphans(True)
        self._own = set(_children())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.end()
        finally:
            if len(_OPEN) == 1:
                _adopt_orphans(_OPEN[0])
            _OPEN.pop()

    def start(self, body: Body) -> Member:
        """Fork a member that runs `body` and exits with what it returns. Raises OSError where no process can be had.

        `body` may as well never return, and execute another program. SIGINT and SIGTERM have their plain meaning in it,
        unless it takes them for itself.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        line = os.dup(_watcher().line)
        held = HeldSignals()
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of threads at fork. Imported libraries keep idle ones; no lock of ours is held here.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
            if pid == 0:
                _live(body, line)
            _MEMBERS.add(pid)
            member = self._members[pid] = Member(pid, _death_of(pid))
        finally:
            os.close(line)
            held.release()
        return member

    def wait(self, member: Member) -> int:
        """Wait for its end, and end what it left behind. Its exit code; negative: the signal that ended it."""
        _look_at(member.pid)
        process_watch.send(-member.pid, signal.SIGKILL)
        self._end_orphans()
        for watcher in _WATCHERS:
            watcher.say(b"-%d\n" % member.pid)
        code = os.waitstatus_to_exitcode(os.waitpid(member.pid, 0)[1])
        del self._members[member.pid]
        _MEMBERS.discard(member.pid)
        if member.death is not None:
            os.close(member.death)
        return code

    def interrupt(self, member: Member, patience_s: float) -> None:
        """Ask a member that is still there to end by itself (SIGINT), and give it that long. `end` is to follow."""
        if member.pid not in self._members:
            return
        process_watch.send(member.pid, signal.SIGINT)
        until = time.monotonic() + patience_s
        while not member.is_dead() and (left := until - time.monotonic()) > 0:
            select.select(member.watched, [], [], left if member.watched else min(left, LOOK_S))

    def end(self) -> None:
        """End every member and all that they started; returns when they are gone."""
        for pid in self._members:
            process_watch.send(-pid, signal.SIGKILL)
            process_watch.send(pid, signal.SIGKILL)  # it may not have made its group yet
        for member in list(self._members.values()):
            self.wait(member)

    def _end_orphans(self) -> None:
        """Kill and reap adopted processes until none is left: the death of one brings us its children."""
        ours = os.getsid(0)
        known = _MEMBERS | {watcher.process.pid for watcher in _WATCHERS}
        while orphans := [pid for pid in _children() if pid not in self._own and pid not in known]:
            for pid in orphans:
                seen = process_watch.look(pid)
                if seen is None or seen.session == ours or not process_watch.send(pid, signal.SIGKILL):
                    self._own.add(pid)  # a member and its descendants are never in our session
                    continue
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, 0)


class HeldSignals:
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


class _Watcher:
    """The running `process_watch`, which sees this process's death by the end of `line`."""

    def __init__(self) -> None:
        command = [sys.executable, "-I", "-S", os.path.abspath(process_watch.__file__)]
        quiet = subprocess.DEVNULL  # it holds nobody's terminal or pipe
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=quiet, stderr=quiet, cwd="/", start_new_session=True
        )
        assert self.process.stdin is not None
        self.line = self.process.stdin.fileno()

    def say(self, word: bytes) -> None:
        """A line to it; nothing where somebody has killed it."""
        with contextlib.suppress(OSError):
            os.write(self.line, word)

    def close(self) -> None:
        """Let it end, which it does at once where nobody is on its list."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


_WATCHERS: list[_Watcher] = []  # at most one
_MEMBERS: set[int] = set()  # of every group of this process
_OPEN: list[bool] = []  # for each open group: were orphans adopted before it? The oldest says what to go back to


def _watcher() -> _Watcher:
    """The watcher of this process, started with its first group. Raises OSError where no process can be had."""
    if _WATCHERS and _WATCHERS[0].process.poll() is not None:
        _WATCHERS.pop().close()
    if not _WATCHERS:
        _WATCHERS.append(_Watcher())
    return _WATCHERS[0]


def _close_watcher() -> None:
    while _WATCHERS:
        _WATCHERS.pop().close()


def _forget_parents() -> None:
    """In a forked child: the watcher is the parent's, and has to see the parent's end of the line close."""
    for watcher in _WATCHERS:
        assert watcher.process.stdin is not None
        watcher.process.stdin.close()
        watcher.process.returncode = 0  # not ours to wait for
    _WATCHERS.clear()
    _MEMBERS.clear()
    _OPEN.clear()


atexit.register(_close_watcher)
os.register_at_fork(after_in_child=_forget_parents)


def _live(body: Body, line: int) -> NoReturn:
    """All that a member does. It leaves by `os._exit`: torch's teardown alone costs 0.3 s."""
    code = 1
    try:
        os.setsid()
        gc.freeze()  # what the parent imported stays out of the member's collections, and its pages stay shared
        with contextlib.suppress(OSError):  # somebody has killed the watcher
            os.write(line, b"+%d\n" % os.getpid())  # said by itself: its parent could be killed before it had
        os.close(line)
        _adopt_orphans(True)
        for number in HELD:
            signal.signal(number, signal.SIG_DFL)
        code = body()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _look_at(pid: int, how: int = 0) -> bool:
    """Wait until a child is dead, or with WNOHANG ask whether it is. It stays a zombie: nobody else gets its number."""
    if sys.platform == "darwin":  # Python has no waitid there: False, and who asks for the exit code waits
        return False
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT | how) is not None


def _death_of(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):  # not Linux, or one before 5.3
        return None


def _children() -> list[int]:
    """Every child of this process, dead ones included; empty where there is no /proc."""
    found: list[int] = []
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:  # a thread that ended meanwhile, or a kernel without that file
        me = os.getpid()
        return [pid for pid, seen in process_watch.everyone().items() if seen.parent == me]
    return found


def _adopt_orphans(yes: bool) -> None:
    """Whether descendants whose parent has gone become children of this process. Nothing outside Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(SET_SUBREAPER, int(yes), 0, 0, 0)


def _adopts_orphans() -> bool:
    if sys.platform != "linux":
        return False
    answer = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(GET_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)
