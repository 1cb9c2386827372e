"""Which files make up the digest of the sources: version 1's, TOML, the kinds, and the `shared/` of a topic.

Of a kind's folder its template does not take part: experiments are written from it, and no run reads it.
"""

from __future__ import annotations

from experiments.evidence.rules.v1 import scope

KINDS, TEMPLATE = "experiments/kinds", "template"
SUFFIXES = (".py", ".json", ".txt", ".toml")  # the last of a page: its faults, its exercise, its place
LEFT_OVER = ("/__pycache__/", "/.ipynb_checkpoints/")


def scope_of(*own: str) -> tuple[str, ...]:
    """What takes part: what all share, the folders or files named, and `shared` beside a folder of a topic."""
    beside = {f"{topic}/shared" for topic in map(_topic, own) if topic}
    return tuple(sorted({*scope.scope_of(*own), KINDS, *beside}))


def takes_part(path: str) -> bool:
    """Whether a file in scope goes into the digest: a source, no left-over of running one, no template of a kind."""
    template = path.startswith(f"{KINDS}/") and path.split("/")[3:4] == [TEMPLATE]
    return path.endswith(SUFFIXES) and not template and not any(folder in path for folder in LEFT_OVER)


def _topic(path: str) -> str:
    """`experiments/<topic>` of `experiments/<topic>/<name>`; empty for any other path."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) == 3 and parts[0] == "experiments" else ""
