"""Running one child of an install: its words go to files, and the user sees a sign of life.

Files and not pipes, so that a pip or uv whose installer was killed can go on to a clean end, and its last lines can be
shown by the next call.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

WATCH_S = 0.25
GRACE_S = 5.0  # what a child gets to clean up after Ctrl-C, and again after being asked to end


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A child that ended by itself: its exit code, its duration, and where its output lies."""

    code: int
    seconds: float
    out: Path
    err: Path

    def lines(self) -> list[str]:
        """What it said, complaints last."""
        return [line for path in (self.out, self.err) for line in _text(path).splitlines() if line.strip()]


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    log: Path,
    inherited: tuple[int, ...] = (),
    tick: Callable[[float, str], None] | None = None,
    every_s: float = 1.0,
    watch: Callable[[], None] | None = None,
    beside: Callable[[], None] | None = None,
) -> ChildEnded:
    """Run `argv` to its end with output in `log`.out and `log`.err; `tick` hears seconds and the last line meanwhile.

    `beside` runs once while the child does. `watch` is asked a few times a second; what it raises ends the child, as
    Ctrl-C does, and is raised again once the child is gone. OSError where the program cannot start.
    """
    out, err = log.with_name(log.name + ".out"), log.with_name(log.name + ".err")
    started = time.monotonic()
    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        child = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=cwd, env=env, pass_fds=inherited
        )
    ended: list[float] = []

    def wait() -> None:
        child.wait()
        ended.append(time.monotonic())

    try:
        # A thread that waits wakes this one at once; polling would add up to a twentieth of a second to each step.
        waiting = threading.Thread(target=wait, daemon=True)
        waiting.start()
        if beside:
            beside()
        told = started
        while True:
            waiting.join(min(every_s, WATCH_S))
            if not waiting.is_alive():
                break
            if watch:
                watch()
            if tick and time.monotonic() - told >= every_s:
                told = time.monotonic()
                tick(told - started, _last_line(err) or _last_line(out))
    except BaseException:
        _end(child)
        raise
    return ChildEnded(child.returncode, ended[0] - started, out, err)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Let an interrupted child clean up, then ask it to end, then end it."""
    with contextlib.suppress(KeyboardInterrupt):
        for word in (signal.SIGINT, signal.SIGTERM):
            with contextlib.suppress(ProcessLookupError):
                child.send_signal(word)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
                return
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    child.wait()


def _last_line(path: Path) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 2000))
        lines = file.read().decode("utf-8", "replace").splitlines()
        return next((line.strip() for line in reversed(lines) if line.strip()), "")
    return ""


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
