"""What is already there: nothing, a current environment, one to resume, one to start over, or one to leave alone."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.environments.errors import LabError
from tools.environments.install.install_journal import Progress
from tools.environments.install.planning import InstallRequest
from tools.environments.installed import installed_files, stamp
from tools.environments.installed.stamp import INSTALL
from tools.environments.layout import ENVS
from tools.environments.model import Profile

# Until these are whole the environment has no pip to mend itself with, and making it anew takes seconds.
FOUNDATION = ("create", "isolate", "pip")


@dataclass(frozen=True, slots=True)
class FoundState:
    """What lies at an environment's place, and why that is said."""

    state: Literal["absent", "current", "resume", "restart"]
    reason: str = ""
    stamp: stamp.Stamp | None = None


def look(
    prefix: Path | None,
    progress: Progress | None,
    profile: Profile,
    digest: str,
    identity: Mapping[str, str] | None,
    asked: str = "",
) -> FoundState:
    """What to do about the environment at `prefix`. `identity` is of the install now wanted; None: any will do.

    `asked` is what a command that repairs must ask for again. One that was finished and lost its stamp is to resume.
    LabError for one that is not the installer's to touch: another profile's, one changed by hand, or one it never made.
    """
    if prefix is None or not os.path.lexists(prefix):
        begun = progress is not None and not progress.finished
        return FoundState("absent", "an earlier call was interrupted before there was an environment" if begun else "")
    found = stamp.read(prefix, profile.id)
    if found is not None:
        return _stamped(found, prefix, profile, digest, asked)
    if progress is None:
        raise LabError(
            wanted=f"no environment yet, or one of this installer's, at {prefix}",
            found="one that it did not make: there is neither a stamp nor a journal",
            next=f"{INSTALL} --profile {profile.id} --env-name {prefix.name} --adopt (made by hand for this profile); "
            f"or create a new environment: {new(profile, prefix, asked)}",
            where=str(prefix),
        )
    if progress.identity.get("profile") != profile.id:
        raise refused(profile, prefix, [f"it belongs to {progress.identity.get('profile')}, and is unfinished"], asked)
    if identity is not None and dict(identity) != dict(progress.identity):
        names = [name for name in identity if identity[name] != progress.identity.get(name)]
        return FoundState("restart", f"the unfinished one was made for another {' and '.join(names)}")
    broken = next((step for step in FOUNDATION if step == progress.begun), None)
    if broken or "create" not in progress.done:
        return FoundState("restart", f"it was interrupted in step {broken or 'create'}")
    return FoundState("resume")


def _stamped(found: stamp.Stamp, prefix: Path, profile: Profile, digest: str, asked: str) -> FoundState:
    reasons = stamp.is_current(found, profile, digest, prefix)
    if not reasons:
        broken = installed_files.sweep(installed_files.site_packages(prefix)).broken
        reasons = [f"{item.distribution.name}: {item.problem}" for item in broken[:3]]
    if reasons:
        raise refused(profile, prefix, reasons, asked)
    return FoundState("current", stamp=found)


def refused(profile: Profile, prefix: Path, reasons: list[str], asked: str = "") -> LabError:
    """The finding for an environment that is left alone: a new one, or this one anew, by the user's own word."""
    return LabError(
        wanted=f"an environment of {profile.id} as the installer finished it",
        found="; ".join(reasons),
        next=f"create a new environment: {new(profile, prefix, asked)}\n"
        f"    or build this one anew, losing what is in it: {INSTALL} --profile {profile.id} "
        f"--env-name {prefix.name} --recreate{asked}",
        where=str(prefix),
    )


def no_environment(profile: Profile, prefix: Path, asked: str = "") -> LabError:
    """The finding for a folder that --recreate does not remove."""
    return LabError(
        wanted=f"an environment at {prefix}, as --recreate removes nothing else",
        found="a folder that is no environment",
        next=f"move it away and run the same command again; or create a new environment: {new(profile, prefix, asked)}",
        where=str(prefix),
    )


def asked(request: InstallRequest) -> str:
    """The options that a command which repairs must hold too, or it would make another environment; "" for none."""
    given = ["--backend", request.backend] if request.backend != "auto" else []
    given += ["--python", request.python] if request.python else []
    return f" {shlex.join(given)}" if given else ""


def new(profile: Profile, prefix: Path, asked: str = "") -> str:
    """The command that makes another environment beside this one."""
    from tools.environments.preflight.preflight_facts import fresh_name  # only a refusal needs it

    name = fresh_name(profile.environment, prefix.name, ENVS)
    return f"{INSTALL} --profile {profile.id} --env-name {name}{asked}"


def is_environment(prefix: Path) -> bool:
    """Whether a folder looks like an environment, so that --recreate never removes anything else."""
    return (prefix / "pyvenv.cfg").is_file() or (prefix / "conda-meta").is_dir()


def size_gib(prefix: Path, *, alone: bool = False) -> float:
    """What an environment takes on the disk, in GiB; `alone`: without files that a package cache holds as well."""
    total = 0
    for folder, _, names in os.walk(prefix):
        for name in names:
            with contextlib.suppress(OSError):
                seen = os.lstat(os.path.join(folder, name))
                total += 0 if alone and seen.st_nlink > 1 else seen.st_size
    return total / 2**30


def discard(prefix: Path, state: Path) -> None:
    """Remove an environment: out of the way at once, then file by file, so that a kill leaves no half of it behind."""
    if not os.path.lexists(prefix):
        return
    heap = state / "removed"
    heap.mkdir(parents=True, exist_ok=True)
    place = heap / f"{prefix.name}-{os.getpid()}"
    try:
        os.rename(prefix, place)
    except OSError:  # another file system, or a conda folder: not at once, then
        shutil.rmtree(prefix)
    clear(state)


def clear(state: Path) -> None:
    """Remove what an interrupted removal left."""
    shutil.rmtree(state / "removed", ignore_errors=True)
