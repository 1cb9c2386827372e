"""The journal after an interruption: what counts as done, a torn last line, and damage that is a finding."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.environments.errors import LabError
from tools.environments.install.install_journal import InstallJournal, Progress

IDENTITY = {"profile": "TINY-CPU", "backend": "uv"}


@pytest.fixture
def journal(tmp_path: Path) -> InstallJournal:
    made = InstallJournal(tmp_path / "journal.jsonl")
    made.begin(IDENTITY)
    return made


def test_nothing_was_journalled(tmp_path: Path) -> None:
    assert InstallJournal(tmp_path / "journal.jsonl").read() is None


def test_what_was_done_and_what_was_running(journal: InstallJournal) -> None:
    journal.start("create")
    journal.done("create")
    journal.fact("torch", {"version": "2.13.0+cpu"})
    journal.start("torch")
    assert journal.read() == Progress(IDENTITY, {"torch": {"version": "2.13.0+cpu"}}, ("create",), "torch")


def test_a_step_done_twice_counts_once_and_undone_not_at_all(journal: InstallJournal) -> None:
    for step in ("torch", "tiny", "torch"):
        journal.start(step)
        journal.done(step)
    progress = journal.read()
    assert progress is not None
    assert progress.done == ("tiny", "torch")
    journal.undo(("torch",))
    progress = journal.read()
    assert progress is not None
    assert progress.done == ("tiny",)


def test_finished(journal: InstallJournal) -> None:
    journal.start("stamp")
    journal.done("stamp")
    journal.finish()
    progress = journal.read()
    assert progress is not None
    assert progress.finished
    assert progress.begun is None


def test_beginning_again_forgets(journal: InstallJournal) -> None:
    journal.start("create")
    journal.begin({"profile": "OTHER"})
    assert journal.read() == Progress({"profile": "OTHER"})


def test_a_last_line_cut_off_anywhere_was_not_finished(journal: InstallJournal) -> None:
    journal.start("create")
    whole = journal.path.read_bytes()
    journal.done("create")
    longer = journal.path.read_bytes()
    for size in range(len(whole), len(longer)):
        journal.path.write_bytes(longer[:size])
        progress = journal.read()
        assert progress is not None
        assert (progress.begun, progress.done) == ("create", ())
    journal.done("create")  # and the next line does not stick to the torn one
    progress = journal.read()
    assert progress is not None
    assert progress.done == ("create",)


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[]",
        b"3",
        b'"text"',
        b"{}",
        b'{"event":"unknown"}',
        b'{"event":"done"}',
        b'{"event":"undo","steps":3}',
        b'{"event":"begin","format":1,"identity":{}}',
        b"\xff\xff",
        b"[" * 5000,
    ],
)
def test_damage_in_the_middle_is_a_finding(journal: InstallJournal, line: bytes) -> None:
    journal.path.write_bytes(journal.path.read_bytes() + line + b"\n")
    journal.start("create")
    with pytest.raises(LabError) as caught:
        journal.read()
    assert "line 2 is damaged" in caught.value.found
    assert "--recreate" in caught.value.next


@pytest.mark.parametrize("first", [{"event": "begin", "format": 99, "identity": {}}, {"event": "start", "step": "x"}])
def test_another_format_is_a_finding(tmp_path: Path, first: dict[str, object]) -> None:
    path = tmp_path / "journal.jsonl"
    path.write_text(json.dumps(first) + "\n")
    with pytest.raises(LabError):
        InstallJournal(path).read()


@given(st.binary(max_size=300))
def test_no_content_makes_it_crash(content: bytes) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        path.write_bytes(content)
        with contextlib.suppress(LabError):  # a finding is an answer; anything else fails here
            InstallJournal(path).read()


def test_a_folder_that_refuses_is_a_finding(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    journal = InstallJournal(tmp_path / "file" / "journal.jsonl")
    for attempt in (lambda: journal.begin(IDENTITY), lambda: journal.start("x"), journal.read):
        with pytest.raises(LabError):
            attempt()


def test_a_line_that_only_half_fits_is_a_full_disk(journal: InstallJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: real(handle, data[: len(data) // 2]))
    with pytest.raises(LabError) as caught:
        journal.start("create")
    assert os.strerror(errno.ENOSPC) in caught.value.found
    monkeypatch.undo()
    assert journal.read() == Progress(IDENTITY)
