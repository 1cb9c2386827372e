"""Phrases several families of checks share: lists that stay short, and repairs that can be pasted."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tools.environments.model import Profile
from tools.environments.preflight_facts import Facts

AT_MOST = 4


def some(items: Sequence[str], at_most: int = AT_MOST) -> str:
    """The first few of a list, and how many more there are."""
    rest = len(items) - at_most
    return ", ".join(items[:at_most]) + (f" and {rest} more" if rest > 0 else "")


def new_environment(profile: Profile, facts: Facts) -> str:
    """The command that makes an environment of its own for `profile`: mixtures are left, never mended in place."""
    return (
        f"create a new environment: python tools/install_environment_profile.py --profile {profile.id} "
        f"--env-name {shlex.quote(facts.fresh_name)}"
    )


def install_again(profile: Profile, facts: Facts) -> str:
    """The commands that finish an interrupted install in this environment, in the reference order."""
    python = shlex.quote(facts.interpreter.executable)
    files = [f"{python} -m pip install -r requirements/{name}" for name in profile.requirements]
    return "finish the install: " + " && ".join(files)
