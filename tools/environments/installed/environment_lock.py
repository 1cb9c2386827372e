"""One installer at a time on one environment: a lock file that says who holds it.

The lock is the kernel's (flock), so a killed holder never leaves one behind. Children inherit it on purpose: where only
the installer was killed, its pip or uv goes on writing for a while, and the next installer must wait for that too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.environments.errors import LabError

POLL_S = 0.1
WAIT_S = 900.0
REMIND_S = 30.0  # a job that says nothing for minutes is taken for dead by CI services


@contextlib.contextmanager
def hold(path: Path, purpose: str, say: Callable[[str], None], *, wait_s: float = WAIT_S) -> Iterator[int]:
    """Hold the lock at `path`; yields its file descriptor, to be passed to children.

    Waits for another holder up to `wait_s` seconds and says who it is; LabError after that, or where nothing can be
    written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    try:
        _acquire(handle, path, say, wait_s)
        record = json.dumps({"pid": os.getpid(), "purpose": purpose, "since": time.strftime("%H:%M:%S")})
        with contextlib.suppress(OSError):  # a full disk: the lock holds all the same
            os.ftruncate(handle, 0)
            os.pwrite(handle, record.encode(), 0)
        yield handle
    finally:
        os.close(handle)


def holder(path: Path) -> str:
    """Who wrote the lock file last, in words."""
    try:
        record = json.loads(path.read_bytes())
        return f"process {int(record['pid'])} ({record['purpose']}, since {record['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def unwritable(place: Path, error: OSError) -> LabError:
    """The finding for a folder that refuses: read-only, not ours, full, or a file where a folder belongs."""
    advice = "run it as the owner of this checkout, or clone into a folder of your own"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = "free some space there (pip cache purge; uv cache clean), then run the same command again: it resumes"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        advice = "move the file away that stands there in place of a folder, then run the same command again"
    if error.errno == errno.EISDIR:
        advice = "move the folder away that stands there in place of a file, then run the same command again"
    return LabError(
        wanted=f"to write under {place}",
        found=f"{error.strerror or error}" + (f" ({error.filename})" if error.filename else ""),
        next=advice,
        where=str(place),
    )


def _acquire(handle: int, path: Path, say: Callable[[str], None], wait_s: float) -> None:
    started = reminded = time.monotonic()
    first = True
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            pass
        except OSError as error:
            if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL):
                say("this file system knows no locks: do not run two installers at once")
                return
            raise unwritable(path.parent, error) from error
        now = time.monotonic()
        if now - started >= wait_s:
            raise LabError(
                wanted=f"the environment to itself (waited {wait_s:g} s)",
                found=f"{holder(path)} holds it",
                next="let it finish, or stop it, then run the same command again",
                where=str(path),
            )
        if first or now - reminded >= REMIND_S:
            say(f"waiting for {holder(path)}")
            first, reminded = False, now
        time.sleep(POLL_S)
