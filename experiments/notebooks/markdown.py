"""What a cell shows: Markdown in a notebook, the same text elsewhere; and a finding on one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tools.environments.errors import LabError


@dataclass(frozen=True, slots=True)
class Markdown:
    """A text that Jupyter renders when it is a cell's last value, and that reads well where nothing renders it."""

    text: str

    def _repr_markdown_(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table. A bar inside a cell is escaped, so that it stays one cell."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def block(text: str, language: str = "") -> str:
    """Text in a fence, as it stands."""
    return f"```{language}\n{text.rstrip()}\n```"


def finding(error: LabError) -> str:
    """What stands in the way, on one line: the status word, wanted and found, one arrow with what to do."""
    place = f" · {error.where}" if error.where else ""
    parts = f"blocked{place}: wanted {error.wanted}; found {error.found} → {error.next}"
    return " ".join(parts.split())


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
