"""The whole conda path against a stand-in that creates real environments and refuses what conda would refuse.

No conda can be had where these tests run; the README says so.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import install_checkout
import pytest
from install_checkout import PYTHON, Checkout
from stages import few

from tools.environments.installed import installed_files, stamp

STAND_IN = Path(__file__).parents[2] / "data" / "conda_stand_in"


def make(folder: Path) -> Checkout:
    """A checkout whose PATH has the stand-in for conda."""
    made = install_checkout.make(folder)
    # `/usr/bin/env python3` must find this Python with its packages: a link to it would leave them behind.
    python = folder / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
    python.chmod(0o755)
    made.extra = {"PATH": os.pathsep.join([str(STAND_IN), str(folder / "bin"), os.environ["PATH"]])}
    return made


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return make(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> tuple[Checkout, str]:
    """A checkout in which TINY-CPU was installed through conda, and what that printed; not to be changed."""
    made = make(tmp_path_factory.mktemp("ready"))
    answer = made.install("--python", PYTHON)
    assert answer.returncode == 0, answer.stdout
    return made, answer.stdout


def environment(checkout: Checkout, name: str = "tiny_cpu") -> Path:
    return checkout.cache / "conda-stand-in" / "envs" / name


def calls(checkout: Checkout) -> list[list[str]]:
    path = checkout.cache / "conda-stand-in" / "calls.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def install(checkout: Checkout, *arguments: str, code: int = 0) -> dict[str, Any]:
    answer = checkout.install("--python", PYTHON, "--json", *arguments)
    assert answer.returncode == code, answer.stdout + answer.stderr
    told: dict[str, Any] = json.loads(answer.stdout)
    return told


def conda(checkout: Checkout, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(STAND_IN / "conda"), *arguments], env=checkout.environ, capture_output=True, text=True)


def test_auto_takes_conda_and_runs_exactly_what_the_plan_says(checkout: Checkout) -> None:
    planned = json.loads(checkout.install("--python", PYTHON, "--json", "--dry-run").stdout)
    assert planned["backend"] == "conda"
    assert calls(checkout) == []
    told = install(checkout)
    assert told["prefix"] == str(environment(checkout))
    ran = [call for call in calls(checkout) if call[0] != "info"]
    assert ran == [step["argv"][1:] for step in planned["steps"] if step["argv"]]
    assert list(told["steps"])[:3] == ["create", "isolate", "pip"]
    site = installed_files.site_packages(environment(checkout))
    assert installed_files.sweep(site, hashes=True).broken == ()
    written = stamp.read(environment(checkout))
    assert written is not None
    assert (written.backend, written.torch) == ("conda", "2.13.0+cpu")
    assert written.interpreter["version"].startswith(f"{PYTHON}.")


def test_fault_29_pythonpath_does_not_reach_it(
    ready: tuple[Checkout, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, _ = ready
    (tmp_path / "ros").mkdir()
    (tmp_path / "ros" / "tiny_alpha.py").write_text("raise ImportError('from PYTHONPATH')\n")
    monkeypatch.setitem(checkout.extra, "PYTHONPATH", str(tmp_path / "ros"))
    ran = conda(checkout, "run", "--no-capture-output", "-n", "tiny_cpu", "python", "-c", "import tiny_alpha")
    assert ran.returncode == 0, ran.stderr


def test_the_last_lines_are_condas_own_words(ready: tuple[Checkout, str]) -> None:
    _, out = ready
    assert "conda activate tiny_cpu" in out
    assert "conda env remove -n tiny_cpu -y" in out


def test_a_finished_one_is_recognised_without_asking_conda(ready: tuple[Checkout, str]) -> None:
    checkout, _ = ready
    before = calls(checkout)
    told = install(checkout)
    assert (told["status"], told["backend"]) == ("current", "conda")
    assert calls(checkout) == before
    assert install(checkout, "--backend", "conda")["status"] == "current"


@pytest.mark.race
@pytest.mark.parametrize("step", few(1, ["torch", "create", "isolate", "pip", "tiny"]))
def test_killed_it_resumes_or_starts_over(checkout: Checkout, step: str) -> None:
    child = checkout.start("--python", PYTHON)
    assert checkout.wait_for("start", step, child)
    time.sleep(0.1)
    os.killpg(child.pid, signal.SIGKILL)
    child.communicate()
    assert install(checkout)["status"] == "installed"
    site = installed_files.site_packages(environment(checkout))
    assert installed_files.sweep(site, hashes=True).broken == ()


@pytest.mark.full
def test_recreate_goes_through_conda(checkout: Checkout) -> None:
    install(checkout)
    assert install(checkout, "--recreate")["status"] == "installed"
    assert ["env", "remove", "-n", "tiny_cpu", "-y"] in calls(checkout)


def test_adoption_of_a_conda_environment_by_name(checkout: Checkout) -> None:
    for command in (
        ["create", "-n", "by_hand", f"python={PYTHON}", "-y"],
        ["env", "config", "vars", "set", "-n", "by_hand", "PYTHONNOUSERSITE=1", "PYTHONPATH="],
    ):
        assert conda(checkout, *command).returncode == 0
    python = str(environment(checkout, "by_hand") / "bin" / "python")
    folder = ["--no-index", "--find-links", str(checkout.wheels)]
    for arguments in (["-m", "pip", "install", *folder, "torch", "tiny-alpha"], ["tools/register_notebook_runtime.py"]):
        subprocess.run([python, *arguments], cwd=checkout.root, env=checkout.environ, check=True, capture_output=True)
    told = install(checkout, "--adopt", "--env-name", "by_hand")
    assert (told["status"], told["prefix"]) == ("adopted", str(environment(checkout, "by_hand")))


def test_a_broken_conda_is_a_finding_and_names_the_way_round(checkout: Checkout) -> None:
    checkout.extra["CONDA_STAND_IN_FAULT"] = "info"
    error = install(checkout, code=1)["error"]
    assert "conda info" in error["wanted"]
    assert "--backend uv or venv" in error["next"]
    checkout.extra["CONDA_STAND_IN_FAULT"] = "create"
    error = install(checkout, code=1)["error"]
    assert "An unexpected error has occurred" in error["found"]
    del checkout.extra["CONDA_STAND_IN_FAULT"]
    assert install(checkout)["status"] == "installed"


def test_no_conda_where_it_was_asked_for(tmp_path: Path) -> None:
    made = install_checkout.make(tmp_path)
    error = install(made, "--backend", "conda", code=1)["error"]
    assert error["wanted"] == "conda on PATH"


@pytest.mark.parametrize(
    "arguments",
    [
        ["create", "-n", "x", "-y"],
        ["create", "-n", "x", "python=3.12", "--seed"],
        ["create", "python=3.12", "-y"],
        ["create", "-n", "x", "python=1.0", "-y"],
        ["run", "-n", "not_there", "python"],
        ["env", "config", "vars", "set", "-n", "x"],
        ["env", "remove", "x"],
        ["info"],
        ["frobnicate"],
    ],
)
def test_the_stand_in_refuses_what_conda_refuses(checkout: Checkout, arguments: list[str]) -> None:
    assert conda(checkout, *arguments).returncode != 0
