"""Phrases several families of checks share: lists that stay short, and repairs that can be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tools.environments.model import Profile
from tools.environments.preflight.checks.pin import build_fits
from tools.environments.preflight.preflight_facts import PreflightFacts
from tools.environments.registry.pep440 import as_version

AT_MOST = 4


def some(items: Sequence[str], at_most: int = AT_MOST) -> str:
    """The first few of a list, and how many more there are."""
    rest = len(items) - at_most
    return ", ".join(items[:at_most]) + (f" and {rest} more" if rest > 0 else "")


def new_environment(profile: Profile, facts: PreflightFacts) -> str:
    """The command that makes an environment of its own for `profile`: mixtures are left, never mended in place.

    Where a finished one is there already, it is only to be used: most who see this forgot to activate it.
    """
    if facts.ready:
        return f"use the environment that is there: source {shlex.quote(facts.ready + '/bin/activate')}"
    return (
        f"create a new environment: python tools/install_environment_profile.py --profile {profile.id} "
        f"--env-name {shlex.quote(facts.fresh_name)}"
    )


def install_again(profile: Profile, facts: PreflightFacts) -> str:
    """The commands that finish an interrupted install here, in the reference order; elsewhere, where this is no place.

    Nothing is ever installed over an environment that is another profile's, holds another torch, or is the system's.
    """
    if _is_no_place_to_install(profile, facts):
        return new_environment(profile, facts)
    python = shlex.quote(facts.interpreter.executable)
    files = [f"{python} -m pip install -r requirements/{name}" for name in profile.requirements]
    return "finish the install: " + " && ".join(files)


def _is_no_place_to_install(profile: Profile, facts: PreflightFacts) -> bool:
    python = ".".join(facts.host.python.split(".")[:2])
    if facts.interpreter.kind in ("base", "conda-base") or python not in profile.python:
        return True
    if facts.stamp.reasons or facts.stamp.torn or facts.stamp.profile not in (None, profile.id):
        return True
    if facts.torch_on_disk is None:
        return False
    version = as_version(facts.torch_on_disk[0])
    return profile.torch is None or version is None or not build_fits(profile.torch, version, facts.host.system)
