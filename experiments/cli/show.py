"""`show NAME|PATH`: one record as a table. For an experiment, the newest record of the best level."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.cli import finding
from experiments.cli.printing import emit, place, say, status
from experiments.cli.showing import show_record
from experiments.evidence import index
from experiments.evidence.index import Entry
from experiments.evidence.vocabulary import LEVELS


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser("show", help="a record as a table")
    parser.add_argument("name", metavar="NAME|PATH", help="an experiment, a record file or a run folder")
    parser.add_argument("--device", help="part of the device's name, such as H200")
    parser.add_argument("--workload", help="a workload's name")
    parser.add_argument("--run-label", help="one run of that experiment")
    parser.add_argument("--json", action="store_true", help="print the record as JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print it; returns the exit code."""
    if finding.is_path(args.name):
        entries = finding.choose([finding.one(args.name)], args.device, args.workload, args.run_label)
    else:
        known = finding.of_experiment(args.name, args.run_label)
        entries = finding.choose(known, args.device, args.workload, args.run_label)
    best = best_of(entries)
    alike = [entry for entry in entries if not index.differing_rows(best.record, entry.record)]
    standing = index.status_of([entry.record for entry in alike])
    if args.json:
        emit(best.record.to_json())
        return 0
    show_record(best.record, standing)
    say(f"{'record':<14}{place(best.path)}")
    others = [entry.record.identity.run_label for entry in entries if entry is not best]
    if others:
        say(f"{'others':<14}{', '.join(others[:8])}{' ...' if len(others) > 8 else ''}  (--run-label LABEL)")
    for label in [] if finding.is_path(args.name) else finding.unreadable(args.name):
        say(f"{status('unreadable')}    {label}  → python -m experiments results verify {label}")
    return 0


def best_of(entries: list[Entry]) -> Entry:
    """The newest among those of the highest level, registered workloads first; `entries` are newest first."""
    return max(
        entries,
        key=lambda entry: (LEVELS.index(entry.record.evidence_level or "plan"), entry.record.workload.registered),
    )
