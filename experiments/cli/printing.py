"""How this command line looks: status words, aligned columns, colour as a second signal only, JSON and nothing else.

Columns are plain text and align in a pipe as on a terminal; wide characters count as two cells.
"""

from __future__ import annotations

import json
import os
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from tools.environments.errors import LabError

COLOURS: Mapping[str, str] = {
    "ok": "32",
    "gpu_measured": "32",
    "gpu_reproduced": "32",
    "cpu_mechanism": "36",
    "gpu_smoke": "33",
    "warning": "33",
    "interrupted": "33",
    "blocked": "31",
    "broken": "31",
    "unreadable": "31",
    "not measured": "2",
    "skipped": "2",
}


def blocked(error: LabError) -> dict[str, str]:
    """What --json says of an error."""
    return {"status": "blocked", **{name: getattr(error, name) for name in ("wanted", "found", "next", "where")}}


def emit(value: Any) -> None:
    """One JSON value on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n")


def say(line: str = "") -> None:
    """One line on stdout."""
    sys.stdout.write(line + "\n")


def status(word: str, stream: TextIO | None = None) -> str:
    """The word, coloured on a terminal unless NO_COLOR is set."""
    code = COLOURS.get(word)
    return f"\x1b[{code}m{word}\x1b[0m" if code and coloured(stream or sys.stdout) else word


def coloured(stream: TextIO) -> bool:
    """Whether colour may be used there."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and stream.isatty()


def table(head: Sequence[str], rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Lines of an aligned table, the head first (left out when empty). The last column is not padded.

    Without a row there is no table, and no head to stand alone.
    """
    if not rows:
        return []
    lines = [list(head), *map(list, rows)] if any(head) else list(map(list, rows))
    widths = [max(width(line[column]) for line in lines if column < len(line)) for column in range(len(lines[0]))]
    return [
        (indent + "   ".join(pad(cell, size) for cell, size in zip(line, widths, strict=True))).rstrip()
        for line in lines
    ]


def pad(text: str, size: int) -> str:
    """Text filled with spaces to `size` cells."""
    return text + " " * (size - width(text))


def width(text: str) -> int:
    """Cells a text takes: wide characters two, combining ones none, colour codes none."""
    cells, inside = 0, False
    for character in text:
        if character == "\x1b":
            inside = True
        elif inside:
            inside = character != "m"
        elif not unicodedata.combining(character):
            cells += 2 if unicodedata.east_asian_width(character) in "WF" else 1
    return cells


def place(path: Path) -> str:
    """A path as it is shown: relative to the working folder where it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd().resolve()))
    except ValueError:
        return str(path)
