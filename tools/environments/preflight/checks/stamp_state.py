"""Is this environment still the one the registry describes? The stamp knows; one without a stamp is not faulted."""

from __future__ import annotations

from tools.environments.model import Check, Profile
from tools.environments.preflight.checks.wording import new_environment
from tools.environments.preflight.preflight_facts import PreflightFacts


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`environment.stamp`. Fault: a reused environment passes although its requirements changed."""
    wanted = f"an environment finished for {profile.id} as the registry is now"
    stamp = facts.stamp
    if stamp.torn is not None:
        return (Check("environment.stamp", "blocked", wanted, stamp.torn.found, stamp.torn.next),)
    if stamp.profile is None:
        return (Check("environment.stamp", "skipped", wanted, "no stamp: made by hand, or not finished yet"),)
    if not stamp.reasons:
        return (Check("environment.stamp", "ok", wanted, "current"),)
    found = "; ".join(stamp.reasons)
    return (Check("environment.stamp", "blocked", wanted, found, new_environment(profile, facts)),)
