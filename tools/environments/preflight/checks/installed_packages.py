"""Are the profile's packages here, in its versions, from this environment, and nothing it excludes?

By metadata and by looking where an import would go; nothing is imported.
"""

from __future__ import annotations

from tools.environments.model import Check, Profile
from tools.environments.preflight.checks.wording import install_again, new_environment, some
from tools.environments.preflight.preflight_facts import PreflightFacts
from tools.environments.registry.pep440 import VersionError
from tools.environments.registry.pep508 import RequirementError
from tools.environments.registry.requirement_text import RequirementLine

NOTEBOOK_FILE = "notebook.txt"  # what it asks for counts only where notebooks are meant to run


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`packages.metadata`, `.required`, `.versions`, `.origin`, `.forbidden`."""
    return (
        _metadata(profile, facts),
        _required(profile, facts),
        versions(profile, facts, "packages.versions", notebook=False),
        _origin(profile, facts),
        _forbidden(profile, facts),
    )


def _metadata(profile: Profile, facts: PreflightFacts) -> Check:
    wanted = "readable metadata of each package, once"
    problems = facts.packages.problems
    if not problems:
        return Check("packages.metadata", "ok", wanted, f"{len(facts.packages.installed)} packages")
    found = some([f"{problem.path} {problem.words}" for problem in problems], 3)
    return Check("packages.metadata", "blocked", wanted, found, new_environment(profile, facts))


def _required(profile: Profile, facts: PreflightFacts) -> Check:
    wanted = f"{len(profile.required_modules)} modules that can be found"
    absent = [name for name in profile.required_modules if facts.modules.get(name) is None]
    if not absent:
        return Check("packages.required", "ok", wanted, "all of them")
    return Check("packages.required", "blocked", wanted, f"no {some(absent)}", install_again(profile, facts))


def versions(profile: Profile, facts: PreflightFacts, name: str, *, notebook: bool) -> Check:
    """Each requirement and constraint against the installed version; torch has checks of its own."""
    wanted = "versions as requirement and constraint files ask"
    lines = [
        line for line in facts.lines if (line.file == NOTEBOOK_FILE) == notebook and line.requirement.name != "torch"
    ]
    missing: list[str] = []
    wrong: list[str] = []
    counted = 0
    for line in lines:
        requirement = line.requirement
        if not _applies(line, facts):
            continue
        installed = facts.packages.installed.get(requirement.name)
        if installed is None:
            if line.kind == "requirement":
                missing.append(requirement.name)
            continue
        counted += 1
        if not _fits(line, installed.version):
            wrong.append(
                f"{requirement.name} {installed.version} (wanted {requirement.specifier}, {line.file}:{line.line})"
            )
    if wrong:
        return Check(name, "blocked", wanted, some(wrong), new_environment(profile, facts))
    if missing:
        return Check(name, "blocked", wanted, f"not installed: {some(missing)}", install_again(profile, facts))
    return Check(name, "ok", wanted, f"{counted} hold")


def _applies(line: RequirementLine, facts: PreflightFacts) -> bool:
    try:
        return line.requirement.applies(facts.markers)
    except RequirementError:
        return True


def _fits(line: RequirementLine, version: str) -> bool:
    try:
        return line.requirement.specifier.contains(version, prereleases=True)
    except VersionError:
        return False


def _origin(profile: Profile, facts: PreflightFacts) -> Check:
    """Fault: PYTHONPATH, the user's or the system's packages win over the environment's."""
    wanted = f"modules imported from {facts.interpreter.prefix}"
    foreign = [entry.path for entry in facts.interpreter.foreign]
    strays = [
        f"{name} from {origin}"
        for name, origin in facts.modules.items()
        if origin and any(_inside(origin, folder) for folder in foreign)
    ]
    if not strays:
        return Check("packages.origin", "ok", wanted, "they are")
    sources = {entry.source for entry in facts.interpreter.foreign}
    if "PYTHONPATH" in sources:
        repair = "unset PYTHONPATH"
    elif "user site" in sources:
        repair = "export PYTHONNOUSERSITE=1"
    else:
        repair = new_environment(profile, facts)
    return Check("packages.origin", "blocked", wanted, some(strays), repair)


def _inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")


def _forbidden(profile: Profile, facts: PreflightFacts) -> Check:
    wanted = f"none of {len(profile.forbidden)} packages that {profile.id} excludes"
    found = [
        f"{name} {facts.packages.installed[name].version}"
        for name in profile.forbidden
        if name in facts.packages.installed
    ]
    if not found:
        return Check("packages.forbidden", "ok", wanted, "none")
    return Check("packages.forbidden", "blocked", wanted, some(found), new_environment(profile, facts))
