"""Who is killed by a test is not measured: a process that dies as it writes its coverage leaves half a file, which a
green run would have to report or to hide.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import child_coverage
import pytest

from tools.environments.layout import ROOT

MEASURED = ("start", "begin")  # of the helpers in tests/support that start a child with what the tests are measured by
KILLS = ("kill", "killpg", "send_signal")


def kills(call: ast.Call) -> bool:
    """`child.kill()`, `os.killpg(child.pid, signal.SIGKILL)`, `child.send_signal(signal.SIGKILL)`, or with a bare 9."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in KILLS:
        return False
    words = {node.attr for node in ast.walk(call) if isinstance(node, ast.Attribute)}
    numbers = {node.value for node in ast.walk(call) if isinstance(node, ast.Constant)}
    return (call.func.attr == "kill" and not call.args) or "SIGKILL" in words or 9 in numbers


def measured_and_killed(function: ast.FunctionDef) -> set[str]:
    """Names in a test that hold a measured child and that it kills."""
    started = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
        and isinstance(node.value.func, ast.Attribute | ast.Name)
        and (node.value.func.attr if isinstance(node.value.func, ast.Attribute) else node.value.func.id) in MEASURED
        and not {"unmeasured", "to_kill"} & {*re.findall(r"\w+", ast.unparse(node.value))}
    }
    killed = {
        name.id
        for node in ast.walk(function)
        if isinstance(node, ast.Call) and kills(node)
        for name in ast.walk(node)
        if isinstance(name, ast.Name)
    }
    return started & killed


def functions_of(path: Path) -> list[ast.FunctionDef]:
    return [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]


def test_no_test_kills_a_child_that_writes_coverage() -> None:
    folders = [ROOT / "tests" / "environments", ROOT / "tests" / "models"]
    found = {
        f"{path.name}::{function.name}": names
        for folder in folders
        for path in folder.rglob("test_*.py")
        for function in functions_of(path)
        if (names := measured_and_killed(function))
    }
    assert not found


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("child = box.start('x')\n    os.killpg(child.pid, signal.SIGKILL)", {"child"}),
        ("child = box.start('x')\n    os.killpg(child.pid, 9)", {"child"}),
        ("child = client.begin()\n    child.kill()", {"child"}),
        ("one = start(clone)\n    one.send_signal(signal.SIGKILL)", {"one"}),
        ("one = start(clone, **child_coverage.unmeasured(environ()))\n    one.kill()", set()),
        ("child = box.start_to_kill('x')\n    os.killpg(child.pid, 9)", set()),
        ("child = box.start('x')\n    os.killpg(child.pid, signal.SIGINT)", set()),
    ],
)
def test_the_rule_sees_each_way_to_kill(code: str, names: set[str]) -> None:
    (function,) = ast.parse(f"def test() -> None:\n    {code}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert measured_and_killed(function) == names


def test_an_unmeasured_child_writes_no_data_and_a_measured_one_does(tmp_path: Path) -> None:
    program = tmp_path / "start.py"
    program.write_text(
        "import json, os, subprocess, sys\n"
        "import child_coverage\n"
        "for environ in (child_coverage.unmeasured(os.environ), dict(os.environ)):\n"
        "    subprocess.run([sys.executable, '-c', 'import json'], env=environ, check=True)\n"
        "    print(len([name for name in os.listdir() if name.startswith('.coverage.')]))\n"
        "print(json.dumps(child_coverage.variables() != {}))\n"
    )
    settings = tmp_path / "settings"
    settings.write_text("[run]\npatch = subprocess\nparallel = true\n")
    environ = child_coverage.unmeasured(os.environ) | {"PYTHONPATH": str(Path(child_coverage.__file__).parent)}
    command = [sys.executable, "-m", "coverage", "run", f"--rcfile={settings}", str(program)]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    unmeasured, measured, told = map(json.loads, done.stdout.split())
    assert (unmeasured, measured, told) == (0, 1, True)
