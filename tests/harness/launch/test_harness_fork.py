"""Forked tasks: results, failures, kills, hangs, memory, and that nothing of one child reaches the next."""

from __future__ import annotations

import errno
import faulthandler
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from experiments.evidence.vocabulary import JsonValue, Phase
from experiments.harness.launch.outcome import Outcome
from experiments.harness.launch.process import run_forked

Enter = Callable[[Phase], None]
ROOT = Path(__file__).resolve().parents[3]


def run(job: Callable[[Enter], Mapping[str, JsonValue]], limit_s: float = 30.0) -> Outcome:
    return run_forked(job, time_limit_s=limit_s)


def test_a_result_comes_back_as_json_values() -> None:
    outcome = run(lambda enter: {"loss": 1.5, "missing": None, "names": ["a"]})
    assert outcome.status == "ok"
    assert outcome.result == {"loss": 1.5, "missing": None, "names": ["a"]}
    assert outcome.died is None
    assert Outcome.from_json(json.loads(json.dumps(outcome.to_json()))).result == outcome.result


def test_a_large_result_does_not_block_the_pipe() -> None:
    outcome = run(lambda enter: {"values": [0.5] * 200_000})
    assert outcome.result is not None
    assert len(outcome.result["values"]) == 200_000  # type: ignore[arg-type]


def test_an_exception_is_a_failure_with_phase_class_and_message() -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        enter("backward")
        raise ValueError("first line\nsecond\nthird\nfourth")

    outcome = run(job)
    assert outcome.status == "failed"
    assert outcome.died is not None
    assert (outcome.died.phase, outcome.died.kind) == ("backward", "ValueError")
    assert outcome.died.message == "first line\nsecond\nthird"


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"),
        type("OutOfMemoryError", (RuntimeError,), {})("no room"),
    ],
)
def test_every_kind_of_out_of_memory_is_one_status(error: Exception) -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        enter("loss_head")
        raise error

    outcome = run(job)
    assert outcome.status == "oom"
    assert outcome.died is not None
    assert outcome.died.phase == "loss_head"


@pytest.mark.race
def test_a_killed_child_is_a_failure_that_says_so() -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        enter("forward")
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    outcome = run(job)
    assert outcome.died is not None
    assert (outcome.status, outcome.died.phase, outcome.died.kind) == ("failed", "forward", "Killed")
    assert "out-of-memory killer" in outcome.died.message


def test_a_crash_keeps_its_last_words() -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        faulthandler.disable()  # the test runner's own would print its stack
        os.write(2, b"terminate called: bad luck\n")
        os.abort()

    outcome = run(job)
    assert outcome.died is not None
    assert "SIGABRT" in outcome.died.message
    assert "bad luck" in outcome.died.message


def test_an_exit_without_a_result_is_no_success() -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        os._exit(0)

    outcome = run(job)
    assert outcome.status == "failed"
    assert outcome.died is not None
    assert outcome.died.kind == "Exited"


def test_a_hung_child_is_ended_at_its_limit() -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        enter("transfer")
        time.sleep(3600)
        return {}

    outcome = run(job, limit_s=0.3)
    assert outcome.died is not None
    assert (outcome.died.kind, outcome.died.phase) == ("TimeLimit", "transfer")


def test_a_number_that_is_no_number_is_a_failure_and_never_zero() -> None:
    outcome = run(lambda enter: {"step_ms": float("nan")})
    assert outcome.status == "failed"
    assert outcome.result is None
    assert outcome.died is not None
    assert outcome.died.kind == "ValueError"


def test_a_full_disk_is_told_apart_from_a_failure_of_the_candidate() -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    outcome = run(job)
    assert outcome.died is not None
    assert outcome.died.kind == "DiskFull"


def test_a_lost_card_is_named() -> None:
    def job(enter: Enter) -> Mapping[str, JsonValue]:
        raise RuntimeError("CUDA error: unspecified launch failure")

    outcome = run(job)
    assert outcome.died is not None
    assert outcome.died.kind == "DeviceLost"


_ARMED: list[int] = []


@pytest.mark.race
def test_a_ctrl_c_during_the_fork_is_not_swallowed() -> None:
    """Python runs its own callbacks around a fork and ignores what they raise: the handler must not run in there.

    A second thread stands by to take the signal, should the first block it.
    """
    done = threading.Event()
    threading.Thread(target=done.wait, daemon=True).start()

    def interrupt() -> None:
        if _ARMED:
            os.kill(os.getpid(), _ARMED.pop())
            time.sleep(0.05)

    os.register_at_fork(before=interrupt)
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        _ARMED.append(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            run(lambda enter: {})
    finally:
        done.set()
        signal.signal(signal.SIGINT, previous)
    assert run(lambda enter: {"after": 1}).result == {"after": 1}


_LEFT_BEHIND: list[bytes] = []


def test_what_one_child_does_never_reaches_the_next() -> None:
    """Order cannot matter: a cache filled or a slowdown caused by an earlier case is gone with its process."""

    def job(enter: Enter) -> Mapping[str, JsonValue]:
        _LEFT_BEHIND.append(b"x")
        return {"seen": len(_LEFT_BEHIND)}

    assert [run(job).result for _ in range(3)] == [{"seen": 1}] * 3
    assert _LEFT_BEHIND == []


def test_after_an_out_of_memory_the_next_task_has_all_the_memory_again() -> None:
    """A retry inside `except` fails because the traceback holds the tensors; here what held them is gone."""
    mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limit = mapped + 2**31  # beside what this process has mapped already, threads and libraries included
    size = 2**30 + 2**29

    def fill(enter: Enter) -> Mapping[str, JsonValue]:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        held = [bytearray(size), bytearray(size)]  # the second does not fit beside the first
        return {"bytes": sum(map(len, held))}

    def one(enter: Enter) -> Mapping[str, JsonValue]:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        return {"bytes": len(bytearray(size))}

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert run(fill).status == "oom"
    assert run(one).result == {"bytes": size}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB: the parent held nothing


@pytest.mark.race
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_a_killed_parent_leaves_no_child_behind(tmp_path: Path) -> None:
    program = (
        "import os, time\n"
        "from pathlib import Path\n"
        "from experiments.harness.launch.process import run_forked\n"
        "def job(enter):\n"
        f"    Path({str(tmp_path / 'child')!r}).write_text(str(os.getpid()))\n"
        "    time.sleep(60)\n"
        "    return {}\n"
        "run_forked(job, time_limit_s=60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    deadline = time.monotonic() + 30
    while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    child = int((tmp_path / "child").read_text())
    parent.kill()
    parent.wait()
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.01)
    pytest.fail("the child lives on")
