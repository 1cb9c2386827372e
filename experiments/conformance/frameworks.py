"""Which frameworks can serve as oracles here: installed, inside the registered range, and importable.

The ranges are not repeated here; the caller takes them from the requirement text of the profile these pages belong to.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.environments.registry.pep440 import SpecifierSet

TORCH = "torch"  # the oracle of every page; a topic names those beside it


@dataclass(frozen=True, slots=True)
class Framework:
    """One oracle as found. `missing` says why it cannot be used; empty where it can."""

    name: str
    version: str | None
    missing: str = ""


def survey(names: Sequence[str], ranges: Mapping[str, str]) -> dict[str, Framework]:
    """torch and the oracles of `names` as they are installed; `ranges` maps a name to its registered specifier."""
    return {name: look(name, ranges.get(name, "")) for name in (TORCH, *names)}


def look(name: str, wanted: str) -> Framework:
    """One oracle: its version by metadata, whether `wanted` admits it, and whether it can be imported at all."""
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Framework(name, None, f"{name} is not installed")
    if wanted and not SpecifierSet(wanted).contains(version, prereleases=True):
        return Framework(name, version, f"{name} {version} is outside the registered {wanted}")
    try:
        importlib.import_module(name)
    except Exception as error:  # whatever a broken install raises: it is missing, with this reason
        return Framework(name, version, f"{name} {version} cannot be imported ({type(error).__name__})")
    return Framework(name, version)
