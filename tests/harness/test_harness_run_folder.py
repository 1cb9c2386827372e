"""Folders of runs: free labels, used ones, what a killed beginning leaves, and what cannot be resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.harness import journal, run_folder
from experiments.harness.journal import Journal
from experiments.harness.launch.outcome import Outcome
from tools.environments.errors import LabError

NAME = "some_experiment"


@pytest.fixture(autouse=True)
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMLAB_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("TMLAB_RESULTS", str(tmp_path / "results"))
    return tmp_path / "runs" / NAME


def begin(runs: Path, label: str, tasks: int = 0) -> Path:
    folder = run_folder.claim(NAME, label)
    with Journal.create(folder / journal.NAME, {"format": 1}) as book:
        for number in range(tasks):
            book.finished(str(number), Outcome("ok", {}, None, 0.0), 1.0)
    return folder


def test_labels_of_one_day_follow_the_alphabet(runs: Path) -> None:
    first = run_folder.free_label(NAME)
    assert first.endswith("-a")
    begin(runs, first)
    assert run_folder.free_label(NAME).endswith("-b")
    for letter in "bcdefghijklmnopqrstuvwxyz":
        begin(runs, f"{first[:-1]}{letter}")
    assert run_folder.free_label(NAME).endswith("-aa")


def test_a_folder_that_a_refused_run_left_empty_burns_no_label(runs: Path) -> None:
    first = run_folder.free_label(NAME)
    folder = run_folder.claim(NAME, first)
    assert run_folder.free_label(NAME) == first
    (folder / f".{journal.NAME}.123").write_text("half a li")
    assert run_folder.free_label(NAME) == first
    (folder / "notes.txt").write_text("do not lose me")
    assert run_folder.free_label(NAME) != first


def test_a_beginning_that_was_killed_before_its_first_word_leaves_the_label_free(runs: Path) -> None:
    folder = run_folder.claim(NAME, "early")
    run_folder.refuse_used(NAME, "early")
    (folder / f".{journal.NAME}.123").write_text("half a li")
    run_folder.refuse_used(NAME, "early")
    begin(runs, "early")
    with pytest.raises(LabError, match="interrupted after 0 finished tasks"):
        run_folder.refuse_used(NAME, "early")


def test_a_folder_of_somebody_else_is_not_taken(runs: Path) -> None:
    folder = run_folder.claim(NAME, "mine")
    (folder / "notes.txt").write_text("do not lose me")
    with pytest.raises(LabError, match="no run of this version began"):
        run_folder.refuse_used(NAME, "mine")


def test_an_interrupted_run_can_be_resumed_and_a_finished_one_not(runs: Path) -> None:
    folder = begin(runs, "half", tasks=2)
    assert run_folder.to_resume(NAME, "half") == folder
    (folder / "record.json").write_text("{}")
    (folder / run_folder.SCRATCH).mkdir()
    with pytest.raises(LabError, match="half is finished"):
        run_folder.to_resume(NAME, "half")
    assert not (folder / run_folder.SCRATCH).exists()  # gigabytes of gradients a kill left behind


def test_a_label_that_was_never_begun_names_those_that_were(runs: Path) -> None:
    begin(runs, "one")
    with pytest.raises(LabError, match="no run labelled two; there are one"):
        run_folder.to_resume(NAME, "two")


def test_a_runs_folder_that_cannot_be_made_is_a_finding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TMLAB_RUNS", str(tmp_path / "file"))
    with pytest.raises(LabError, match="set TMLAB_RUNS to another folder"):
        run_folder.claim(NAME, "x")
