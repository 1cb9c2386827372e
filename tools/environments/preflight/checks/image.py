"""In an image of this project: is it the image of this profile, built from the text the registry has now?"""

from __future__ import annotations

from tools.environments.model import Check, Profile
from tools.environments.preflight.preflight_facts import PreflightFacts


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`container.image`."""
    image = facts.image
    wanted = f"an image built for {profile.id} as the registry is now"
    if image.profile is None:
        why = "not an image of this project" if facts.host.container else "not in a container"
        return (Check("container.image", "skipped", wanted, why),)
    repair = f"nox -s {profile.id} -- --image"
    if image.profile != profile.id:
        return (Check("container.image", "blocked", wanted, f"an image for {image.profile}", repair),)
    if image.requirement_digest not in (None, facts.requirement_digest):
        return (Check("container.image", "warning", wanted, "built from other requirement files", repair),)
    return (Check("container.image", "ok", wanted, image.digest or "its digest is not told from inside"),)
