"""The changelog's fragments: one file per topic in changelog.d/, put together in CHANGELOG.md at a release.

Two topics that are worked on at once touch no common line that way. A tool such as towncrier would bring packages and a
template for one command, and lint would still have to check the form. A fragment holds one section or more, each named
as Keep a Changelog names it, each a list:

    ### Added

    - What somebody who uses the lab notices, in a sentence.

The folder's README.md says the same to those who come by; it is no fragment.
"""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tools.environments.errors import EXIT_USAGE, LabError, unreadable
from tools.rendering.document_finding import Finding
from tools.rendering.links import links

FOLDER = "changelog.d"
CHANGELOG = "CHANGELOG.md"
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\.md")
_VERSION = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")


def fragments(root: Path) -> list[Path]:
    """The fragments of the checkout at `root`, by name."""
    return sorted(path for path in (root / FOLDER).glob("*") if path.is_file() and path.name != "README.md")


def check(root: Path) -> list[Finding]:
    """What is wrong with the fragments, by file and line."""
    folders = sorted(path for path in (root / FOLDER).glob("*") if path.is_dir())
    nested = [Finding(path, 1, f"a folder is never released: put its fragments into {FOLDER}/") for path in folders]
    return nested + [finding for path in fragments(root) for finding in _check(path)]


def _check(path: Path) -> Iterator[Finding]:
    if _NAME.fullmatch(path.name) is None:
        yield Finding(path, 1, "a fragment has a name such as parallelism.md: small letters, digits and -")
        return
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        yield Finding(path, 1, "a fragment is text in UTF-8")
        return
    kind, seen, filled = "", set[str](), False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            if kind and not filled:
                yield Finding(path, number, f"nothing is listed under ### {kind}")
            kind, filled = line.removeprefix("### ").strip(), False
            if not line.startswith("### ") or kind not in KINDS:
                yield Finding(path, number, f"a section is one of {', '.join(f'### {name}' for name in KINDS)}")
            elif kind in seen:
                yield Finding(path, number, f"### {kind} is here twice")
            seen.add(kind)
        elif line.startswith("- ") and kind:
            filled = True
            if not line[1:].strip():
                yield Finding(path, number, "this entry is empty")
        elif line.strip() and not (line.startswith("  ") and filled):
            yield Finding(path, number, "this is no section, no `- ` entry, and not the two blanks that continue one")
    if not filled:
        wanted = f"nothing is listed under ### {kind}" if kind else "a fragment has a section such as ### Added"
        yield Finding(path, max(1, len(text.splitlines())), wanted)
    for number, target in links(text):
        if not target.startswith("/"):
            yield Finding(
                path, number, f"link to {target}: write it from the root, as /docs/..., since this text moves"
            )


def release(root: Path, version: str, date: str) -> Path:
    """Put all fragments under a heading of this version in CHANGELOG.md, newest first, and remove them.

    LabError for a version or date (YYYY-MM-DD) that is none, a version that is there, no fragment, or a broken one.
    """
    _refuse_form(version, date)
    target, found = root / CHANGELOG, fragments(root)
    try:
        text = target.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(error, CHANGELOG) from None
    heading = f"## {version} - {date}"
    if any(line.startswith(f"## {version} ") for line in text.splitlines()):
        fix = "choose the next version; if that release was interrupted, remove the fragments it left behind"
        raise LabError(f"a version that {CHANGELOG} lacks", version, fix, where=CHANGELOG)
    wrong = check(root)
    if wrong:
        raise LabError("fragments that hold", wrong[0].to_text(root), "fix it, then: invoke assets.check", where=FOLDER)
    if not found:
        raise LabError(
            "fragments to release", f"none in {FOLDER}/", "write one: CONTRIBUTING.md says how", where=FOLDER
        )
    head, mark, older = text.partition("\n## ")
    parts = [head.rstrip("\n"), heading, _sections(found), *([f"## {older}".rstrip("\n")] if mark else [])]
    aside = target.with_suffix(".new")
    aside.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    os.replace(aside, target)
    for path in found:
        path.unlink()
    return target


def _sections(found: list[Path]) -> str:
    """All entries, by kind in the order of KINDS, and within one by the fragment's name.

    Blank lines inside an entry are kept: they part its paragraphs, or belong to its code. Those between entries go.
    """
    entries: dict[str, list[str]] = {kind: [] for kind in KINDS}
    for path in found:
        kind, blank = "", 0
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.strip():
                blank += 1
                continue
            if line.startswith("### "):
                kind = line.removeprefix("### ").strip()
            else:
                inside = blank if line.startswith("  ") else 0
                entries[kind] += [*[""] * inside, line.rstrip()]
            blank = 0
    return "\n\n".join(f"### {kind}\n\n" + "\n".join(lines) for kind, lines in entries.items() if lines)


def _refuse_form(version: str, date: str) -> None:
    if _VERSION.fullmatch(version) is None:
        next_ = "invoke assets.release --version 0.2.0"
        raise LabError("a version of three numbers, such as 0.2.0", ascii(version)[:80], next_, "--version", EXIT_USAGE)
    try:
        good = datetime.date.fromisoformat(date).isoformat() == date
    except ValueError:
        good = False
    if not good:
        next_ = "leave --date out for today"
        raise LabError("a date such as 2026-12-01", ascii(date)[:80], next_, "--date", EXIT_USAGE)
