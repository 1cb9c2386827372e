"""The fixed text every experiment trains on. It is shipped here, so no data set is ever downloaded."""

from __future__ import annotations

from pathlib import Path

FILE = Path(__file__).resolve().parent / "data" / "passage.txt"


def text() -> str:
    """The whole passage: prose in English and Chinese, a little code, a little arithmetic."""
    return FILE.read_text(encoding="utf-8")
