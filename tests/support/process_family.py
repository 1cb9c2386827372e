"""A family of processes of the kinds that outlive a careless launcher: below, beside and away from who started them.

`start` runs inside a measured process; each of the family writes its pid into a folder when it is there, and lives on
until it is ended. Also run as a program that launches a family and waits: `python process_family.py FOLDER`.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIFE_S = 300  # of one that nobody ends, so that a failing test leaves nothing for ever
NAMES = ("member", "child", "grandchild", "great_grandchild", "daemon", "below_the_daemon", "stubborn", "program")


def start(folder: Path) -> None:
    """Start everybody, and return once all have said that they are there."""
    _say(folder, "member", os.getpid())
    _fork(lambda: _stay(folder, "child"))
    _fork(lambda: _fork(lambda: _away(folder, "grandchild"), wait=True))
    _fork(lambda: _fork(lambda: _fork(lambda: _away(folder, "great_grandchild"), wait=True), wait=True))
    _daemon(folder)
    _fork(lambda: _stubborn(folder))
    program = subprocess.Popen(["sleep", str(LIFE_S)], start_new_session=True)
    program.returncode = 0  # nobody waits for it
    _say(folder, "program", program.pid)
    pids(folder)


def live_on(folder: Path) -> int:
    """Start everybody and stay."""
    start(folder)
    time.sleep(LIFE_S)
    return 0


def pids(folder: Path) -> dict[str, int]:
    """Name -> pid of the whole family, waited for."""
    deadline = time.monotonic() + 120
    while not all((folder / name).exists() for name in NAMES):
        assert time.monotonic() < deadline, "the family did not come up"
        time.sleep(0.005)
    return {name: int((folder / name).read_text()) for name in NAMES}


def living(found: dict[str, int]) -> list[str]:
    """Who of them is still there; a zombie is dead."""
    return [name for name, pid in found.items() if alive(pid)]


def alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def end_up(found: dict[str, int]) -> list[str]:
    """Who is still there after a wait that ends as soon as nobody is."""
    deadline = time.monotonic() + 60
    while (left := living(found)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def launcher(folder: Path, *words: str, terminal: int | None = None) -> subprocess.Popen[bytes]:
    """The program below in a session of its own, with `terminal` as its controlling one."""
    quiet = subprocess.DEVNULL if terminal is None else terminal
    return subprocess.Popen(
        [sys.executable, __file__, str(folder), *words],
        stdin=quiet,
        stdout=quiet,
        stderr=quiet,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def _main(folder: Path, words: Sequence[str]) -> int:
    from experiments.harness.launch.process import run_forked

    if "terminal" in words:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if "fork_beside" in words:  # as a library may: it holds what its parent had open when it was forked
        run_forked(lambda enter: {}, time_limit_s=LIFE_S)
        _fork(lambda: _away(folder, "beside"))
    try:
        run_forked(lambda enter: {"code": live_on(folder)}, time_limit_s=LIFE_S)
    except KeyboardInterrupt:
        return 130 if not living(pids(folder)) else 1
    return 2


def _say(folder: Path, name: str, pid: int) -> None:
    part = folder / f"{name}.part"
    part.write_text(str(pid))
    part.rename(folder / name)


def _stay(folder: Path, name: str) -> None:
    _say(folder, name, os.getpid())
    time.sleep(LIFE_S)


def _away(folder: Path, name: str) -> None:
    os.setsid()
    _stay(folder, name)


def _daemon(folder: Path) -> None:
    """The classic one: forked twice, in a session of its own, its parent gone; and a child of it that went on."""

    def between() -> None:
        os.setsid()
        _fork(lambda: (_fork(lambda: _away(folder, "below_the_daemon")), _stay(folder, "daemon")))

    os.waitpid(_fork(between), 0)


def _stubborn(folder: Path) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _stay(folder, "stubborn")


def _fork(body: Callable[[], object], *, wait: bool = False) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            body()
        finally:
            os._exit(0)
    if wait:
        os.waitpid(pid, 0)
    return pid


if __name__ == "__main__":
    sys.exit(_main(Path(sys.argv[1]), sys.argv[2:]))
