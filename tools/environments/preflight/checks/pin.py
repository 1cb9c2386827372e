"""Does an installed torch lie inside a profile's pin? One rule, asked by the build check and by every repair."""

from __future__ import annotations

from tools.environments.model import TorchPin
from tools.environments.registry.pep440 import SpecifierSet, Version


def build_fits(pin: TorchPin, version: Version, system: str) -> bool:
    """Whether an installed torch is this pin's: public version in its range, local part its build (macOS has none)."""
    local = version.local_text or ("cpu" if system.startswith("darwin") else "")
    return SpecifierSet(pin.specifier).contains(version.public, prereleases=False) and local == pin.build
