"""From what a user typed (experiment, label, file or run folder) to the records meant."""

from __future__ import annotations

import os
from pathlib import Path

from experiments.cli import discovery
from experiments.evidence import index, labels, store, stored_runs
from experiments.evidence.index import Entry
from tools.environments.errors import EXIT_USAGE, LabError


def one(text: str, experiment: str | None = None) -> Entry:
    """The record in a file, in a run folder, or of a run label."""
    path = Path(text)
    if is_path(text):
        if path.is_dir():
            path = path / labels.RECORD_NAME
        return Entry(path, store.read(path))
    found = stored_runs.find(text, experiment)
    return Entry(found.path, stored_runs.record_of(found))


def of_experiment(name: str, label: str | None = None) -> list[Entry]:
    """Every readable record of an experiment, promoted or not, newest first.

    LabError when there is none, and when the run of that `label` has none: it says why.
    """
    if name not in discovery.packages():
        known = {found.experiment for found in stored_runs.everything()}
        if name not in known:
            discovery.load(name)  # refuses, with the nearest names
    found = [f for f in stored_runs.everything() if f.experiment == name]
    for wanted in (f for f in found if f.label == label):
        stored_runs.record_of(wanted)
    entries = [Entry(f.path, f.record) for f in found if f.record is not None]
    if not entries:
        left = ", ".join(f"{f.label} ({f.state})" for f in found)
        mend = "python -m experiments results list" if left else f"python -m experiments run {name} --workload smoke"
        raise LabError(f"a record of {name}", left or "none yet", mend, name)
    return sorted(entries, key=lambda entry: entry.record.identity.created_at, reverse=True)


def unreadable(name: str) -> list[str]:
    """The labels of an experiment's runs and results whose record does not read."""
    return [f.label for f in stored_runs.everything() if f.experiment == name and f.state == "unreadable"]


def choose(entries: list[Entry], device: str | None, workload: str | None, label: str | None) -> list[Entry]:
    """Those that fit the options, newest first; LabError naming what there is when none does."""
    kept = entries
    for option, wanted, of in (
        ("--device", device, lambda entry: index.device_of(entry.record)),
        ("--workload", workload, lambda entry: entry.record.workload.title),
        ("--run-label", label, lambda entry: entry.record.identity.run_label),
    ):
        if wanted is None:
            continue
        exact = option != "--device"
        fits = [e for e in kept if (of(e) == wanted if exact else wanted.casefold() in of(e).casefold())]
        if not fits:
            there = ", ".join(dict.fromkeys(of(entry) for entry in kept))
            raise LabError(
                f"a record with {option} {ascii(wanted)[:60]}", there, "choose one of these", option, EXIT_USAGE
            )
        kept = fits
    return kept


def is_path(text: str) -> bool:
    """Whether the text names a place on disk rather than an experiment or a label."""
    return os.sep in text or text.endswith(".json") or Path(text).is_dir() or text in (".", "..")
