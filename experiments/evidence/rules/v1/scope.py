"""Which files make up the digest of the sources: those that all experiments share, and an experiment's own."""

from __future__ import annotations

SUFFIXES = (".py", ".json", ".txt")
SHARED = (
    "experiments/evidence",
    "experiments/harness",
    "experiments/mechanisms",
    "experiments/models",
    "requirements/environment-profiles.json",
    "tools/environments",
)


def scope_of(*own: str) -> tuple[str, ...]:
    """What takes part: what all share, and the folders or files named (`experiments/<topic>/<name>`)."""
    return tuple(sorted({*SHARED, *own}))


def takes_part(path: str) -> bool:
    """Whether a file in scope goes into the digest: a source, and no left-over of running one."""
    return path.endswith(SUFFIXES) and "/__pycache__/" not in path and "/.ipynb_checkpoints/" not in path
