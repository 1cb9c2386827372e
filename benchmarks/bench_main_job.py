"""The main job as the README gives it, in a copy of this checkout: everything cold but the package cache."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from benchmarks.checkout import copy
from benchmarks.measure import Row, watched

MINUTES = 4
MEMORY_GIB = 2.5


def rows() -> list[Row]:
    """Wall time and peak memory of `bootstrap.py nox -s TRAIN-CPU`, from nothing to a verified record."""
    with tempfile.TemporaryDirectory(prefix="tmlab-main-job-") as folder:
        clone = copy(Path(folder) / "clone")
        clean = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        base = getattr(sys, "_base_executable", sys.executable)
        command = [base, "tools/bootstrap.py", "nox", "-s", "TRAIN-CPU"]
        taken, peak = watched(command, cwd=clone, env=clean)
        written = list((clone / "runs").rglob("record.json"))
    detail = f"bootstrap, install, preflight, experiment: {len(written)} record"
    return [
        Row("main job, TRAIN-CPU", taken, "s", MINUTES * 60, detail),
        Row("main job, peak memory of all processes", peak, "GiB", MEMORY_GIB, "proportional set size, sampled"),
    ]
