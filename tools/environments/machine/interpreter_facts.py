"""Which Python is running, whether it has an environment of its own, and what on sys.path comes from elsewhere.

A folder is foreign when it belongs neither to this environment, nor to its standard library, nor to this checkout:
PYTHONPATH, the user's site-packages, a ROS tree, the system Python's packages seen through a venv.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tools.environments.layout import ENVS, ROOT

Kind = Literal["venv", "conda", "conda-base", "base"]
Source = Literal["PYTHONPATH", "user site", "system Python", "a .pth file or the program"]
STRIPPED_VARIABLE = (
    "TMLAB_STRIPPED_PYTHONPATH"  # what the registered .pth took off sys.path at this interpreter's start
)


@dataclass(frozen=True, slots=True)
class ForeignEntry:
    """One folder that is not the environment's own, and how it came onto sys.path."""

    path: str
    source: Source


@dataclass(frozen=True, slots=True)
class InterpreterFacts:
    """The running interpreter. `packages` are the existing sys.path entries that can hold distributions, in order."""

    executable: str
    version: str
    implementation: str  # "cpython"
    prefix: str
    base_prefix: str
    kind: Kind
    packages: tuple[str, ...]
    foreign: tuple[ForeignEntry, ...]
    pythonpath: tuple[str, ...]  # named by PYTHONPATH and foreign, whether or not this interpreter listened to it
    stripped: tuple[str, ...]  # taken off sys.path by the registration at start
    user_site: str | None  # the user's site-packages folder where it is enabled and on sys.path
    flags: tuple[str, ...]  # isolation options to start a child with, so that it sees the same sys.path


def gather(
    environ: Mapping[str, str] | None = None, path: Sequence[str] | None = None, user_site: str | None = None
) -> InterpreterFacts:
    """Describe this interpreter. The arguments stand in for the process's own environment, sys.path and user site."""
    environ = os.environ if environ is None else environ
    path = sys.path if path is None else path
    user_site = user_site or _user_site()
    kind = environment_kind(sys.prefix, sys.base_prefix)
    named = _split(environ.get("PYTHONPATH", ""))
    entries = [entry for entry in dict.fromkeys(path) if entry and not _is_standard_library(entry)]
    foreign = [
        ForeignEntry(entry, source)
        for entry in entries
        if (source := _source(entry, kind, named, user_site)) is not None
    ]
    return InterpreterFacts(
        executable=sys.executable,
        version=".".join(str(part) for part in sys.version_info[:3]),
        implementation=sys.implementation.name,
        prefix=sys.prefix,
        base_prefix=sys.base_prefix,
        kind=kind,
        packages=tuple(entry for entry in entries if os.path.isdir(entry) and not _same(entry, str(ROOT))),
        foreign=tuple(foreign),
        pythonpath=tuple(entry for entry in named if _is_outside(entry, kind)),
        stripped=tuple(entry for entry in _split(environ.get(STRIPPED_VARIABLE, "")) if _is_outside(entry, kind)),
        user_site=user_site if user_site in entries else None,
        flags=_flags(),
    )


def environment_kind(prefix: str, base_prefix: str) -> Kind:
    """A venv has another base; a conda environment has conda-meta, and conda's own base also has condabin."""
    if prefix != base_prefix:
        return "venv"
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        return "conda-base" if os.path.isdir(os.path.join(prefix, "condabin")) else "conda"
    return "base"


def _user_site() -> str | None:
    """Read from `site` only where the interpreter has loaded it: `python -S` has no user site."""
    site = sys.modules.get("site")
    if site is None or not getattr(site, "ENABLE_USER_SITE", False):
        return None
    folder = getattr(site, "USER_SITE", None)
    return str(folder) if folder else None


def _split(value: str) -> list[str]:
    return [entry for entry in value.split(os.pathsep) if entry]


def _source(entry: str, kind: Kind, named: Sequence[str], user_site: str | None) -> Source | None:
    """How a foreign entry came here; None for the environment's own."""
    if user_site and _same(entry, user_site):
        return "user site"
    if not _is_outside(entry, kind):
        return None
    if any(_same(entry, other) for other in named):
        return "PYTHONPATH"
    if _inside(entry, sys.base_prefix) or _inside(entry, "/usr/lib/python3"):
        return "system Python"
    return "a .pth file or the program"


def _is_outside(entry: str, kind: Kind) -> bool:
    if _inside(entry, str(ROOT)) and not _inside(entry, str(ENVS)):
        return False
    if _inside(entry, sys.prefix) or _is_standard_library(entry) or _same(entry, os.getcwd()):
        return False
    # Debian keeps its own packages beside the prefix's lib folder; for its Python they are the environment.
    return not (kind == "base" and _inside(entry, "/usr/lib/python3"))


def _is_standard_library(entry: str) -> bool:
    library = os.path.dirname(os.__file__)
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    return _same(entry, library) or _same(entry, os.path.join(library, "lib-dynload")) or entry.endswith(archive)


def _inside(path: str, folder: str) -> bool:
    """As the paths are written, or as they are once links are followed: a checkout may be reached through one."""
    return any(_below(one(path), one(folder)) for one in (os.path.normpath, os.path.realpath))


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _same(one: str, other: str) -> bool:
    return os.path.normpath(one) == os.path.normpath(other) or os.path.realpath(one) == os.path.realpath(other)


def _flags() -> tuple[str, ...]:
    if sys.flags.isolated:
        return ("-I",)
    chosen = (("-E", sys.flags.ignore_environment), ("-s", sys.flags.no_user_site))
    return tuple(option for option, is_set in chosen if is_set)
