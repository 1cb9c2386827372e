"""What a failed child said, turned into wanted, found and what to do: the reader should not have to read pip's log.

Each rule is a pattern from the tools' own messages. What none of them knows is shown by its last lines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.environments.errors import LabError
from tools.environments.model import InstallStep
from tools.environments.sources.index_settings import NEXT_STEP, without_credentials

LAST_LINES = 8
FULL_BYTES = 8 * 2**20
AGAIN = "then run the same command again: it resumes at this step"
_NAME = r"`?([A-Za-z0-9][A-Za-z0-9._-]*(?:\[[^\]]*\])?(?:\s*[=<>!~][^`\s]*)?)`?"
_FULL = re.compile(r"No space left on device|os error 28\b|\[Errno 28\]|Disk quota exceeded|os error 122\b", re.I)
_REFUSED = re.compile(r"Permission denied|Read-only file system|os error 13\b|os error 30\b", re.I)
_LOGIN = re.compile(r"\b40[13]\b[^\n]*Client Error|Unauthorized|Forbidden", re.I)
_ABSENT = (
    re.compile(rf"Because {_NAME} was not found in the (?:package registry|provided package locations)"),
    re.compile(rf"No matching distribution found for {_NAME}"),
    re.compile(rf"[Bb]ecause there (?:is|are) no versions? of {_NAME}"),
    re.compile(rf"Because only [^\n]* (?:is|are) available and you require {_NAME}"),
    re.compile(r"not available from current channels:\s*- (\S+)"),
)
_CONFLICT = re.compile(r"ResolutionImpossible|conflicting dependencies|we can conclude that|are unsatisfiable")
_UNREACHABLE = re.compile(
    r"Failed to fetch|error sending request|dns error|Connection refused|NewConnectionError|Max retries exceeded|"
    r"ReadTimeout|ConnectTimeout|timed out|name resolution|Network is unreachable|CondaHTTPError|"
    r"Could not connect|Request failed after|tcp connect error|Connection reset|NameResolutionError",
    re.IGNORECASE,
)
_URL = re.compile(r"(?:https?|file)://[^\s`'\"<>)]+")


def explain(step: InstallStep, code: int, lines: Sequence[str], free_bytes: int) -> LabError:
    """The finding for a step whose child ended with `code` after saying `lines`, with so much room on the disk then."""
    text = without_credentials("\n".join(lines))
    where = f"step {step.id}"
    last = "\n         ".join(without_credentials(line.rstrip()) for line in lines[-LAST_LINES:])
    full = _FULL.search(text)
    if full or free_bytes < FULL_BYTES:  # on a disk that is quite full a tool cannot even write down why it failed
        found = _line_of(_FULL, text) if full else f"{free_bytes / 2**20:.1f} MiB left when step {step.id} failed"
        mend = f"free some space (pip cache purge; uv cache clean), {AGAIN}"
        return LabError("room on the disk", found, mend, where)
    if _REFUSED.search(text) and not _UNREACHABLE.search(text):
        return LabError("a folder this user may write", _line_of(_REFUSED, text), f"mend its owner, {AGAIN}", where)
    if _LOGIN.search(text):
        found = f"{_address(text)}: {_line_of(_LOGIN, text)}"
        mend = f"give the right login in its address; {AGAIN}"
        return LabError("a package source that lets you in", found, mend, where)
    if package := _absent(text):
        found = f"{package}: the package sources in use do not have it"
        mend = f"use a source that has it: {NEXT_STEP}; {AGAIN}"
        if _UNREACHABLE.search(text):
            found = f"{package}: {_address(text)} did not answer"
        return LabError(f"every package that {_subject(step)}", found, mend, where)
    if _UNREACHABLE.search(text):
        found = f"{_address(text)} did not answer: {_line_of(_UNREACHABLE, text)}"
        return LabError("a package source that answers", found, f"{NEXT_STEP}; {AGAIN}", where)
    if _CONFLICT.search(text):
        return LabError(f"versions that fit each other, as {_subject(step)}", last, f"{NEXT_STEP}; {AGAIN}", where)
    return LabError(
        f"step {step.id} to end well", f"exit code {code}\n         {last}", f"mend what it says, {AGAIN}", where
    )


def _absent(text: str) -> str | None:
    for pattern in _ABSENT:
        if match := pattern.search(text):
            return match[1].rstrip(",.;:")
    return None


def _address(text: str) -> str:
    match = _URL.search(text)
    return match[0].rstrip(".,:;") if match else "the index"


def _line_of(pattern: re.Pattern[str], text: str) -> str:
    line = next((line for line in text.splitlines() if pattern.search(line)), "")
    return " ".join(line.split())[-300:]


def _subject(step: InstallStep) -> str:
    return step.reason if step.reason.startswith("what ") else f"step {step.id} asks for"
