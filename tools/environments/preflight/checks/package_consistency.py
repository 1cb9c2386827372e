"""Do the installed packages agree with each other, and is every one of their files still there?

What `python -m pip check` asks, without pip, and what it does not ask: a killed install leaves files missing that no
dependency check notices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.environments.installed.installed_files import Broken
from tools.environments.model import Check, Profile
from tools.environments.preflight.checks.wording import install_again, new_environment, some
from tools.environments.preflight.preflight_facts import PreflightFacts
from tools.environments.registry.pep508 import Requirement, RequirementError


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`packages.dependencies` and `packages.files`."""
    return (_dependencies(profile, facts), _files(profile, facts))


def _dependencies(profile: Profile, facts: PreflightFacts) -> Check:
    wanted = "packages that agree with each other (pip check)"
    broken = conflicts(facts)
    if not broken:
        return Check("packages.dependencies", "ok", wanted, "no conflicts")
    return Check("packages.dependencies", "blocked", wanted, some(broken), new_environment(profile, facts))


def conflicts(facts: PreflightFacts) -> list[str]:
    """Each requirement of an installed package that is missing, of another version, or cannot be read."""
    found = []
    parsed: dict[str, Requirement | None] = {}
    for name, distribution in sorted(facts.packages.installed.items()):
        for text in distribution.requires:
            if _only_an_extra(text):
                continue
            if text not in parsed:
                parsed[text] = _parse(text)
            words = _conflict(parsed[text], text, facts)
            if words:
                found.append(f"{name} {distribution.version} {words}")
    return found


def _only_an_extra(text: str) -> bool:
    """True for the lines that hold only under an extra: nine in ten, and told apart without parsing a marker."""
    marker = text.partition(";")[2]
    return "extra" in marker and " or " not in marker and "==" in marker


def _parse(text: str) -> Requirement | None:
    try:
        return Requirement.parse(text)
    except RequirementError:
        return None


def _conflict(requirement: Requirement | None, text: str, facts: PreflightFacts) -> str:
    if requirement is None:
        return f"asks for something unreadable ({text[:60]!a})"
    if not _applies(requirement, facts.markers):
        return ""
    installed = facts.packages.installed.get(requirement.name)
    if installed is None:
        return f"needs {requirement.name}, which is not installed"
    if requirement.specifier.contains(installed.version, prereleases=True):
        return ""
    return f"needs {requirement.name}{requirement.specifier}, installed is {installed.version}"


def _applies(requirement: Requirement, markers: Mapping[str, str]) -> bool:
    try:
        return requirement.applies(markers)
    except RequirementError:
        return False


def _files(profile: Profile, facts: PreflightFacts) -> Check:
    wanted = "every file that the packages' RECORDs name, whole"
    sweep = facts.files
    if sweep is None:
        return Check("packages.files", "skipped", wanted, "not looked at (--quick)")
    broken = [item for item in sweep.broken if not _has_own_certificates(item)]
    if not broken:
        own = "" if not sweep.broken else ", but for certificates that this machine adds"
        return Check("packages.files", "ok", wanted, f"{sweep.files:,} files whole{own}")
    found = some([f"{item.distribution.name}: {item.problem}" for item in broken])
    return Check("packages.files", "blocked", wanted, found, _mend(broken, profile, facts))


def _has_own_certificates(item: Broken) -> bool:
    """A network with an authority of its own adds it to certifi's list and to pip's copy: no broken install."""
    return item.count == 1 and "cacert.pem has" in item.problem


def _mend(broken: Sequence[Broken], profile: Profile, facts: PreflightFacts) -> str:
    """pip takes a package whose metadata is there for installed: the broken ones must be reinstalled by name."""
    names = sorted({f"{item.distribution.name}=={item.distribution.version}" for item in broken})
    if len(names) > 8 or any(name.startswith("torch==") for name in names):
        return new_environment(profile, facts)
    python = facts.interpreter.executable
    again = f"{python} -m pip install --force-reinstall --no-deps {' '.join(names)}"
    return f"install them anew: {again}" if facts.stamp.profile else f"{install_again(profile, facts)} && {again}"
