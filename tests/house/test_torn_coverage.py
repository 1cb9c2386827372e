"""Coverage data of the full stage: a file that a killed child left torn, beside whole ones and alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TEARS = {
    "empty": lambda whole: b"",
    "cut": lambda whole: whole[: len(whole) // 2],
    "no data base": lambda whole: bytes(reversed(whole)),
}


def coverage(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`coverage` in a folder of its own: nothing of the run that measures this test reaches it."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("COVERAGE_", "PYTHONWARN"))}
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    """A folder with the data of one measured run; gives the data file."""
    (tmp_path / ".coveragerc").write_text("[run]\nparallel = true\n")
    (tmp_path / "program.py").write_text("x = 1\n")
    assert coverage(tmp_path, "run", "program.py").returncode == 0
    (data,) = tmp_path.glob(".coverage.*")
    return data


@pytest.mark.parametrize("tear", TEARS)
def test_a_torn_file_is_named_and_the_others_are_combined(measured: Path, tear: str) -> None:
    torn = measured.with_name(".coverage.torn.1.x")
    torn.write_bytes(TEARS[tear](measured.read_bytes()))
    done = coverage(measured.parent, "combine", "--quiet")
    assert done.returncode == 0, done.stderr
    assert torn.name in done.stderr
    reported = coverage(measured.parent, "report", "--fail-under=100")
    assert reported.returncode == 0, reported.stderr
    assert "program.py" in reported.stdout


@pytest.mark.parametrize("tear", TEARS)
def test_where_every_file_is_torn_the_part_fails(measured: Path, tear: str) -> None:
    measured.write_bytes(TEARS[tear](measured.read_bytes()))
    done = coverage(measured.parent, "combine", "--quiet")
    assert done.returncode == 1
    assert "No usable data files" in done.stdout + done.stderr
