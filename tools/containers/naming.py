"""How images are called, and the labels by which this project knows its own."""

from __future__ import annotations

REPOSITORY = "training-mechanism-lab"
HOME = "/lab"  # where an image has the code; environments lie below it
# Every layer that a build of ours makes carries the first; only a finished image carries the others.
OURS = "training-mechanism-lab.image"
PROFILE = "training-mechanism-lab.profile"
REGISTRY = "training-mechanism-lab.registry-digest"
REQUIREMENTS = "training-mechanism-lab.requirement-digest"
COMMIT = "org.opencontainers.image.revision"


def tag_of(profile: str) -> str:
    """The local name of a profile's image."""
    return f"{REPOSITORY}:{profile.lower()}"
