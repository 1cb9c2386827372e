"""A call in a fork of its own: its answer, its LabError, its death, and that leaving it behind ends it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import NoReturn

import pytest

from experiments.cli.aside import Aside
from tools.environments.errors import EXIT_USAGE, LabError


def test_the_answer_comes_from_another_process() -> None:
    with Aside(os.getpid) as begun:
        assert begun.result() not in (0, os.getpid())


def test_a_lab_error_crosses_whole() -> None:
    def refuse() -> NoReturn:
        raise LabError("w", "f", "n", where="--accept", code=EXIT_USAGE)

    with Aside(refuse) as begun, pytest.raises(LabError) as refused:
        begun.result()
    assert (refused.value.wanted, refused.value.where, refused.value.code) == ("w", "--accept", EXIT_USAGE)


def test_one_that_dies_is_said() -> None:
    with Aside(lambda: os.kill(os.getpid(), signal.SIGKILL)) as begun, pytest.raises(LabError, match="ended with -9"):
        begun.result()


def test_what_is_left_behind_is_interrupted_and_cleans_up(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    begun, cleaned = tmp_path / "begun", tmp_path / "cleaned"

    def wait() -> None:
        try:
            begun.touch()
            signal.pause()
        finally:
            cleaned.touch()

    with Aside(wait):
        while not begun.exists():
            time.sleep(0.005)
    assert cleaned.exists()
    assert capfd.readouterr().err == ""
