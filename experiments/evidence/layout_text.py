"""JSON that people can read in a diff: one line for each thing that is small, nesting only where it helps."""

from __future__ import annotations

import json
from typing import Any

WIDTH = 150


def dumps(value: Any) -> str:
    """The value as JSON text that ends with a line end. Raises ValueError on NaN or infinity."""
    return _text(value, 0) + "\n"


def _text(value: Any, depth: int) -> str:
    flat = json.dumps(value, ensure_ascii=False, allow_nan=False)
    if not value or not isinstance(value, dict | list) or len(flat) + depth <= WIDTH:
        return flat
    inner, outer = " " * (depth + 1), " " * depth
    if isinstance(value, dict):
        lines = [
            f"{inner}{json.dumps(key, ensure_ascii=False)}: {_text(item, depth + 1)}" for key, item in value.items()
        ]
        return "{\n" + ",\n".join(lines) + f"\n{outer}}}"
    return "[\n" + ",\n".join(f"{inner}{_text(item, depth + 1)}" for item in value) + f"\n{outer}]"
