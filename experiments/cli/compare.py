"""`compare A B`: two records of the same thing, or that differ in the one field named by --across."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.cli import finding
from experiments.cli.printing import emit, say, status, table
from experiments.evidence import record_comparison as comparing
from experiments.evidence.codec import to_json
from experiments.evidence.quantities import gib, milliseconds, percent
from experiments.evidence.record_comparison import Difference, Pair


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser("compare", help="two records of the same thing, side by side")
    parser.add_argument("first", metavar="A", help="run label, record file or run folder")
    parser.add_argument("second", metavar="B", help="the one checked against A")
    parser.add_argument(
        "--across", metavar="FIELD", help=f"the one field that may differ: {', '.join(comparing.FIELDS)}"
    )
    parser.add_argument("--experiment", help="when several experiments used the label")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print the comparison; returns the exit code."""
    first = finding.one(args.first, args.experiment).record
    second = finding.one(args.second, args.experiment).record
    found = comparing.compare(first, second, args.across)
    if args.json:
        emit(to_json(found))
        return 0
    levels = f"{status(first.evidence_level or 'plan')} and {status(second.evidence_level or 'plan')}"
    say(f"{first.identity.experiment} · {found.second} against {found.first} · {levels}")
    if found.across and found.across_values:
        say(f"across {found.across}: {found.across_values[0]} against {found.across_values[1]}")
    floor = "not known: verdicts are ambiguous" if found.noise_floor is None else percent(found.noise_floor)
    say(f"noise floor of both runs together {floor}")
    say()
    unit = "" if found.quantity is None else f" {found.quantity.unit}"
    head = (
        "candidate",
        f"{found.first}{unit}",
        f"{found.second}{unit}",
        "ratio (95 % interval)",
        "verdict",
        "peak GiB",
    )
    for line in table(head, [_row(pair) for pair in found.pairs]):
        say(line)
    missing = _unpaired(found, first, second)
    if missing:
        say(f"  in one of them only: {', '.join(missing)}")
    return 0


def _row(pair: Pair) -> tuple[str, ...]:
    ratio = "" if pair.ratio is None else f"{pair.ratio:.3f}  ({pair.low:.3f} - {pair.high:.3f})"
    peaks = " → ".join(filter(None, (gib(pair.first_peak_bytes), gib(pair.second_peak_bytes))))
    word = pair.verdict or " / ".join(pair.statuses)
    return pair.candidate, milliseconds(pair.first_value), milliseconds(pair.second_value), ratio, word, peaks


def _unpaired(found: Difference, first: Any, second: Any) -> list[str]:
    paired = {pair.candidate for pair in found.pairs}
    names = [candidate.name for record in (first, second) for candidate in record.candidates]
    return sorted({name for name in names if name not in paired})
