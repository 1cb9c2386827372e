"""What a launch starts dies with it: however the member ends, however its parent does, wherever a descendant went."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import process_family as family
import pytest
import terminal

from experiments.evidence.vocabulary import JsonValue
from experiments.harness import process_group
from experiments.harness.launch.process import run_forked
from experiments.harness.process_group import ProcessGroup

pytestmark = [
    pytest.mark.race,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux finds a descendant that left its group"),
]


def return_at_once() -> int:
    return 3


def leave_without_a_word() -> int:
    os._exit(4)


def raise_an_error() -> int:
    raise ValueError("no such rank")


def die_by_a_signal() -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


ENDINGS = [(return_at_once, 3), (leave_without_a_word, 4), (raise_an_error, 1), (die_by_a_signal, -9)]


@pytest.mark.parametrize(("ending", "code"), ENDINGS)
def test_however_a_member_ends_it_leaves_nobody(ending: Callable[[], int], code: int, tmp_path: Path) -> None:
    def body() -> int:
        family.start(tmp_path)
        return ending()

    with ProcessGroup() as group:
        assert group.wait(group.start(body)) == code
        assert family.living(family.pids(tmp_path)) == []


def test_a_member_that_is_killed_from_outside_leaves_nobody(tmp_path: Path) -> None:
    with ProcessGroup() as group:
        member = group.start(partial(family.live_on, tmp_path))
        found = family.pids(tmp_path)
        assert set(family.living(found)) == set(family.NAMES)
        os.kill(member.pid, signal.SIGKILL)
        assert group.wait(member) == -signal.SIGKILL
        assert family.living(found) == []


def test_one_end_for_all_members(tmp_path: Path) -> None:
    folders = [tmp_path / str(rank) for rank in range(3)]
    with ProcessGroup() as group:
        for folder in folders:
            folder.mkdir()
            group.start(partial(family.live_on, folder))
        found = [family.pids(folder) for folder in folders]
        group.end()
        assert [family.living(one) for one in found] == [[], [], []]


def test_an_error_in_the_block_ends_the_members(tmp_path: Path) -> None:
    def launch() -> None:
        with ProcessGroup() as group:
            group.start(partial(family.live_on, tmp_path))
            family.pids(tmp_path)
            raise RuntimeError("a rank has died")

    with pytest.raises(RuntimeError, match="a rank has died"):
        launch()
    assert family.living(family.pids(tmp_path)) == []


def test_a_time_limit_ends_the_whole_family(tmp_path: Path) -> None:
    def job(enter: object) -> dict[str, JsonValue]:
        return {"code": family.live_on(folder)}

    for limit_s in (1, 8, 64):  # the first does on any usual day; the family has to be up by then for the test to count
        folder = tmp_path / str(limit_s)
        folder.mkdir()
        outcome = run_forked(job, time_limit_s=limit_s)
        assert outcome.died is not None
        assert outcome.died.kind == "TimeLimit"
        if {path.name for path in folder.iterdir()} >= set(family.NAMES):
            break
    assert family.living(family.pids(folder)) == []


def test_a_killed_child_is_noticed_though_its_own_child_holds_the_pipe(tmp_path: Path) -> None:
    """A forked child inherits the pipe: its end never comes while one of them lives."""

    def job(enter: object) -> dict[str, JsonValue]:
        family.start(tmp_path)
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    outcome = run_forked(job, time_limit_s=family.LIFE_S)
    assert outcome.died is not None
    assert outcome.died.kind == "Killed"
    assert family.living(family.pids(tmp_path)) == []


def test_ctrl_c_at_a_terminal_reaches_the_parent_which_ends_them_all(tmp_path: Path) -> None:
    with terminal.pair() as (ours, theirs):
        parent = family.launcher(tmp_path, "terminal", terminal=theirs)
        found = family.pids(tmp_path)
        os.write(ours, b"\x03")
        assert parent.wait(60) == 130  # it looked for itself: nobody was left when the interrupt came up
    assert family.living(found) == []


@pytest.mark.parametrize("words", [(), ("fork_beside",)], ids=["alone", "beside a fork that lives on"])
@pytest.mark.parametrize("whole_group", [False, True], ids=["parent", "its whole group"])
def test_a_killed_parent_leaves_nobody(words: tuple[str, ...], whole_group: bool, tmp_path: Path) -> None:
    parent = family.launcher(tmp_path, *words)
    found = family.pids(tmp_path)
    (os.killpg if whole_group else os.kill)(parent.pid, signal.SIGKILL)
    parent.wait()
    try:
        assert family.end_up(found) == []
    finally:
        if words:
            os.kill(int((tmp_path / "beside").read_text()), signal.SIGKILL)


def test_a_member_may_execute_another_program_and_is_ended_like_any_other(tmp_path: Path) -> None:
    script = f"import process_family; process_family.start(__import__('pathlib').Path({str(tmp_path)!r})); input()"
    command = [sys.executable, "-c", script]
    os_path = {**os.environ, "PYTHONPATH": str(Path(family.__file__).parent)}
    with ProcessGroup() as group:
        group.start(lambda: os.execve(command[0], command, os_path))
        found = family.pids(tmp_path)
        group.end()
        assert family.living(found) == []


def test_a_member_may_open_a_group_of_its_own(tmp_path: Path) -> None:
    def outer() -> int:
        with ProcessGroup() as inner:
            inner.start(partial(family.live_on, tmp_path))
            found = family.pids(tmp_path)
            os._exit(0 if family.living(found) else 1)  # and leaves without closing it

    with ProcessGroup() as group:
        assert group.wait(group.start(outer)) == 0
        assert family.living(family.pids(tmp_path)) == []


def test_other_children_of_the_parent_are_left_alone() -> None:
    sleeper = [sys.executable, "-c", "print(1, flush=True); input()"]
    before = subprocess.Popen(sleeper, stdin=-1, stdout=-1, start_new_session=True)
    with ProcessGroup() as group:
        beside = subprocess.Popen(sleeper, stdin=-1, stdout=-1)
        assert group.wait(group.start(die_by_a_signal)) == -signal.SIGKILL
        for child in (before, beside):
            assert child.communicate(b"\n") == (b"1\n", None)
            assert child.returncode == 0


def test_members_of_two_open_groups_do_not_end_each_other() -> None:
    with ProcessGroup() as first, ProcessGroup() as second:
        ready, go = os.pipe()
        waiting = first.start(lambda: len(os.read(ready, 1)))
        assert second.wait(second.start(return_at_once)) == 3
        os.write(go, b"x")
        assert first.wait(waiting) == 1
        os.close(ready)
        os.close(go)


def test_orphans_are_adopted_only_while_a_group_is_open() -> None:
    assert not process_group._adopts_orphans()
    with ProcessGroup():
        with ProcessGroup():
            assert process_group._adopts_orphans()
        assert process_group._adopts_orphans()
    assert not process_group._adopts_orphans()


def test_where_the_watcher_was_killed_the_next_launch_starts_another() -> None:
    with ProcessGroup() as group:
        assert group.wait(group.start(return_at_once)) == 3
        first = process_group._WATCHERS[0].process
        first.kill()
        first.wait()
        member = group.start(return_at_once)
        second = process_group._WATCHERS[0].process
        assert second.pid != first.pid
        assert group.wait(member) == 3
        assert second.poll() is None  # and it was not taken for an orphan


def test_the_watcher_goes_with_a_parent_that_ends_by_itself(tmp_path: Path) -> None:
    program = (
        "from experiments.harness import process_group\n"
        "from experiments.harness.launch.process import run_forked\n"
        "run_forked(lambda enter: {}, time_limit_s=60)\n"
        "print(process_group._WATCHERS[0].process.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=family.ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not family.alive(int(done.stdout))


def test_a_member_has_the_plain_meaning_of_an_interrupt() -> None:
    """It is in nobody's foreground group; a server below it is ended politely by SIGINT."""
    with ProcessGroup() as group:
        ready, up = os.pipe()

        def body() -> int:
            os.write(up, b"x")
            time.sleep(family.LIFE_S)
            return 0

        member = group.start(body)
        assert os.read(ready, 1) == b"x"
        assert os.getsid(member.pid) == member.pid
        os.kill(member.pid, signal.SIGINT)
        assert group.wait(member) == -signal.SIGINT
        os.close(ready)
        os.close(up)
