"""Every relative link of the documents leads to a file, and its anchor to a heading of that file.

Addresses outside the repository are not asked for: a check that depends on someone else's server says nothing of ours.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import unquote

from tools.rendering.document_finding import Finding

_LINK = re.compile(r"\]\(\s*<?([^)\s>]+)>?(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)")
_REFERENCE = re.compile(r"^ {0,3}\[[^\]]+\]:\s+<?(\S+?)>?(?:\s|$)")
_HEADING = re.compile(r"^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$")
_NAMED = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
_CODE = re.compile(r"(`+)(?:(?!\1).)+?\1")
_FENCE = re.compile(r"^ {0,3}(```+|~~~+)")


def check(files: Iterable[Path], root: Path) -> list[Finding]:
    """A finding for each link of `files` that leads nowhere, by line."""
    anchors: dict[Path, frozenset[str]] = {}
    findings = []
    for path in files:
        for line, target in links(path.read_text(encoding="utf-8")):
            problem = _problem(path, target, root, anchors)
            if problem:
                findings.append(Finding(path, line, f"link to {target}: {problem}"))
    return findings


def links(text: str) -> list[tuple[int, str]]:
    """(line, target) of each link into the repository. What stands in code is no link."""
    found = []
    for number, line in prose(text):
        bare = _CODE.sub(" ", line)
        targets = [*_LINK.findall(bare), *_REFERENCE.findall(bare)]
        found += [(number, target) for target in targets if not re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", target)]
    return found


def headings(text: str) -> frozenset[str]:
    """The anchors of a document: those of its titles, and those given by name."""
    return titled(text).union(*(_NAMED.findall(line) for _, line in prose(text)))


def titled(text: str) -> frozenset[str]:
    """The anchors of a document's titles as GitHub makes them: lower case, no punctuation, numbered where repeated."""
    seen: dict[str, int] = {}
    anchors = set()
    for _, line in prose(text):
        heading = _HEADING.match(line)
        if heading is None:
            continue
        slug = _slug(heading[2])
        count = seen.get(slug, 0)
        seen[slug] = count + 1
        anchors.add(f"{slug}-{count}" if count else slug)
    return frozenset(anchors)


def prose(text: str) -> list[tuple[int, str]]:
    """The numbered lines outside fenced code."""
    lines, fence = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = _FENCE.match(line)
        if fence:
            fence = "" if mark and mark[1].startswith(fence) else fence
        elif mark:
            fence = mark[1]
        else:
            lines.append((number, line))
    return lines


def _slug(heading: str) -> str:
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    kept = (c for c in text if c in "-_ " or unicodedata.category(c)[0] in "LN" or unicodedata.category(c) == "Mn")
    return "".join(kept).replace(" ", "-")


def _problem(path: Path, target: str, root: Path, anchors: dict[Path, frozenset[str]]) -> str:
    place, _, anchor = unquote(target).partition("#")
    file = (root / place.lstrip("/") if place.startswith("/") else path.parent / place).resolve() if place else path
    if not file.is_relative_to(root.resolve()) and place:
        return "outside the repository"
    if not file.exists():
        return "no such file"
    if anchor and file.suffix == ".md":
        if file not in anchors:
            anchors[file] = headings(file.read_text(encoding="utf-8"))
        if anchor.lower() not in anchors[file]:
            return "no such heading"
    return ""
