"""The journal: whole lines only, a torn last one tolerated, damage named, one writer, a full disk said."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stages import count

from experiments.harness import journal
from experiments.harness.journal import Journal
from experiments.harness.launch.outcome import Outcome
from tools.environments.errors import LabError

OK = Outcome(status="ok", result={"loss": 1.0}, died=None, wall_s=0.1)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "label" / journal.NAME


def begin(path: Path) -> Journal:
    path.parent.mkdir(exist_ok=True)
    return Journal.create(path, {"format": 1})


def test_what_was_finished_is_read_back(path: Path) -> None:
    with begin(path) as book:
        book.finished("gate / fp32", OK, 0.5)
        book.finished("measure / fp32 / round 0", OK, 1.5)
    story = journal.read(path)
    assert list(story.finished) == ["gate / fp32", "measure / fp32 / round 0"]
    assert story.finished["gate / fp32"].result == {"loss": 1.0}
    assert (story.resumed, story.elapsed_s, story.complete) == (0, 1.5, False)
    assert list(path.parent.iterdir()) == [path]  # no draft is left


def test_a_second_sitting_adds_up(path: Path) -> None:
    with begin(path) as book:
        book.finished("a", OK, 2.0)
    book, story = Journal.resume(path)
    with book:
        assert story.elapsed_s == 2.0
        book.finished("b", OK, 3.0)
        book.completed("record.json")
    story = journal.read(path)
    assert (story.resumed, story.elapsed_s, story.complete) == (1, 5.0, True)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_torn_last_line_is_left_out_and_cut_off(path: Path, cut: int) -> None:
    with begin(path) as book:
        book.finished("a", OK, 1.0)
        book.finished("b", OK, 2.0)
    content = path.read_bytes()
    path.write_bytes(content[:-cut])
    assert list(journal.read(path).finished) == ["a"]
    book, _ = Journal.resume(path)
    with book:
        book.finished("b", OK, 1.0)
    assert list(journal.read(path).finished) == ["a", "b"]


def test_damage_in_the_middle_is_named_by_its_line(path: Path) -> None:
    with begin(path) as book:
        book.finished("a", OK, 1.0)
        book.finished("b", OK, 2.0)
    lines = path.read_bytes().split(b"\n")
    lines[1] = lines[1][:20]
    path.write_bytes(b"\n".join(lines))
    with pytest.raises(LabError, match="line 2 is not one of its lines"):
        journal.read(path)


@settings(max_examples=count(150), deadline=None)
@given(st.one_of(st.binary(max_size=300), st.recursive(st.none() | st.floats() | st.text(max_size=5), st.lists)))
def test_any_bytes_are_a_story_or_a_finding(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    path = tmp_path_factory.mktemp("any") / journal.NAME
    data = value if isinstance(value, bytes) else json.dumps({"task": "t", "outcome": value}).encode() + b"\n"
    path.write_bytes(b'{"plan": {"format": 1}}\n' + data)
    with contextlib.suppress(LabError):  # nothing else may come out
        assert journal.read(path).plan == {"format": 1}


def test_two_writers_the_second_is_told(path: Path) -> None:
    with begin(path), pytest.raises(LabError, match="another process is writing"):
        Journal.resume(path)
    Journal.resume(path)[0].close()  # the first has gone


def test_a_journal_is_never_begun_twice(path: Path) -> None:
    begin(path).close()
    with pytest.raises(LabError, match=r"(?s)a run label that no other run has.*another run has just taken"):
        begin(path)


def test_a_full_disk_leaves_whole_lines_and_says_how_to_go_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with begin(path) as book:
        book.finished("a", OK, 1.0)
        write = os.write

        def half(descriptor: int, data: bytes) -> int:
            return write(descriptor, data[: len(data) // 2])

        monkeypatch.setattr(os, "write", half)
        with pytest.raises(LabError, match="the disk is full") as caught:
            book.finished("b", OK, 2.0)
        monkeypatch.undo()
    assert "--resume label" in caught.value.next
    assert list(journal.read(path).finished) == ["a"]
    assert path.read_bytes().endswith(b"\n")


def test_a_folder_that_cannot_be_written_is_a_finding(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path.parent.mkdir()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(LabError, match="Permission denied"):
        Journal.create(path, {})
