"""Is a stored record still true? Everything that can be computed again is, and each question gets an answer.

Reading a record already validates and grades it (`store`); here its sums are made anew from the samples, its workload
is checked against the registered one, its sources against the commits of this repository, its texts against privacy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from experiments.evidence import privacy, rules, source
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import Known, Rules
from tools.environments.layout import ROOT
from tools.environments.model import Check

TOLERANCE = 1e-9  # the same arithmetic on another machine: only the last bits may differ
NEW_RUN = "measure again under a new run label: a record is never edited"

Registered = Mapping[str, Mapping[str, str]]  # experiment -> workload name -> digest


def verify(record: Record, registered: Registered, root: Path = ROOT, known: Known = rules.KNOWN) -> tuple[Check, ...]:
    """One check for each question; `registered` holds the digests of the workloads registered now.

    What the record's own rules computed is computed by them again, and by none other: without them it is a warning.
    """
    own = rules.find(record, known)
    return (
        not_recomputed("record.summaries", record, known) if own is None else _sums(record, own),
        not_recomputed("record.comparisons", record, known) if own is None else _floors(record, own),
        _workload(record, registered),
        not_recomputed("record.sources", record, known) if own is None else _sources(record, own, root),
        _privacy(record),
    )


def not_recomputed(question: str, record: Record, known: Known) -> Check:
    """The answer to a question that only rules which this checkout lacks could answer."""
    found = f"not recomputed: this checkout has no {rules.lacking(record)}"
    return Check(question, "warning", f"rules {rules.versions(known)}", found, rules.UPDATE)


def _sums(record: Record, own: Rules) -> Check:
    wrong = [
        candidate.name
        for candidate in record.candidates
        if not same(candidate.summary, own.summarise(candidate.name, candidate.samples, record.quantities))
    ]
    if wrong:
        return Check("record.summaries", "blocked", "sums of the samples", f"others for {', '.join(wrong)}", NEW_RUN)
    samples = sum(len(candidate.samples) for candidate in record.candidates)
    return Check("record.summaries", "ok", "sums of the samples", f"recomputed from {samples} samples")


def _floors(record: Record, own: Rules) -> Check:
    wanted = "noise floors and verdicts that follow from the samples"
    if not same(record.noise_floors, own.noise_floors(record.candidates, record.quantities)):
        return Check("record.comparisons", "blocked", wanted, "another noise floor", NEW_RUN)
    if not same(record.comparisons, own.comparisons(record.candidates, record.quantities)):
        return Check("record.comparisons", "blocked", wanted, "other ratios or verdicts", NEW_RUN)
    return Check("record.comparisons", "ok", wanted, f"{len(record.comparisons)} recomputed")


def _workload(record: Record, registered: Registered) -> Check:
    workload, experiment = record.workload, record.identity.experiment
    wanted = f"the workload {workload.name} as {experiment} registers it"
    if not workload.registered:
        return Check("record.workload", "skipped", wanted, "an unregistered workload: compared only with itself")
    now = registered.get(experiment, {}).get(workload.name)
    if now is None:
        return Check(
            "record.workload", "warning", wanted, "none of that name in this checkout", "git log -- experiments"
        )
    if now != workload.digest:
        found = "registered otherwise in this checkout: the record stands for the older one"
        return Check("record.workload", "warning", wanted, found, NEW_RUN)
    return Check("record.workload", "ok", wanted, workload.digest[:19])


def _sources(record: Record, own: Rules, root: Path) -> Check:
    wanted = "a commit with exactly these sources"
    if not source.has_git(root):
        return Check("record.sources", "skipped", wanted, "no git here: verify in a clone")
    commit = source.find_commit(record.source, root, own.takes_part)
    if commit is None:
        repair = "commit the sources, then measure again under a new run label"
        return Check("record.sources", "warning", wanted, "none in this repository", repair)
    return Check("record.sources", "ok", wanted, commit[:12])


def _privacy(record: Record) -> Check:
    wanted = "nothing private in any text"
    found = privacy.findings(record)
    if found:
        return Check("record.privacy", "blocked", wanted, f"looks private: {', '.join(found[:4])}", NEW_RUN)
    return Check("record.privacy", "ok", wanted, "nothing found")


def same(written: Any, computed: Any) -> bool:
    """Equal, but for the last bits of a float."""
    if isinstance(written, float) and isinstance(computed, int | float):
        return abs(written - computed) <= TOLERANCE * max(1.0, abs(computed))
    if is_dataclass(written) and type(written) is type(computed):
        return all(same(getattr(written, field.name), getattr(computed, field.name)) for field in fields(written))
    if isinstance(written, tuple) and isinstance(computed, tuple):
        return len(written) == len(computed) and all(map(same, written, computed))
    return bool(written == computed)


def worst(checks: Iterator[Check] | tuple[Check, ...]) -> str:
    """`blocked`, `warning` or `ok`, over the checks that apply."""
    statuses = {check.status for check in checks}
    return next((status for status in ("blocked", "warning") if status in statuses), "ok")
