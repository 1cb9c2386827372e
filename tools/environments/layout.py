"""Where things lie in a checkout. Every other module asks here, so a moved folder is one edit."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ROOT / "requirements"
REGISTRY_PATH = REQUIREMENTS / "environment-profiles.json"
ENVS = ROOT / ".envs"  # environments made by uv and venv; conda keeps its own
RUNS = ROOT / "runs"  # records before they are promoted; TMLAB_RUNS overrides it where runs are written
