"""Preflight of a ready TRAIN-CPU environment, beside what a user would run to see whether torch works there."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path

from benchmarks.measure import Row, duration, ratio, seconds
from tools.environments.layout import ENVS, ROOT
from tools.environments.registry import registry

PROFILE = "TRAIN-CPU"
IMPORT_RATIO = 1.15
QUICK_SECONDS = 0.3


def rows() -> list[Row]:
    """The full preflight against `import torch` and torch's own report, and the quick one by itself."""
    python = environment()
    command = [str(python), "tools/environment_preflight.py", "--profile", PROFILE]
    full = partial(seconds, command, cwd=ROOT)
    quick = partial(seconds, [*command, "--quick"], cwd=ROOT)
    torch = partial(seconds, [str(python), "-c", "import torch"], cwd=ROOT)
    report = partial(seconds, [str(python), "-m", "torch.utils.collect_env"], cwd=ROOT)
    return [
        ratio("preflight", full, torch, against="python -c 'import torch'", limit=IMPORT_RATIO),
        ratio("preflight", full, report, against="torch.utils.collect_env", limit=1),
        duration("preflight --quick", quick, limit=QUICK_SECONDS, detail="imports nothing"),
    ]


def environment() -> Path:
    """The interpreter of the profile's own environment, installed first where it is not ready."""
    install = [sys.executable, "tools/install_environment_profile.py", "--profile", PROFILE]
    subprocess.run(install, cwd=ROOT, check=True, stdout=sys.stderr)
    return ENVS / registry.load().get(PROFILE).environment / "bin" / "python"
