"""The installer against what a user would type instead: bare `uv venv` and `uv pip install` of the same packages.

Both start from nothing with a warm package cache and the same bytecode setting, in a copy of this checkout, in turn.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.checkout import copy
from benchmarks.measure import Row, duration, ratio, seconds

PROFILE = "TRAIN-CPU"
ROUNDS = 5
RATIO, OWN_S, SECOND_S = 1.25, 0.3, 1.0
CLOSING = ("gate", "register", "pip-check", "preflight", "stamp")  # the other steps create and install


def rows() -> Iterator[Row]:
    """Install steps against bare uv, the installer's own time, and a second run of a finished install."""
    with tempfile.TemporaryDirectory(prefix="tmlab-install-") as folder:
        checkout = copy(Path(folder) / "clone")
        plan = _installer(checkout, "--dry-run")
        own: list[float] = []

        def ours() -> float:
            started = time.perf_counter()
            told = _installer(checkout, "--recreate")
            whole = time.perf_counter() - started
            own.append(whole - told["children_s"] - told["steps"].get("remove", 0.0))
            return float(sum(took for step, took in told["steps"].items() if step not in (*CLOSING, "remove")))

        yield ratio(
            "install steps, TRAIN-CPU by uv",
            ours,
            lambda: _bare(checkout, plan),
            against="bare uv venv and uv pip install",
            limit=RATIO,
            rounds=ROUNDS,
        )
        detail = f"whole call less its children and the removal of the last one, {ROUNDS} runs"
        yield Row("installer's own time", statistics.median(own[1:]), "s", OWN_S, detail)
        again = [sys.executable, "-I", *_command()]
        yield duration(
            "second run of a finished install",
            lambda: seconds(again, cwd=checkout, env=_environ()),
            limit=SECOND_S,
            detail="finds it current",
        )


def _bare(checkout: Path, plan: dict[str, Any]) -> float:
    """One environment and one install of everything, with the plan's own options."""
    prefix = checkout / ".envs" / "bare"
    shutil.rmtree(prefix, ignore_errors=True)
    steps = {step["id"]: step for step in plan["steps"]}
    torch = steps["torch"]["argv"]
    install = [part.replace(plan["prefix"], str(prefix)) for part in torch[: torch.index("-c")]]  # a user types no pin
    for step in plan["steps"]:
        if "-r" in step["argv"]:
            install += ["-r", step["argv"][step["argv"].index("-r") + 1]]
    changed = {**_environ(), **steps["torch"]["env"]}
    env = {name: value for name, value in changed.items() if value is not None}
    return sum(
        seconds(command, cwd=checkout, env=env) for command in ([*steps["create"]["argv"][:-1], str(prefix)], install)
    )


def _command(*options: str) -> list[str]:
    return ["tools/install_environment_profile.py", "--profile", PROFILE, "--backend", "uv", *options]


def _environ() -> dict[str, str]:
    """A user's own: bytecode is kept, as it is by default."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _installer(checkout: Path, *options: str) -> dict[str, Any]:
    answer = subprocess.run(
        [sys.executable, "-I", *_command("--json", *options)],
        cwd=checkout,
        env=_environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    told: dict[str, Any] = json.loads(answer.stdout)
    return told
