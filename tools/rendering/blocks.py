"""Generated parts inside handwritten documents.

    <!-- begin: NAME ARGUMENTS -->
    whatever stands here is replaced
    <!-- end: NAME ARGUMENTS -->

Everything outside the two lines belongs to the author. A part that nothing generates, or that stays open, is a finding.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.environments.errors import LabError
from tools.rendering.document_finding import Finding
from tools.rendering.links import prose

Language = Literal["en", "zh"]
Maker = Callable[[tuple[str, ...], Path], str]  # (arguments, document) -> the text of the part, without a last newline

_BEGIN = re.compile(r"<!-- begin: (\S+)((?: \S+)*) -->")


@dataclass(frozen=True, slots=True)
class Part:
    """One generated part: the lines between `begin` and `end`, which are line numbers from 1."""

    name: str
    arguments: tuple[str, ...]
    begin: int
    end: int


def language(path: Path) -> Language:
    """`zh` for `*.zh.md`, else `en`."""
    return "zh" if path.name.endswith(".zh.md") else "en"


def parts(path: Path, text: str) -> tuple[list[Part], list[Finding]]:
    """The generated parts of a document, and a finding for each that is not closed."""
    lines = text.splitlines()
    found, findings, after = [], [], 0
    for number, line in prose(text):
        opening = _BEGIN.fullmatch(line.strip())
        if opening is None or number <= after:
            continue
        closing = line.strip().replace("begin", "end", 1)
        end = next((at for at in range(number + 1, len(lines) + 1) if lines[at - 1].strip() == closing), None)
        if end is None:
            findings.append(Finding(path, number, f"this part is not closed by {closing}"))
            continue
        found.append(Part(opening[1], tuple(opening[2].split()), number, end))
        after = end
    return found, findings


def renewed(path: Path, text: str, makers: Mapping[str, Maker]) -> tuple[str, list[Finding]]:
    """The document with each part made anew, and what is wrong with its parts."""
    found, findings = parts(path, text)
    lines = text.splitlines()
    for part in reversed(found):
        if part.name not in makers:
            known = ", ".join(sorted(makers))
            findings.append(Finding(path, part.begin, f"nothing generates {part.name!r}; there are {known}"))
            continue
        try:
            made = makers[part.name](part.arguments, path)
        except ValueError as error:
            findings.append(Finding(path, part.begin, str(error)))
            continue
        except LabError as error:  # what this one part derives from is broken: it stays as it is, and others are made
            findings.append(Finding(path, part.begin, f"not made: {error.where}: {error.found}"))
            continue
        lines[part.begin : part.end - 1] = made.splitlines()
    return "\n".join(lines) + "\n", findings


def drift(path: Path, text: str, wanted: str, mend: str) -> list[Finding]:
    """A finding for the first line of each stretch in which a document differs from what it should be."""
    have, want = text.splitlines(), wanted.splitlines()
    findings = []
    for kind, begin, end, _, _ in difflib.SequenceMatcher(None, have, want, autojunk=False).get_opcodes():
        if kind != "equal":
            lines = f"{end - begin} lines differ" if end - begin > 1 else "this differs"
            findings.append(Finding(path, begin + 1, f"{lines} from registry or records; {mend}"))
    return findings
