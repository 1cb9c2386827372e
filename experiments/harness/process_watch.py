"""What ends a launch whose parent was killed: a small process of its own, and how it finds everything to be ended.

A killed parent ends nobody, and Linux's parent-death signal reaches one process, whose own children live on. So the
parent keeps this program beside itself, writes down here whom it started, and holds the other end of standard input:
once that closes, whoever is still listed is ended with all that descends from it.

Each listed process adopts its orphans (PR_SET_CHILD_SUBREAPER), so as long as it is there its whole tree hangs below
it, in whatever session or group a descendant has put itself. It is stopped first, its descendants are killed, and it
goes last. Runs as a file under any Python 3.11, without site-packages: it imports the standard library alone.
"""

from __future__ import annotations

import os
import signal
import time

TYPE_CHECKING = False  # importing typing, or dataclasses, would double the time until this program watches
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OVER = ("Z", "X")  # a zombie is dead: only its parent has not asked for it yet
SETTLE_S = 0.002
BLOCK = 4096


class SeenMember:
    """One process as /proc tells it."""

    __slots__ = ("alive", "parent", "session")

    def __init__(self, parent: int, session: int, alive: bool) -> None:
        self.parent, self.session, self.alive = parent, session, alive


def look(pid: int) -> SeenMember | None:
    """One process; None where it is gone, or where there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent, _, session = file.read().rpartition(b")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return SeenMember(parent=int(parent), session=int(session), alive=state.decode() not in OVER)


def everyone() -> dict[int, SeenMember]:
    """Every process that can be seen; empty where there is no /proc."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    looked = {int(name): look(int(name)) for name in names if name.isdecimal()}
    return {pid: seen for pid, seen in looked.items() if seen is not None}


def below(root: int, processes: Mapping[int, SeenMember]) -> list[int]:
    """The living descendants of `root`, and whoever is left of the session it leads; without itself."""
    children: dict[int, list[int]] = {}
    for pid, seen in processes.items():
        children.setdefault(seen.parent, []).append(pid)
    found: set[int] = {pid for pid, seen in processes.items() if seen.session == root}
    rest = [root, *found]
    while rest:
        for pid in children.get(rest.pop(), ()):
            if pid not in found:
                found.add(pid)
                rest.append(pid)
    return sorted(pid for pid in found - {root} if processes[pid].alive)


def end(root: int) -> None:
    """Kill `root`, the leader of a session, and everything that descends from it."""
    send(root, signal.SIGSTOP)  # who is stopped starts nobody else
    quiet = 0
    while quiet < 2:  # one that forked and went while we looked is found at the second look
        found = below(root, everyone())
        quiet = 0 if found else quiet + 1
        killed = [send(pid, signal.SIGKILL) for pid in found]
        if found and not any(killed):
            break  # another user's: not ours to end
        time.sleep(SETTLE_S)
    send(-root, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> bool:
    """Send a signal to a process, or with a negative number to a group; False where it is gone or not ours."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def listed(words: Iterable[bytes], members: set[int]) -> None:
    """Take `+PID` (started) and `-PID` (over) into the list."""
    for word in words:
        pid = int(word[1:])
        if word[:1] == b"+":
            members.add(pid)
        else:
            members.discard(pid)


def watch(line: int = 0) -> None:
    """Keep the list until the parent is gone, then end whoever is on it."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends with its parent, never before
    members: set[int] = set()
    buffer = b""
    while block := os.read(line, BLOCK):
        *words, buffer = (buffer + block).split(b"\n")
        listed(words, members)
    for member in sorted(members):
        end(member)


if __name__ == "__main__":
    watch()
