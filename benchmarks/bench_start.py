"""Starting up: the bootstrap's second call, and the list of profiles."""

from __future__ import annotations

import sys
from functools import partial

from benchmarks.measure import Row, ratio, seconds
from tools.environments.layout import ROOT

NOTHING = partial(seconds, [sys.executable, "-c", "pass"])


def rows() -> list[Row]:
    """Both against the same interpreter doing nothing."""
    profiles = [sys.executable, "tools/environment_preflight.py", "--list-profiles"]
    bootstrap = [sys.executable, "tools/bootstrap.py"]
    against = "python -c pass"
    return [
        ratio("--list-profiles", partial(seconds, profiles, cwd=ROOT), NOTHING, against=against, limit=6),
        ratio("bootstrap, second call", partial(seconds, bootstrap, cwd=ROOT), NOTHING, against=against, limit=8),
    ]
