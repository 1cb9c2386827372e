"""Exercises from the mechanisms: the same source with gaps in it, so that exercise and answer cannot drift apart.

A page's exercise.toml names the module, the task, and the gaps: the text that is taken out, and what comes in its
place, a call of `gap` with a hint. The reference answer is the mechanism itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from experiments.conformance import catalogue, mutation, page_files

HELPER = "from experiments.conformance.gaps import gap"


class OpenGapError(Exception):
    """A gap that has not been filled in yet. The message is its hint."""


def gap(number: int, hint: str) -> Any:
    """Stands where code is missing in an exercise. Replace the whole statement by your own."""
    _open(number, hint)


def _open(number: int, hint: str) -> NoReturn:
    raise OpenGapError(f"gap {number}: {hint}")


@dataclass(frozen=True, slots=True)
class Exercise:
    """One page's exercise: `gaps` are pairs of the text taken out and the text put in."""

    page: str
    module: str
    task: str
    gaps: tuple[tuple[str, str], ...]

    def text(self) -> str:
        """The exercise as a learner gets it. Raises LookupError where the mechanism no longer holds a gap's text."""
        text = mutation.source(self.module)
        for old, new in self.gaps:
            if text.count(old) != 1:
                raise LookupError(f"exercise {self.page}: a gap's text stands {text.count(old)} times in {self.module}")
            text = text.replace(old, new)
        return text.replace("\nimport torch\n", f"\nimport torch\n{HELPER}\n", 1)

    @property
    def answer(self) -> Path:
        """The reference answer: the mechanism's own file."""
        return mutation.file_of(self.module)


def load(page: str) -> Exercise:
    """The exercise of one page; LabError (usage) for a page there is none of."""
    entry = catalogue.find(page)
    fields = page_files.exercise(entry.folder)
    gaps = tuple((one["old"], one["new"]) for one in fields["gap"])
    return Exercise(entry.id, fields["module"], fields["task"].strip(), gaps)
