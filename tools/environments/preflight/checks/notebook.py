"""Will a notebook of this environment run here? Asked where Jupyter is installed, or where --notebook is given."""

from __future__ import annotations

from tools.environments.installed import kernels, registration
from tools.environments.model import Check, Profile
from tools.environments.preflight.checks.installed_packages import versions
from tools.environments.preflight.preflight_facts import PreflightFacts

IDS = ("notebook.packages", registration.CHECK_ID, kernels.CHECK_ID)


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`notebook.packages`, `notebook.registration`, `notebook.kernel`."""
    if facts.notebook is None:
        return tuple(Check(name, "skipped", "notebooks", "Jupyter is not installed here") for name in IDS)
    return (versions(profile, facts, "notebook.packages", notebook=True), *facts.notebook)
