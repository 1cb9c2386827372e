"""Which files make up the digest of the sources: version 1's, the kinds, and the `shared/` of an experiment's topic."""

from __future__ import annotations

from experiments.evidence.rules.v1 import scope

KINDS = "experiments/kinds"
takes_part = scope.takes_part


def scope_of(*own: str) -> tuple[str, ...]:
    """What takes part: what all share, the folders or files named, and `shared` beside a folder of a topic."""
    beside = {f"{topic}/shared" for topic in map(_topic, own) if topic}
    return tuple(sorted({*scope.scope_of(*own), KINDS, *beside}))


def _topic(path: str) -> str:
    """`experiments/<topic>` of `experiments/<topic>/<name>`; empty for any other path."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) == 3 and parts[0] == "experiments" else ""
