"""The stamp of a finished environment: which profile it is, from which text and tools it was made, what it holds.

It is written last and once, as <prefix>/environment-stamp.json, and answers one question: is this environment still
the one the registry describes? It holds no credentials and no user's name but the folder it lies in.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tools.environments.errors import LabError
from tools.environments.installed.environment_lock import unwritable
from tools.environments.installed.installed_files import distributions, site_packages
from tools.environments.model import Profile

FILE_NAME = "environment-stamp.json"
FORMAT = 1
INSTALL = "python tools/install_environment_profile.py"
# pip tells its users to upgrade it, and measures nothing: another pip does not make another environment.
UNCOUNTED = ("pip",)


@dataclass(frozen=True, slots=True)
class Stamp:
    """One finished environment. `packages` is what was installed when it was finished, by normalised name."""

    profile: str
    requirement_digest: str
    prefix: str
    interpreter: Mapping[str, str]  # "version" 3.11.7, "base" the executable it was made from
    torch: str | None
    backend: str  # "conda", "uv", "venv"; "adopted" for an environment made by hand
    index: Mapping[str, Any]
    packages: Mapping[str, str]
    created_at: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    format: int = FORMAT

    @property
    def packages_digest(self) -> str:
        """SHA-256 of the installed set."""
        return digest(self.packages)


def digest(packages: Mapping[str, str]) -> str:
    """SHA-256 over `name==version` lines, "sha256:..."."""
    lines = "\n".join(f"{name}=={version}" for name, version in sorted(packages.items()))
    return "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def installed(prefix: Path) -> dict[str, str]:
    """The packages of an environment that count, by normalised name."""
    found = {dist.name: dist.version for dist in distributions(site_packages(prefix))}
    return {name: found[name] for name in sorted(found) if name not in UNCOUNTED}


def write(stamp: Stamp) -> Path:
    """Write the stamp whole or not at all. LabError where the folder refuses."""
    target = Path(stamp.prefix) / FILE_NAME
    part = target.with_suffix(".part")
    content = {**asdict(stamp), "packages_digest": stamp.packages_digest}
    try:
        with open(part, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise unwritable(target.parent, error) from error
    return target


def read(prefix: Path, profile: str = "ID") -> Stamp | None:
    """The stamp of an environment; None where it has none. LabError where the file is torn or of another format.

    `profile` is what the environment should be of, for the command that builds it anew.
    """
    path = prefix / FILE_NAME
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _torn(path, profile, error.strerror or "it cannot be read") from None
    except (ValueError, RecursionError):
        raise _torn(path, profile, "it is not whole JSON") from None
    if not isinstance(content, dict):
        raise _torn(path, profile, "it is JSON, but not a stamp")
    try:
        return _parsed(content)
    except KeyError as error:
        raise _torn(path, profile, f"it has no {error.args[0]}") from None
    except (TypeError, ValueError) as error:
        raise _torn(path, profile, str(error)[:120]) from None


def is_current(stamp: Stamp, profile: Profile, requirement_digest: str, prefix: Path) -> list[str]:
    """Why the environment is not the one the registry describes; empty when it is.

    The first reason is the weightiest: another profile, then another text, then what was changed by hand.
    """
    if stamp.profile != profile.id:
        return [f"it belongs to {stamp.profile}"]
    reasons = []
    if stamp.requirement_digest != requirement_digest:
        reasons.append("the registry or a requirement file asks for other packages than it was made from")
    if os.path.realpath(stamp.prefix) != os.path.realpath(prefix):
        reasons.append(f"it was moved from {stamp.prefix}, and its scripts still name that folder")
    python = prefix / "bin" / "python"
    if not os.access(python, os.X_OK):
        reasons.append(f"its interpreter is gone ({os.path.realpath(python)})")
    elif difference := changed(stamp.packages, installed(prefix)):
        reasons.append(f"packages were changed by hand: {difference}")
    return reasons


def changed(stamped: Mapping[str, str], found: Mapping[str, str], *, at_most: int = 4) -> str:
    """How two sets of packages differ, in words; empty when they do not."""
    parts = [f"{name} {found[name]} added" for name in found if name not in stamped]
    parts += [f"{name} {stamped[name]} removed" for name in stamped if name not in found]
    parts += [f"{n} {stamped[n]} -> {found[n]}" for n in stamped if n in found and stamped[n] != found[n]]
    rest = len(parts) - at_most
    return ", ".join(sorted(parts)[:at_most]) + (f" and {rest} more" if rest > 0 else "")


def _parsed(content: dict[str, Any]) -> Stamp:
    if content["format"] != FORMAT:
        raise ValueError(f"format {content['format']}, not {FORMAT}")
    stamp = Stamp(
        profile=_text(content["profile"]),
        requirement_digest=_text(content["requirement_digest"]),
        prefix=_text(content["prefix"]),
        interpreter={name: _text(value) for name, value in _table(content, "interpreter").items()},
        torch=None if content["torch"] is None else _text(content["torch"]),
        backend=_text(content["backend"]),
        index=_table(content, "index"),
        packages={name: _text(value) for name, value in _table(content, "packages").items()},
        created_at=_text(content["created_at"]),
    )
    if content["packages_digest"] != stamp.packages_digest:
        raise ValueError("its digest does not fit its packages")
    return stamp


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:20]!r} where a text belongs")
    return value


def _table(content: dict[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(content[name], dict):
        raise TypeError(f"its {name} is no table of names and values")
    return dict(content[name])


def _torn(path: Path, profile: str, found: str) -> LabError:
    return LabError(
        wanted="a stamp that the installer wrote",
        found=found,
        next=f"where you made it by hand, remove {path} and adopt it with --adopt; else build it anew, losing what is "
        f"in it: {INSTALL} --profile {profile} --env-name {path.parent.name} --recreate",
        where=str(path.parent),
    )
