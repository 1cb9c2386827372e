"""Ranks of one task: they meet, answer together, and whichever way one goes, all go, and it is named."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from experiments.evidence.vocabulary import JsonValue
from experiments.harness.launch import doors
from experiments.harness.launch.outcome import EnterPhase, Outcome, Work
from experiments.harness.launch.ranks import Seat, run_ranks
from experiments.harness.launch.rendezvous import joined
from experiments.harness.process_watch import look

ROOT = Path(__file__).resolve().parents[3]
SHORT_S = 1.0  # a rank that hangs is waited for no longer


def start(work: Work, rank: int | None = None, other: Work | None = None, **limits: float) -> Outcome:
    """Two ranks with the same work, or `other` for the rank named."""
    given = {"time_limit_s": 60.0, **limits}
    return run_ranks(lambda seat: other if other is not None and seat.rank == rank else work, ranks=2, **given)


def answer(enter: EnterPhase) -> Mapping[str, JsonValue]:
    return {"pid": os.getpid()}


def stay(enter: EnterPhase) -> Mapping[str, JsonValue]:
    enter("backward")
    while True:
        time.sleep(60)


def gone(pid: int) -> bool:
    seen = look(pid)
    return seen is None or not seen.alive


def summed(seat: Seat) -> Work:
    """An exact sum of integers that each rank has of its own, over gloo."""

    def work(enter: EnterPhase) -> Mapping[str, JsonValue]:
        with joined(seat, "cpu"):
            enter("forward")
            values = torch.arange(4, dtype=torch.int64) * 10**seat.rank
            dist.all_reduce(values)
            return {"rank": seat.rank, "sum": values.tolist()}

    return work


@pytest.mark.race
def test_ranks_meet_and_every_answer_is_kept(repetition: int) -> None:
    outcome = run_ranks(summed, ranks=3, time_limit_s=60)
    assert outcome.died is None
    assert outcome.result == {"rank": 0, "sum": [0, 111, 222, 333]}
    assert outcome.others == ({"rank": 1, "sum": [0, 111, 222, 333]}, {"rank": 2, "sum": [0, 111, 222, 333]})
    assert Outcome.from_json(outcome.to_json()).others == outcome.others


def test_they_talk_over_loopback_alone() -> None:
    """Every address a rank listens on or is connected to, as the kernel tells it."""

    def looked(seat: Seat) -> Work:
        def work(enter: EnterPhase) -> Mapping[str, JsonValue]:
            with joined(seat, "cpu"):
                dist.all_reduce(torch.ones(1))
                return {"addresses": sorted(_addresses())}

        return work

    outcome = run_ranks(looked, ranks=2, time_limit_s=60)
    assert outcome.result is not None, outcome.died
    addresses = outcome.result["addresses"]
    assert addresses
    assert set(addresses) <= {"0100007F", "00000000000000000000000001000000"}  # type: ignore[arg-type]


def _addresses() -> set[str]:
    """Local addresses of this process's own TCP sockets, in the kernel's hexadecimal."""
    own = {os.readlink(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd") if _is_link(name)}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in own:
                found.add(fields[1].partition(":")[0])
    return found


def _is_link(name: str) -> bool:
    return os.path.islink(f"/proc/self/fd/{name}")


def test_a_rank_that_raises_is_named_with_its_phase_and_error() -> None:
    def broken(enter: EnterPhase) -> Mapping[str, JsonValue]:
        enter("optimizer")
        raise ValueError("a shard too many")

    outcome = start(stay, 1, broken)
    assert outcome.status == "failed"
    assert outcome.died is not None
    assert (outcome.died.phase, outcome.died.kind) == ("optimizer", "ValueError")
    assert outcome.died.message == "rank 1: a shard too many"


def test_a_rank_out_of_memory_is_the_candidates_out_of_memory() -> None:
    def starved(enter: EnterPhase) -> Mapping[str, JsonValue]:
        raise MemoryError

    outcome = start(stay, 0, starved)
    assert outcome.status == "oom"
    assert outcome.died is not None
    assert outcome.died.message.startswith("rank 0: ")


@pytest.mark.race
def test_a_rank_that_aborts_is_named_and_not_the_one_that_complains_of_it(repetition: int) -> None:
    def work(seat: Seat) -> Work:
        def run(enter: EnterPhase) -> Mapping[str, JsonValue]:
            if seat.rank == 1:
                os.abort()
            time.sleep(0.05)  # within the time in which another may be heard that came first
            raise RuntimeError("Connection reset by peer")

        return run

    outcome = run_ranks(work, ranks=2, time_limit_s=60)
    assert outcome.died is not None
    assert outcome.died.message.startswith("rank 1: ended by SIGABRT")


@pytest.mark.race
def test_a_rank_that_is_killed_in_a_collective_is_named_and_not_the_one_that_misses_it(repetition: int) -> None:
    def work(seat: Seat) -> Work:
        def run(enter: EnterPhase) -> Mapping[str, JsonValue]:
            with joined(seat, "cpu"):
                enter("backward")
                if seat.rank == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
                dist.all_reduce(torch.ones(1))
                return {}

        return run

    outcome = run_ranks(work, ranks=2, time_limit_s=60)
    assert outcome.died is not None
    assert (outcome.died.phase, outcome.died.kind) == ("backward", "Killed")
    assert outcome.died.message.startswith("rank 1: ended by SIGKILL")


@pytest.mark.race
def test_a_rank_that_hangs_ends_with_the_others_within_the_limit(repetition: int) -> None:
    outcome = start(answer, 1, stay, rank_limit_s=SHORT_S)
    assert outcome.died is not None
    assert (outcome.died.phase, outcome.died.kind) == ("backward", "TimeLimit")
    assert outcome.died.message == "rank 1: no word within 0.5 s after the end of rank 0; the ranks were ended"


def test_a_rank_that_never_comes_is_named_and_not_the_one_that_waited_for_it() -> None:
    def work(seat: Seat) -> Work:
        def run(enter: EnterPhase) -> Mapping[str, JsonValue]:
            if seat.rank == 0:
                return stay(enter)
            with joined(seat, "cpu"):
                return {}

        return run

    outcome = run_ranks(work, ranks=2, time_limit_s=60, rank_limit_s=SHORT_S)
    assert outcome.died is not None
    assert outcome.died.message.startswith("rank 0: no word within ")


def test_ranks_that_all_hang_end_at_the_limit_of_the_task() -> None:
    outcome = start(stay, time_limit_s=0.5)
    assert outcome.died is not None
    assert outcome.died.kind == "TimeLimit"
    assert outcome.died.message == "rank 0: no result within 0.5 s; the process was ended"


def test_nobody_is_left_when_one_has_died(tmp_path: Path) -> None:
    def write(seat: Seat) -> Work:
        def run(enter: EnterPhase) -> Mapping[str, JsonValue]:
            (tmp_path / str(seat.rank)).write_text(str(os.getpid()))
            return stay(enter) if seat.rank == 0 else _die_when(tmp_path / "0")

        return run

    outcome = run_ranks(write, ranks=2, time_limit_s=60)
    assert outcome.died is not None
    pids = [int((tmp_path / name).read_text()) for name in ("0", "1")]
    assert all(gone(pid) for pid in pids)


def _die_when(other: Path) -> Mapping[str, JsonValue]:
    while not (other.exists() and other.read_text()):
        time.sleep(0.01)
    os._exit(3)


@pytest.mark.race
@pytest.mark.skipif(sys.platform != "linux", reason="the watcher of a killed parent needs /proc")
def test_a_killed_parent_leaves_no_rank(tmp_path: Path, repetition: int) -> None:
    program = (
        "import os, sys, time\nfrom pathlib import Path\n"
        "from experiments.harness.launch.ranks import run_ranks\n"
        "def work(seat):\n"
        "    def run(enter):\n"
        "        Path(sys.argv[1], str(seat.rank)).write_text(str(os.getpid()))\n"
        "        time.sleep(300)\n"
        "    return run\n"
        "run_ranks(work, ranks=2, time_limit_s=300)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT)
    try:
        files = [tmp_path / name for name in ("0", "1")]
        _until(lambda: all(file.exists() and file.read_text() for file in files))
    finally:
        parent.kill()
        parent.wait()
    pids = [int(file.read_text()) for file in files]
    _until(lambda: all(gone(pid) for pid in pids))


def _until(condition: object, limit_s: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.01)


def test_a_server_has_its_place_and_no_door_yet() -> None:
    from experiments.evidence.record import Launch
    from tools.environments.errors import LabError

    for launch in (Launch(type="server"), Launch(type="ranks", ranks=1), Launch(type="process", ranks=2)):
        with pytest.raises(LabError) as refused:
            doors.refuse_unknown(launch)
        assert refused.value.wanted
        assert refused.value.next
