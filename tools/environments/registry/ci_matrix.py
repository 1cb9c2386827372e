"""The CI matrix, from the registry: which sessions a machine without a card runs, and which only plan.

A profile added to the registry is in the next run of CI without an edit to a workflow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Literal

from tools.environments.model import Profile

Format = Literal["github", "json"]
FORMATS: tuple[Format, ...] = ("github", "json")
RUNNERS = {"linux-x86_64": "ubuntu-24.04", "linux-aarch64": "ubuntu-24.04-arm", "darwin-arm64": "macos-15"}


def rows(profiles: Iterable[Profile]) -> list[dict[str, object]]:
    """One row per profile and Python: a session that runs where no card is asked for, else its plan alone."""
    return [
        {
            "profile": profile.id,
            "python": python,
            "title": profile.title,
            "tags": list(profile.tags),
            "runner": RUNNERS[profile.host.systems[0]],
            "arguments": "" if profile.gpu is None else "--dry-run",
        }
        for profile in profiles
        for python in profile.python
    ]


def to_text(profiles: Iterable[Profile], form: Format) -> str:
    """One line of JSON: GitHub's `include` object, or the plain list of rows."""
    table = rows(profiles)
    return json.dumps({"include": table} if form == "github" else table, ensure_ascii=False, separators=(",", ":"))
