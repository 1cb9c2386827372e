"""Which distributions are installed, read straight from their metadata folders.

Not importlib.metadata: that costs 25 ms to import, parses each description as an e-mail, and raises on a garbled
entry. Here a file that cannot be read, or says nothing usable, becomes a `Problem` and the rest is still told.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tools.environments.registry.pep508 import normalise

METADATA_LIMIT = 4 * 2**20  # bytes; a description longer than this is cut, headers come first


@dataclass(frozen=True, slots=True)
class Distribution:
    """One installed distribution. `place` is the sys.path entry that holds it, `folder` its metadata folder or file."""

    name: str  # normalised: "huggingface-hub"
    version: str  # as written in the metadata
    place: str
    folder: str
    requires: tuple[str, ...]  # Requires-Dist lines, markers included
    installer: str | None  # "pip", "uv", "conda", "debian"


@dataclass(frozen=True, slots=True)
class Problem:
    """A metadata folder that does not tell what it should, and why."""

    path: str
    words: str


@dataclass(frozen=True, slots=True)
class PackageFacts:
    """Everything found along sys.path. `installed` holds what Python would take: the first of each name."""

    installed: Mapping[str, Distribution]
    shadowed: tuple[Distribution, ...] = ()  # later on sys.path than the one that is taken
    problems: tuple[Problem, ...] = field(default=())


def gather(places: Iterable[str]) -> PackageFacts:
    """Read the metadata of every distribution in `places`, sys.path's order. Never raises for what it finds."""
    installed: dict[str, Distribution] = {}
    shadowed: list[Distribution] = []
    problems: list[Problem] = []
    for place in places:
        for entry in _entries(place, problems):
            found = _read(place, entry)
            if isinstance(found, Problem):
                problems.append(found)
            elif found is None:
                continue
            elif found.name not in installed:
                installed[found.name] = found
            elif installed[found.name].place == place:
                if installed[found.name].version == found.version:
                    continue  # Debian keeps an .egg-info beside the .dist-info
                first = os.path.basename(installed[found.name].folder)
                problems.append(Problem(found.folder, f"{found.name} is recorded twice here, also as {first}"))
            else:
                shadowed.append(found)
    return PackageFacts(installed, tuple(shadowed), tuple(problems))


def _entries(place: str, problems: list[Problem]) -> Sequence[str]:
    try:
        return sorted(
            name for name in os.listdir(place) if name.endswith((".dist-info", ".egg-info")) or name[:1] == "~"
        )
    except (FileNotFoundError, NotADirectoryError):
        return ()  # a sys.path entry that vanished holds nothing
    except OSError as error:
        problems.append(Problem(place, f"cannot be listed: {error.strerror}"))
        return ()


def _read(place: str, entry: str) -> Distribution | Problem | None:
    folder = os.path.join(place, entry)
    if entry.startswith("~"):
        return Problem(folder, "left behind by an interrupted uninstall or upgrade")
    try:
        headers = _headers(folder, entry)
    except OSError as error:
        if not isinstance(error, FileNotFoundError):
            return Problem(folder, f"cannot be read: {error.strerror}")
        return Problem(folder, "has no METADATA file") if os.path.isdir(folder) else None
    name, version = headers.get("name", [""])[0], headers.get("version", [""])[0]
    if not normalise(name).strip("-") or not version:
        return Problem(folder, "its METADATA names no package or no version")
    return Distribution(
        normalise(name),
        version,
        place,
        folder,
        tuple(headers.get("requires-dist", ())),
        _first_line(folder, "INSTALLER"),
    )


def _headers(folder: str, entry: str) -> dict[str, list[str]]:
    """The header fields up to the first empty line, by lower-case name; continuation lines are dropped."""
    if entry.endswith(".dist-info"):
        path = os.path.join(folder, "METADATA")
    else:
        path = os.path.join(folder, "PKG-INFO") if os.path.isdir(folder) else folder
    with open(path, "rb") as file:
        text = file.read(METADATA_LIMIT)
    headers: dict[str, list[str]] = {}
    for line in text.decode("utf-8", "replace").split("\n"):
        line = line.rstrip("\r")
        if not line:
            break
        name, colon, value = line.partition(":")
        if colon and not name[:1].isspace():
            headers.setdefault(name.lower(), []).append(value.strip())
    return headers


def _first_line(folder: str, name: str) -> str | None:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(80).decode("utf-8", "replace").strip().lower() or None
    except OSError:
        return None
