"""A report as people read it, and as programs do: the status word first, wanted and found, one arrow with the repair.

The JSON shape is the one that records embed.
"""

from __future__ import annotations

from typing import Any

from tools.environments.model import Check, Report

WIDTH = 110  # a check whose line would be longer gets a line for each part
INDENT = " " * 11
NAME_WIDTH = 15  # of the ids, or as wide as the longest one shown
COLOURS = {"ok": "32", "warning": "33", "blocked": "31", "accepted": "36"}


def to_json(report: Report) -> dict[str, Any]:
    """The one JSON shape of a report."""
    return {
        "profile": report.profile,
        "registry_digest": report.registry_digest,
        "status": report.status,
        "accepted": list(report.accepted),
        "checks": [
            {
                "id": check.id,
                "status": check.status,
                "wanted": check.wanted,
                "found": check.found,
                "repair": check.repair,
            }
            for check in report.checks
        ],
    }


def to_text(report: Report, *, colour: bool = False) -> str:
    """The summary line, then every check that is blocked or a warning."""
    lines = [_summary(report, colour)]
    shown = [check for status in ("blocked", "warning") for check in report.checks if check.status == status]
    width = max((len(check.id) for check in shown), default=0)
    first: dict[str, str] = {}  # repair -> the check that it was told for
    for check in shown:
        word = "accepted" if check.id in report.accepted else check.status
        lines.extend(_lines(check, word, max(width, NAME_WIDTH), colour))
        if check.repair:
            told = first.setdefault(check.repair, check.id)
            lines.append(f"{INDENT}→ {check.repair if told == check.id else f'as for {told}'}")
    return "\n".join(lines)


def _summary(report: Report, colour: bool) -> str:
    count = {status: sum(check.status == status for check in report.checks) for status in ("blocked", "warning", "ok")}
    skipped = len(report.checks) - sum(count.values())
    accepted = len(report.accepted)
    parts = [f"{count['blocked']} blocked"] if count["blocked"] else []
    warnings = count["warning"] - accepted
    parts += [f"{warnings} warning{'s' if warnings > 1 else ''}"] if warnings else []
    parts += [f"{accepted} accepted"] if accepted else []
    parts += [f"{count['ok']} checks ok" if not parts else f"{count['ok']} ok"]
    parts += [f"{skipped} do not apply here"] if skipped else []
    return f"{_coloured(f'status={report.status}', report.status, colour)} · {', '.join(parts)}"


def _lines(check: Check, word: str, width: int, colour: bool) -> list[str]:
    head = f"  {_coloured(word, word, colour)}{' ' * (9 - len(word))}{check.id:<{width}} "
    wanted, found = f"wanted {check.wanted}", f"found {check.found}"
    if len(INDENT) + width + len(wanted) + len(found) + 4 <= WIDTH:
        return [f"{head}{wanted}   {found}"]
    return [f"{head}{wanted}", f"{INDENT}{' ' * (width + 1)}{found}"]


def _coloured(text: str, word: str, colour: bool) -> str:
    return f"\x1b[{COLOURS[word]}m{text}\x1b[0m" if colour else text
