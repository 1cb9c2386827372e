"""Every command line on an old Python, under an early Ctrl-C, and with an output that takes little or nothing."""

from __future__ import annotations

import ast
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
from stages import few

from tools.environments import command_line
from tools.environments.layout import ROOT

CALLS = (
    ("tools/bootstrap.py", "--help"),
    ("tools/environment_preflight.py", "--list-profiles"),
    ("tools/install_environment_profile.py", "--profile", "TRAIN-CPU", "--dry-run"),
    ("tools/register_notebook_runtime.py", "--check"),
    ("tools/test_framework_conformance.py", "--help"),
    ("-m", "experiments", "list"),
    ("-m", "experiments.conformance.exercise"),
)
# what an older Python reads before it is refused
READ_FIRST = (
    *(call[0] for call in CALLS if call[0] != "-m"),
    *("experiments/__init__.py", "experiments/__main__.py", "tools/__init__.py", "tools/environments/__init__.py"),
    *("experiments/conformance/__init__.py", "experiments/conformance/exercise.py"),
    *("benchmarks/__init__.py", "benchmarks/__main__.py"),
    "tools/environments/command_line.py",
)


def called(*call: str, python: str = sys.executable, **options: object) -> subprocess.CompletedProcess[str]:
    """One of the command lines, as a user starts it from the root."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ |= {name: str(value) for name, value in options.items()}
    return subprocess.run([python, *call], cwd=ROOT, env=environ, capture_output=True, text=True, check=False)


def older_pythons() -> list[str]:
    names = (shutil.which(f"python3.{minor}") for minor in range(6, 11))
    return [python for python in names if python and called("-c", "", python=python).returncode == 0]


@pytest.mark.parametrize("path", READ_FIRST)
def test_an_old_python_can_read_as_far_as_the_refusal(path: str) -> None:
    """Else the answer is a SyntaxError, or an import that fails."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"), feature_version=(3, 6))
    futures = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    assert not futures


@pytest.mark.parametrize("call", few(2, CALLS, alone=True), ids=lambda call: call[1] if call[0] == "-m" else call[0])
def test_an_old_python_that_is_here_is_told_so(call: tuple[str, ...]) -> None:
    older = older_pythons()
    if not older:
        pytest.skip("no older Python on this machine; what it must be able to read is checked above")
    for python in older:
        answer = called(*call, python=python)
        assert answer.returncode == 1
        assert answer.stderr.startswith("blocked\n  wanted Python 3.11 or 3.12\n")


def test_an_old_python_is_told_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("python3.11", "python3.12"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert command_line.newer_pythons(str(tmp_path)) == ["python3.12", "python3.11"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "version_info", (3, 9, 18, "final", 0))
    script, module = types.ModuleType("__main__"), types.ModuleType("__main__")
    module.__spec__ = types.SimpleNamespace(name="experiments.__main__")  # type: ignore[assignment]
    monkeypatch.setattr(sys, "argv", ["tools/bootstrap.py", "nox", "-l"])
    monkeypatch.setitem(sys.modules, "__main__", script)
    with pytest.raises(SystemExit) as told:
        command_line.begin()
    assert "found  Python 3.9.18" in str(told.value)
    assert str(told.value).endswith("-> python3.12 tools/bootstrap.py nox -l")
    monkeypatch.setitem(sys.modules, "__main__", module)
    with pytest.raises(SystemExit, match=r"-> python3\.12 -m experiments nox -l"):
        command_line.begin()
    module.__spec__.name = "experiments.conformance.exercise"  # type: ignore[union-attr]
    with pytest.raises(SystemExit, match=r"-> python3\.12 -m experiments\.conformance\.exercise nox -l"):
        command_line.begin()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"install Python 3\.12 or 3\.11"):
        command_line.begin()


@pytest.mark.parametrize("call", few(3, CALLS, alone=True), ids=lambda call: call[1] if call[0] == "-m" else call[0])
def test_whatever_takes_the_output_there_is_no_traceback(call: tuple[str, ...]) -> None:
    line = " ".join([sys.executable, *call])
    for redirection, code in ((">&-", None), (">/dev/full", 1), ("| head -c 1", 0)):
        shell = f"set -o pipefail; {line} {redirection}"
        done = subprocess.run(["bash", "-c", shell], cwd=ROOT, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr, redirection
        assert "Exception ignored" not in done.stderr, redirection
        if code == 1 and "test_framework_conformance" not in line:  # argparse forgives its own help
            assert "wanted output that can be written" in done.stderr
            assert done.returncode == 1


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "gbk"])
def test_signs_that_the_terminal_does_not_know_are_written_plainly(encoding: str) -> None:
    call = ("tools/install_environment_profile.py", "--profile", "TRAIN-CUDA-MECHANISM", "--backend", "nonsense")
    assert "Traceback" not in called(*call, PYTHONIOENCODING=encoding).stderr
    shown = called("-m", "experiments", "list", PYTHONIOENCODING="ascii").stdout
    assert "-> python -m experiments run NAME" in shown
    assert "Part 02 - 19" in shown


def test_what_has_no_plain_sign_is_escaped_and_an_undecodable_name_too() -> None:
    code = "from tools.environments import command_line as c; print(c.run(lambda a: print('训 \\udcff →') or 0))"
    assert called("-c", code, PYTHONIOENCODING="ascii").stdout == "\\u8bad \\udcff ->\n0\n"


def test_an_error_that_is_not_the_output_s_keeps_its_traceback() -> None:
    code = (
        "import errno, os, sys; from tools.environments import command_line as c\n"
        "def main(arguments):\n    raise OSError(errno.ECHILD, os.strerror(errno.ECHILD))\n"
        "c.run(main)"
    )
    assert "Traceback" in called("-c", code).stderr


@pytest.mark.race
def test_a_ctrl_c_before_main_is_one_word() -> None:
    code = (
        "import sys, time; from tools.environments import command_line as c\n"
        "c.begin(); print('ready', flush=True); time.sleep(30)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=20)[1] == "interrupted\n"
    assert child.returncode == -signal.SIGINT  # which a shell calls 130


@pytest.mark.parametrize(("name", "torn_down"), [("c.LEFT_BEHIND", ""), ("'another'", "torn down\n")])
def test_a_thread_left_behind_is_not_torn_down_under_its_feet(name: str, torn_down: str) -> None:
    """Inside OpenSSL it would crash the process as that is taken down; what was said is written out all the same."""
    code = (
        "import atexit, sys, threading, time; from tools.environments import command_line as c\n"
        "def main(arguments):\n"
        f"    threading.Thread(target=time.sleep, args=(60,), name={name}, daemon=True).start()\n"
        "    print('said'); return 3\n"
        "atexit.register(lambda: print('torn down'))\n"
        "sys.exit(c.run(main))"
    )
    done = called("-c", code)
    assert (done.returncode, done.stdout, done.stderr) == (3, f"said\n{torn_down}", "")


def test_another_error_before_main_keeps_its_traceback() -> None:
    code = "from tools.environments import command_line as c; c.begin(); 1 / 0"
    assert "ZeroDivisionError" in called("-c", code).stderr
