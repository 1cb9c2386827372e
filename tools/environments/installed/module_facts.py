"""Where each module would be imported from, found without importing it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping


def locate(names: Iterable[str]) -> Mapping[str, str | None]:
    """The file each top-level module would load, "" where it has none of its own, None where it cannot be found."""
    return {name: _origin(name) for name in names}


def _origin(name: str) -> str | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # a finder of some .pth, or a half-made module, refuses
        return None
    if spec is None:
        return None
    if spec.has_location:
        return spec.origin or ""
    folders = list(spec.submodule_search_locations or ())
    return folders[0] if folders else ""
