"""One thing wrong with a document, by line: what all checks here return."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """A document, a line (from 1), and what is wrong there."""

    path: Path
    line: int
    message: str

    def to_text(self, root: Path) -> str:
        """`docs/guide.md:12: ...`, which terminals and editors make a link of."""
        return f"{self.path.relative_to(root)}:{self.line}: {self.message}"
