"""How the benchmarks measure: whole processes, pairs taken in turn within one run, medians.

A time alone says more about the machine than about the program. So a command is timed beside what a user would run
instead, both in each round and in alternating order, and the ratio of the medians is what is checked against a limit.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Argv = Sequence[str]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `value`, in `unit` ("x", "s", "GiB"), at most `limit`; None where there is none."""

    name: str
    value: float
    unit: str
    limit: float | None
    detail: str  # what it is compared with, and the medians behind a ratio

    @property
    def holds(self) -> bool:
        """Whether the limit is kept."""
        return self.limit is None or self.value <= self.limit


def seconds(argv: Argv, *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> float:
    """Wall time of one process, started and ended. A command that fails is no measurement: CalledProcessError."""
    begin = time.perf_counter()
    subprocess.run(argv, cwd=cwd, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def ratio(
    name: str,
    ours: Callable[[], float],
    theirs: Callable[[], float],
    *,
    against: str,
    limit: float | None,
    rounds: int = 9,
) -> Row:
    """Median of ours over median of theirs; a callable makes one measurement in seconds. The first round is dropped."""
    mine: list[float] = []
    other: list[float] = []
    for number in range(rounds + 1):
        order = ((ours, mine), (theirs, other)) if number % 2 else ((theirs, other), (ours, mine))
        for measure, kept in order:
            kept.append(measure())
    a, b = statistics.median(mine[1:]), statistics.median(other[1:])
    return Row(name, a / b, "x", limit, f"{a:.3f} s against {b:.3f} s of {against}, {rounds} pairs")


def duration(name: str, ours: Callable[[], float], *, limit: float | None, detail: str, rounds: int = 9) -> Row:
    """The median of ours, in seconds; the first round is dropped unless it is the only one."""
    taken = [ours() for _ in range(rounds + (rounds > 1))]
    value = statistics.median(taken[1:] if rounds > 1 else taken)
    return Row(name, value, "s", limit, f"{detail}, {rounds} runs" if rounds > 1 else detail)


def watched(argv: Argv, *, cwd: Path, env: Mapping[str, str], every_s: float = 0.1) -> tuple[float, float]:
    """(seconds, GiB): wall time of a command, and the highest memory its whole process tree held at one moment.

    Memory is the proportional set size, which counts shared pages once, sampled from /proc. Linux only. A command that
    fails is no measurement: CalledProcessError, whose `output` is all that it said.
    """
    peak = [0.0]
    ended = threading.Event()
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
        begin = time.perf_counter()
        child = subprocess.Popen(argv, cwd=cwd, env=env, stdout=said, stderr=subprocess.STDOUT)

        def sample() -> None:
            while not ended.wait(every_s):
                peak[0] = max(peak[0], sum(map(_proportional_gib, _tree(child.pid))))

        sampler = threading.Thread(target=sample, daemon=True)
        sampler.start()
        code = child.wait()
        taken = time.perf_counter() - begin
        ended.set()
        sampler.join()
        if code != 0:
            said.seek(0)
            raise subprocess.CalledProcessError(code, list(argv), said.read())
    return taken, peak[0]


def _tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    found = [pid]
    for parent in found:
        try:
            for task in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{task}/children").read_text()
                found += map(int, children.split())
        except OSError:
            continue  # it has ended meanwhile
    return found


def _proportional_gib(pid: int) -> float:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 2**20
    except OSError:
        pass  # it has ended meanwhile
    return 0.0
