"""Two experiments of one name in two topics: refused by every command, naming both folders, and never one of them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import experiments
from experiments.cli import discovery
from tools.environments.errors import LabError
from tools.environments.layout import ROOT

NAME = "gradient_accumulation"
FOLDERS = (f"experiments/a_new_topic/{NAME}", f"experiments/training_mechanism/{NAME}")


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with a second topic that has an experiment of a known name."""
    clone = tmp_path_factory.mktemp("doubled")
    for name in ("experiments", "tools", "requirements"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(clone / FOLDERS[1], clone / FOLDERS[0])
    (clone / "experiments" / "a_new_topic" / "__init__.py").touch()
    return clone


@pytest.mark.parametrize(
    "command",
    [
        ("list",),
        ("run", NAME, "--run-mode", "dry_run", "--run-label", "x"),
        ("run", "mixed_precision_backward", "--run-mode", "dry_run", "--run-label", "x"),
        ("show", NAME),
        ("report",),
        ("results", "verify"),
        ("fit", "--profile", "TRAIN-CUDA-MECHANISM", "--memory-gib", "8"),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_every_command_that_looks_for_experiments_names_both_folders(doubled: Path, command: tuple[str, ...]) -> None:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("TMLAB_")}
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *command],
        cwd=doubled,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"blocked {NAME}" in done.stderr
    assert f"found  {FOLDERS[0]} and {FOLDERS[1]}" in done.stderr
    assert f"git mv {FOLDERS[1]} " in done.stderr
    assert "Traceback" not in done.stderr
    assert not (doubled / "runs").exists()


@pytest.mark.parametrize("name", ["conformance", "exercises"])
def test_a_name_of_the_lab_s_own_commands_is_taken(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "experiments" / "topic" / name
    folder.mkdir(parents=True)
    (folder / "experiment.py").touch()
    monkeypatch.setattr(experiments, "__path__", [str(tmp_path / "experiments")])
    with pytest.raises(LabError, match=f"experiments/topic/{name}, and the lab's own command"):
        discovery.packages()
