"""What is installed in an environment, file by file, checked against each distribution's RECORD.

A package step that was killed leaves files missing or cut short, and neither a second `pip install` nor
`uv pip check` notices: the metadata is there, so the package counts as installed. Here every entry is looked at, and
what is broken is taken out whole, so that the step that runs again installs it anew.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.environments.errors import LabError

INFO_SUFFIX = ".dist-info"


@dataclass(frozen=True, slots=True)
class InstalledDistribution:
    """One installed distribution: its normalised name, its version, and its .dist-info folder."""

    name: str
    version: str
    info: Path


@dataclass(frozen=True, slots=True)
class Broken:
    """A distribution whose files are not what its RECORD says, and the first file that is not."""

    distribution: InstalledDistribution
    problem: str
    count: int


@dataclass(frozen=True, slots=True)
class Sweep:
    """All distributions of one environment checked against their RECORDs: how many files, and which are broken."""

    files: int
    broken: tuple[Broken, ...]


def site_packages(prefix: Path) -> Path:
    """The environment's own site-packages. LabError where there is none, as in a half-created environment."""
    found = sorted(prefix.glob("lib/python3*/site-packages"))
    if not found:
        raise LabError(
            wanted="an environment with site-packages",
            found=f"none under {prefix}",
            next="build it anew by running the install command with --recreate",
            where=str(prefix),
        )
    return found[-1]


def distributions(site: Path) -> tuple[InstalledDistribution, ...]:
    """Every .dist-info in a site-packages folder, by name. Names and versions come from the folder names alone."""
    found = []
    with os.scandir(site) as entries:
        for entry in entries:
            if entry.name.endswith(INFO_SUFFIX):
                name, _, version = entry.name.removesuffix(INFO_SUFFIX).partition("-")
                found.append(InstalledDistribution(normalised(name), version, Path(entry.path)))
    return tuple(sorted(found, key=lambda dist: dist.name))


def normalised(name: str) -> str:
    """A distribution name as PEP 503 compares it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def sweep(site: Path, *, hashes: bool = False) -> Sweep:
    """Hold every distribution against its RECORD: presence and size, and with `hashes` the content too.

    Bytecode is not looked at, as anyone may remove it. What conda itself installed keeps another kind of account and is
    left alone.
    """
    total, broken = 0, []
    keeps_conda = (_prefix(site) / "conda-meta").is_dir()
    folder = os.open(site, os.O_RDONLY)  # looking names up from an open folder takes half the time
    try:
        for dist in distributions(site):
            if keeps_conda and _installer(dist) == "conda":
                continue
            entries = _record(dist)
            if entries is None:
                broken.append(Broken(dist, "its RECORD is missing or cut short", 1))
                continue
            total += len(entries)
            problems = [text for entry in entries if (text := _problem(folder, *entry, hashes=hashes))]
            if problems:
                broken.append(Broken(dist, problems[0], len(problems)))
    finally:
        os.close(folder)
    return Sweep(total, tuple(broken))


def remove(site: Path, broken: Iterable[Broken]) -> None:
    """Take broken distributions out whole. RECORD goes last: killed on the way, the next sweep finds them again."""
    inside = os.path.realpath(_prefix(site))
    for item in broken:
        folders = set()
        for name, _, _ in _record(item.distribution, bytecode=True) or ():
            path = os.path.join(site, name)
            if not os.path.realpath(path).startswith(inside + os.sep) or _is_info(path, item.distribution):
                continue  # an entry that points out of the environment is nobody's to delete
            with contextlib.suppress(OSError):
                os.unlink(path)
            folders.add(os.path.dirname(os.path.normpath(path)))
        _prune(folders, site)
        info = item.distribution.info
        with contextlib.suppress(OSError):
            for name in os.listdir(info):
                if name != "RECORD":
                    _remove(info / name)
        shutil.rmtree(info, ignore_errors=True)


def top_level(site: Path) -> tuple[str, ...]:
    """The names directly in site-packages, sorted."""
    return tuple(sorted(os.listdir(site)))


def strays(site: Path, known: Iterable[str]) -> tuple[str, ...]:
    """Names in site-packages that no RECORD claims and the fresh environment (`known`) did not hold.

    In an environment that the installer made and has not finished these are halves of a killed install.
    """
    claimed = {"__pycache__", *known}
    for dist in distributions(site):
        claimed.add(dist.info.name)
        claimed.update(name.partition("/")[0] for name, _, _ in _record(dist) or ())
    return tuple(name for name in top_level(site) if name not in claimed)


def remove_strays(site: Path, names: Iterable[str]) -> None:
    """Remove these files and folders from site-packages."""
    for name in names:
        _remove(site / name)


def torch_build(site: Path) -> tuple[str, str | None] | None:
    """torch's own version and CUDA version, read from its version.py without importing it; None without torch."""
    try:
        text = (site / "torch" / "version.py").read_text(encoding="utf-8")
    except OSError:
        return None
    version = re.search(r"^__version__\s*=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    cuda = re.search(r"^cuda\s*(?::[^=]*)?=\s*['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return (version[1] if version else "", cuda[1] if cuda else None)


def _record(dist: InstalledDistribution, *, bytecode: bool = False) -> list[tuple[str, str, str]] | None:
    """The (path, hash, size) entries of a RECORD; None where it is missing, cut short or unreadable."""
    try:
        text = (dist.info / "RECORD").read_text(encoding="utf-8")
        if '"' in text:  # a name with a comma in it: rare, and csv takes three times as long
            rows = [row for row in csv.reader(text.splitlines()) if row]
        else:
            rows = [line.rsplit(",", 2) for line in text.splitlines() if line]
    except (OSError, ValueError, csv.Error):
        return None
    if not rows or any(len(row) != 3 for row in rows) or not text.endswith("\n"):
        return None
    return [(row[0], row[1], row[2]) for row in rows if bytecode or not row[0].endswith(".pyc")]


def _problem(folder: int, name: str, digest: str, size: str, *, hashes: bool) -> str:
    try:
        found = os.stat(name, dir_fd=folder)
    except (OSError, ValueError):
        return f"{name} is missing"
    if size and size != str(found.st_size):
        return f"{name} has {found.st_size} bytes instead of {size}"
    if hashes and digest and not _hash_fits(name, folder, digest):
        return f"{name} has other content than was installed"
    return ""


def _hash_fits(name: str, folder: int, recorded: str) -> bool:
    algorithm, _, value = recorded.partition("=")
    with open(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
        found = hashlib.file_digest(file, algorithm).digest()
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode() == value.rstrip("=")


def _installer(dist: InstalledDistribution) -> str:
    try:
        return (dist.info / "INSTALLER").read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _is_info(path: str, dist: InstalledDistribution) -> bool:
    return os.path.dirname(os.path.normpath(path)) == str(dist.info)


def _prefix(site: Path) -> Path:
    return site.parents[2]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _prune(folders: Iterable[str], site: Path) -> None:
    """Remove the folders that hold nothing but bytecode any more, from the inside out, never site-packages itself."""
    for folder in sorted(_with_parents(folders, str(site)), key=len, reverse=True):
        cache = os.path.join(folder, "__pycache__")
        with contextlib.suppress(OSError):
            if set(os.listdir(folder)) <= {"__pycache__"}:
                shutil.rmtree(cache, ignore_errors=True)
                os.rmdir(folder)


def _with_parents(folders: Iterable[str], site: str) -> Iterator[str]:
    seen = set()
    for folder in folders:
        while folder.startswith(site + os.sep) and folder not in seen:
            seen.add(folder)
            yield folder
            folder = os.path.dirname(folder)
