"""`report`: one row for each profile, experiment and registered workload, read from the committed records.

A row without a record of that very profile reads "not measured": another profile's result never fills it.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from typing import Any

from experiments.cli import discovery
from experiments.cli.printing import emit, say, status, table
from experiments.evidence import index, labels
from experiments.evidence.index import Row
from tools.environments.errors import EXIT_BLOCKED, EXIT_OK, render
from tools.environments.model import Profile
from tools.environments.registry import registry


def add_parser(subparsers: Any) -> None:
    """The command and its options."""
    parser = subparsers.add_parser("report", help="every profile's rows: what was measured, reproduced, or not yet")
    parser.add_argument("--profile", metavar="ID", help="only this profile's rows")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Print the index; exit code 1 when a file among the results is no valid record, or an experiment is broken."""
    entries, unread = index.load(labels.results_folder())
    broken = discovery.each()[1]
    refused = (*unread, *broken.values())
    known = registry.load()
    if args.profile:
        known.get(args.profile)  # refuses an unknown one, with the nearest names
    rows = index.rows(wanted(known.profiles.values(), without=broken), entries)
    rows = tuple(row for row in rows if args.profile in (None, row.profile))
    code = EXIT_BLOCKED if refused else EXIT_OK
    if args.json:
        emit({"rows": [as_json(row) for row in rows], "refused": [render(error) for error in refused]})
        return code
    head = ("profile", "experiment", "workload", "status", "device", "runs", "decision")
    for line in table(head, [_cells(row) for row in rows], indent=""):
        say(line)
    if not rows:
        say("no experiment is registered for this profile: environment only")
    for error in refused:
        say()
        say(render(error))
    return code


def wanted(profiles: Iterable[Profile], without: Collection[str] = ()) -> dict[str, list[tuple[str, str]]]:
    """The (experiment, workload) pairs each profile is to have a row for: the registry names the experiments.

    LabError for an experiment of theirs that is broken and not among those to be left out.
    """
    asked = {profile.id: profile.experiments for profile in profiles}
    known = discovery.packages().keys() - set(without)
    needed = {name for names in asked.values() for name in names if name in known}
    workloads = {name: tuple(discovery.load(name).workloads) for name in sorted(needed)}
    return {
        profile: [(name, workload) for name in names if name in known for workload in workloads[name]]
        for profile, names in asked.items()
    }


def as_json(row: Row) -> dict[str, Any]:
    """A row as JSON values."""
    decision = row.entries[0].record.decision if row.entries else None
    return {
        "profile": row.profile,
        "experiment": row.experiment,
        "workload": row.workload,
        "status": row.status,
        "device": row.device or None,
        "run_labels": [entry.record.identity.run_label for entry in row.entries],
        "decision": decision.code if decision else None,
    }


def _cells(row: Row) -> tuple[str, ...]:
    runs = ", ".join(entry.record.identity.run_label for entry in row.entries)
    decision = row.entries[0].record.decision.code if row.entries else ""
    return row.profile, row.experiment, row.workload, status(row.status), row.device, runs, decision
