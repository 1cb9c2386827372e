"""`results verify`: is each record still valid, graded as it should be, computed from its samples, and of a commit?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.cli import concluded_again, discovery, finding, kind_check, sentences_check
from experiments.cli.printing import emit, place, say, status, table
from experiments.evidence import index, labels, rules, superseding, verifying
from experiments.evidence.index import Entry
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import Known
from tools.environments.errors import EXIT_BLOCKED, EXIT_OK, EXIT_USAGE, LabError
from tools.environments.model import Check


def run(args: argparse.Namespace) -> int:
    """Verify the records named, or every committed one; exit code 1 when one does not hold."""
    targets = _targets(args)
    registered = discovery.registered_digests()
    told: list[dict[str, Any]] = []
    blocked = False
    for name, entry in targets:
        checks = _checks(entry, registered)
        worst = verifying.worst(checks)
        blocked = blocked or worst == "blocked"
        if args.json:
            told.append({"record": name, "status": worst, "checks": [_check_json(check) for check in checks]})
        else:
            _say_checks(name, worst, checks, in_brief=_in_brief(entry) if len(targets) > 1 else None)
    if args.json:
        emit(told)
    elif not targets:
        say("no committed records yet")
        say("→ python -m experiments results list")
    return EXIT_BLOCKED if blocked else EXIT_OK


def _targets(args: argparse.Namespace) -> list[tuple[str, Entry | LabError]]:
    if args.labels:
        return [(_named(label), _entry(label, args.experiment)) for label in args.labels]
    entries, refused = index.load(labels.results_folder())
    named = [(f"{entry.path.parent.name}/{entry.path.stem}", entry) for entry in entries]
    return [*named, *((error.where, error) for error in refused)]


def _named(label: str) -> str:
    return place(Path(label)) if finding.is_path(label) else label


def _entry(label: str, experiment: str | None) -> Entry | LabError:
    try:
        return finding.one(label, experiment)
    except LabError as error:
        if error.code == EXIT_USAGE:
            raise
        return error


def _checks(target: Entry | LabError, registered: verifying.Registered) -> tuple[Check, ...]:
    if isinstance(target, LabError):
        return (Check("record.valid", "blocked", target.wanted, target.found, target.next),)
    return (valid(target.record, rules.KNOWN), *recomputed(target.record, registered))


def valid(record: Record, known: Known) -> Check:
    """Reading has computed the grade of a record again, unless its rules are not here."""
    if rules.find(record, known) is None:
        return verifying.not_recomputed("record.valid", record, known)
    return Check("record.valid", "ok", "schema, consistency and grade", f"valid, {record.evidence_level or 'plan'}")


def recomputed(record: Record, registered: verifying.Registered, known: Known = rules.KNOWN) -> tuple[Check, ...]:
    """Every question about a record that reads.

    What its own rules compute again, whether its words are its kind's, what its experiment concludes, how that is said,
    and whether newer rules would decide otherwise.
    """
    return (
        *(_unless_broken(check, record, registered) for check in verifying.verify(record, registered, known=known)),
        kind_check.check(record),
        concluded_again.check(record, known),
        sentences_check.check(record),
        superseding.check(record, concluded_again.again, known),
    )


def _unless_broken(check: Check, record: Record, registered: verifying.Registered) -> Check:
    """The answer on the workload, unless the experiment is here and does not import: then it says that instead."""
    name = record.identity.experiment
    if (check.id, check.status) != ("record.workload", "warning") or name in registered:
        return check
    if name not in discovery.packages():
        return check
    try:
        discovery.load(name)
    except LabError as error:
        return replace(check, found=f"not recomputed: {error.where}: {error.found}", repair=error.next)
    return check


def _in_brief(entry: Entry | LabError) -> str:
    """What a record came to, in two words."""
    if isinstance(entry, LabError):
        return ""
    return f" · {entry.record.evidence_level or 'plan'} · {entry.record.decision.code}"


def _say_checks(name: str, worst: str, checks: tuple[Check, ...], *, in_brief: str | None) -> None:
    """Every answer for one record (`in_brief` None); for several, what each came to, and what stands in its way."""
    shown = [check for check in checks if in_brief is None or check.status in ("blocked", "warning")]
    say(f"{status(worst)} · {name}{in_brief or ''}")
    for line in table(("", "", ""), [(status(check.status), check.id, _found(check)) for check in shown]):
        say(line)


def _found(check: Check) -> str:
    if check.status in ("ok", "skipped"):
        return check.found
    return f"wanted {check.wanted}   found {check.found}" + (f"  → {check.repair}" if check.repair else "")


def _check_json(check: Check) -> dict[str, str]:
    return {name: getattr(check, name) for name in ("id", "status", "wanted", "found", "repair")}
