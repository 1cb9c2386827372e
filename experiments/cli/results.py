"""`results list|show|verify|promote|clear`: runs, and the committed records nothing else writes."""

from __future__ import annotations

import argparse
from typing import Any

from experiments.cli import discovery, finding, results_verify
from experiments.cli.printing import emit, place, say, status, table
from experiments.cli.showing import show_record
from experiments.evidence import store, stored_runs
from experiments.evidence.index import device_of
from experiments.evidence.stored_runs import Found
from tools.environments.errors import EXIT_BLOCKED, EXIT_OK, EXIT_USAGE, LabError, render

ABOUT = {
    "list": "runs and committed records, with their level",
    "show": "one of them as a table",
    "verify": "validate, grade and recompute again; match the sources to a commit",
    "promote": "copy a verified record to experiments/results/",
    "clear": "move a label's unpromoted runs aside",
}


def add_parser(subparsers: Any) -> None:
    """The command, its actions and their options."""
    parser = subparsers.add_parser("results", help="runs and committed records")
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    made = {name: actions.add_parser(name, help=text, description=text) for name, text in ABOUT.items()}
    made["show"].add_argument("label", metavar="LABEL|PATH")
    made["verify"].add_argument("labels", metavar="LABEL|PATH", nargs="*", help="without one: every committed record")
    made["promote"].add_argument("label", metavar="LABEL")
    made["clear"].add_argument("label", metavar="LABEL")
    for name, action in made.items():
        if name != "list":
            action.add_argument("--experiment", help="when several experiments used the label")
        action.add_argument("--json", action="store_true", help="print JSON and nothing else")


def run(args: argparse.Namespace) -> int:
    """Do the action; returns the exit code."""
    actions = {"list": _list, "show": _show, "verify": results_verify.run, "promote": _promote, "clear": _clear}
    return actions[args.action](args)


def _list(args: argparse.Namespace) -> int:
    found = stored_runs.everything()
    if args.json:
        emit([_about(one) for one in found])
        return EXIT_OK
    if not found:
        say("no runs and no committed records yet")
        say("→ python -m experiments list")
        return EXIT_OK
    head = ("experiment", "run label", "state", "level", "workload", "device")
    for line in table(head, [_cells(one) for one in found], indent=""):
        say(line)
    for one in found:
        if one.error is not None:
            say()
            say(render(one.error))
    return EXIT_OK


def _show(args: argparse.Namespace) -> int:
    record = finding.one(args.label, args.experiment).record
    if args.json:
        emit(record.to_json())
    else:
        show_record(record)
    return EXIT_OK


def _promote(args: argparse.Namespace) -> int:
    if finding.is_path(args.label):
        raise LabError("a run label", "a path", "give the label alone", "LABEL", EXIT_USAGE)
    found = stored_runs.find(args.label, args.experiment)
    registered = discovery.registered_digests()
    target = stored_runs.promote(found, lambda record: results_verify.recomputed(record, registered))
    level = store.read(target).evidence_level
    if args.json:
        emit({"status": "promoted", "path": place(target), "evidence_level": level})
    else:
        say(f"{status('ok')} promoted {found.label} as {level}")
        say(f"→ git add {place(target)}")
    return EXIT_OK


def _clear(args: argparse.Namespace) -> int:
    moved, kept = stored_runs.clear(args.label, args.experiment)
    if args.json:
        emit({"status": "cleared" if moved else "kept", "moved": [place(path) for path in moved], "kept": kept})
        return EXIT_OK if moved else EXIT_BLOCKED
    for path in moved:
        say(f"moved   {args.label} → {place(path)}")
    for experiment in kept:
        say(f"kept    {experiment}/{args.label}: its record is promoted")
    return EXIT_OK if moved else EXIT_BLOCKED


def _about(found: Found) -> dict[str, Any]:
    record = found.record
    return {
        "experiment": found.experiment,
        "run_label": found.label,
        "state": found.state,
        "path": place(found.path),
        "evidence_level": record.evidence_level if record else None,
        "profile": record.profile.id if record else None,
        "workload": record.workload.title if record else None,
        "device": device_of(record) if record else None,
        "created_at": record.identity.created_at if record else None,
        "error": render(found.error) if found.error else None,
    }


def _cells(found: Found) -> tuple[str, ...]:
    record = found.record
    level = status(record.evidence_level or "plan") if record else ""
    about = (record.workload.title, device_of(record)) if record else ("", "")
    return found.experiment, found.label, status(found.state), level, *about
