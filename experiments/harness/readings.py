"""What several processes read of one thing, as one number."""

from __future__ import annotations

from collections.abc import Iterable


def largest(readings: Iterable[int | None]) -> int | None:
    """The largest of those that could be read; None where none could."""
    return max((reading for reading in readings if reading is not None), default=None)
