"""Which image this process runs in, as far as the image says so itself.

An image built by this project carries three variables: what it was built for and from. Any other image, and a process
outside a container, says nothing here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PROFILE_VARIABLE = "TMLAB_IMAGE_PROFILE"  # profile id the image was built for
REQUIREMENT_VARIABLE = "TMLAB_IMAGE_REQUIREMENT_DIGEST"  # `requirement_text.digest` at build time
DIGEST_VARIABLE = "TMLAB_IMAGE_DIGEST"  # the image's own digest, known to whoever starts it, not to the image


@dataclass(frozen=True, slots=True)
class ImageFacts:
    """What the image says about itself; None where it says nothing."""

    profile: str | None
    requirement_digest: str | None
    digest: str | None


def gather(environ: Mapping[str, str]) -> ImageFacts:
    """Read the image's own words from the environment."""
    return ImageFacts(
        environ.get(PROFILE_VARIABLE) or None,
        environ.get(REQUIREMENT_VARIABLE) or None,
        environ.get(DIGEST_VARIABLE) or None,
    )
