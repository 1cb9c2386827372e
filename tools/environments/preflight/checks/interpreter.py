"""Is this Python an environment of its own, and does sys.path hold only what belongs to it?"""

from __future__ import annotations

from tools.environments.model import Check, Profile
from tools.environments.preflight.checks.wording import new_environment, some
from tools.environments.preflight.preflight_facts import PreflightFacts

PREFIX_WORDS = {
    "venv": "a virtual environment",
    "conda": "a conda environment",
    "conda-base": "conda's base environment, which conda itself lives in",
    "base": "the system's own Python, which other programs depend on",
}


def check(profile: Profile, facts: PreflightFacts) -> tuple[Check, ...]:
    """`python.prefix`, `python.path`, `python.user-site`."""
    return (_prefix(profile, facts), _path(facts), _user_site(facts))


def _prefix(profile: Profile, facts: PreflightFacts) -> Check:
    wanted = "an environment of its own"
    python = facts.interpreter
    found = f"{PREFIX_WORDS[python.kind]}: {python.prefix}"
    if python.kind in ("venv", "conda"):
        return Check("python.prefix", "ok", wanted, found)
    if python.kind == "base" and facts.host.container:
        return Check("python.prefix", "ok", wanted, f"the Python of this {facts.host.container} container")
    return Check("python.prefix", "warning", wanted, found, new_environment(profile, facts))


def _path(facts: PreflightFacts) -> Check:
    wanted = "sys.path with this environment only"
    python = facts.interpreter
    foreign = [entry for entry in python.foreign if entry.source != "user site"]
    if python.stripped:
        found = f"PYTHONPATH was set and taken off at start: {some(python.stripped)}"
        return Check("python.path", "warning", wanted, found, _UNSET)
    if any(entry.source == "PYTHONPATH" for entry in foreign) or python.pythonpath:
        named = [entry.path for entry in foreign if entry.source == "PYTHONPATH"] or list(python.pythonpath)
        return Check("python.path", "warning", wanted, f"PYTHONPATH adds {_named(named)}", _UNSET)
    if foreign:
        found = "; ".join(f"{entry.source} adds {entry.path}" for entry in foreign[:3])
        repair = "an environment made without --system-site-packages, and no .pth file in it that names other folders"
        return Check("python.path", "warning", wanted, found, repair)
    return Check("python.path", "ok", wanted, f"{len(python.packages)} folder(s), all its own")


_UNSET = "unset PYTHONPATH (the registered kernels already do)"


def _named(folders: list[str]) -> str:
    ros = " (ROS)" if any(folder.startswith("/opt/ros/") for folder in folders) else ""
    return some(folders) + ros


def _user_site(facts: PreflightFacts) -> Check:
    wanted = "the user's site-packages left out"
    folder = facts.interpreter.user_site
    if folder is None:
        return Check("python.user-site", "ok", wanted, "it is")
    if facts.interpreter.kind == "conda":
        name = facts.interpreter.prefix
        repair = f"conda env config vars set -p {name} PYTHONNOUSERSITE=1 PYTHONPATH= and activate it again"
    else:
        repair = "export PYTHONNOUSERSITE=1"
    return Check("python.user-site", "warning", wanted, f"{folder} is on sys.path", repair)
