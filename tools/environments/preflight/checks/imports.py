"""Do the profile's modules really import? A child tried; here its answers are read."""

from __future__ import annotations

from tools.environments.model import Check, Profile
from tools.environments.preflight.checks.wording import install_again, new_environment, some
from tools.environments.preflight.child_probe import outcome
from tools.environments.preflight.preflight_facts import PreflightFacts


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`torch.import` and `packages.import`."""
    return (_torch(profile, facts), _others(profile, facts))


def _torch(profile: Profile, facts: PreflightFacts) -> Check:
    wanted = "torch that imports"
    if profile.torch is None:
        return Check("torch.import", "skipped", "no torch", "this profile uses none")
    if facts.modules.get("torch") is None:
        return Check("torch.import", "blocked", wanted, "no torch", install_again(profile, facts))
    if facts.probes is None:
        return Check("torch.import", "skipped", wanted, "not imported (--quick)")
    result = outcome(facts.probes, "import torch")
    if result is None or not result.ok:
        found = result.error if result else "its turn did not come"
        return Check("torch.import", "blocked", wanted, found, new_environment(profile, facts))
    return Check("torch.import", "ok", wanted, str(result.facts.get("file", "it does")))


def _others(profile: Profile, facts: PreflightFacts) -> Check:
    names = [name for name in profile.required_modules if name != "torch" and facts.modules.get(name) is not None]
    wanted = f"{len(names)} modules that import"
    if facts.probes is None:
        return Check("packages.import", "skipped", wanted, "not imported (--quick)")
    failed: list[str] = []
    unreached: list[str] = []
    for name in names:
        result = outcome(facts.probes, f"import {name}")
        if result is None:
            unreached.append(name)
        elif not result.ok:
            failed.append(f"{name}: {result.error}")
    if failed:
        return Check("packages.import", "blocked", wanted, some(failed), new_environment(profile, facts))
    if unreached and not any(probe.died for probe in facts.probes):
        return Check(
            "packages.import", "blocked", wanted, f"no answer for {some(unreached)}", new_environment(profile, facts)
        )
    if unreached:  # the step that ended their child is a finding of its own
        return Check("packages.import", "skipped", wanted, f"{some(unreached)}: a step before ended the child")
    return Check("packages.import", "ok", wanted, "they do")
