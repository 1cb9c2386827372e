"""A copy of this checkout as git would take it now, and commands in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.environments.layout import ROOT


def copy_to(folder: Path) -> Path:
    """Copy what git has here, or would take; the folder, for convenience. It is no git checkout itself."""
    parts = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(parts, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def command(clone: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python in the copy, with nothing of this run's own settings."""
    own = ("TMLAB_", "PYTEST_")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    return subprocess.run(
        [sys.executable, *arguments], cwd=clone, env=environ, capture_output=True, text=True, check=False
    )
