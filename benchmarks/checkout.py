"""A copy of this checkout for a benchmark to work in, so that nothing measured here is disturbed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tools.environments.layout import ROOT


def copy(target: Path) -> Path:
    """The files under version control as they are now, without environments, runs and caches."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target
