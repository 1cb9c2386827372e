"""Runs and results as files: what is there, what may be promoted, what is moved aside. Nothing is ever deleted.

A run lies in runs/<experiment>/<label>/; `promote` copies its record to experiments/results/<experiment>/<label>.json,
and nothing else writes there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias

from experiments.evidence import labels, store
from experiments.evidence.record import Record
from experiments.evidence.validation import MissingPackageError
from experiments.evidence.write_once import write_once
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.model import Check

JOURNAL = "journal.jsonl"
State: TypeAlias = Literal["promoted", "finished", "interrupted", "unreadable"]


@dataclass(frozen=True, slots=True)
class Found:
    """One run or result. `record` is None for an interrupted run or a file that does not read; `error` says why."""

    experiment: str
    label: str
    path: Path
    state: State
    record: Record | None = None
    error: LabError | None = None


def everything() -> tuple[Found, ...]:
    """All results and runs, in order of experiment and label; a promoted run appears once, as promoted."""
    promoted = {(found.experiment, found.label): found for found in _results()}
    runs = [found for found in _runs() if (found.experiment, found.label) not in promoted]
    return tuple(sorted([*promoted.values(), *runs], key=lambda found: (found.experiment, found.label)))


def find(label: str, experiment: str | None = None) -> Found:
    """The one run or result of that label. LabError when there is none, or several experiments used it."""
    labels.check(label)
    named = [found for found in everything() if found.label == label and experiment in (None, found.experiment)]
    if not named:
        of = f" of {experiment}" if experiment else ""
        raise LabError(f"a run labelled {label}{of}", "none", "python -m experiments results list", label)
    if len(named) > 1:
        names = ", ".join(found.experiment for found in named)
        raise LabError("one run of that label", f"runs of {names}", "say which: --experiment NAME", label, EXIT_USAGE)
    return named[0]


def record_of(found: Found) -> Record:
    """Its record. LabError for an interrupted run, or for why the file does not read."""
    if found.record is not None:
        return found.record
    if found.error is not None:
        raise found.error
    mend = f"python -m experiments run {found.experiment} --resume {found.label}"
    raise LabError("a finished run", "an interrupted one, without a record", mend, found.label)


def promote(found: Found, verify: Callable[[Record], Sequence[Check]]) -> Path:
    """Copy a verified record among the results; returns the new path.

    Refuses what is promoted already, what does not read or verify, what measured nothing, and sources that belong to
    no commit of this repository.
    """
    if found.state == "promoted":
        raise LabError("a run that is not promoted yet", f"{found.label} is", "a record is never replaced", found.label)
    record = record_of(found)
    if record.evidence_level == "plan":
        mend = "run it: leave out --run-mode dry_run"
        raise LabError("a record that measured something", "a plan", mend, found.label)
    for check in verify(record):
        if check.status == "blocked" or (check.id == "record.sources" and check.status == "warning"):
            raise LabError(f"{check.id}: {check.wanted}", check.found, check.repair, found.label)
    target = labels.promoted_path(record.identity.experiment, record.identity.run_label)
    write_once(target, found.path.read_bytes(), f"{target.parent.name}/{target.name}")
    return target


def clear(label: str, experiment: str | None = None) -> tuple[list[Path], list[str]]:
    """Move the unpromoted runs of that label to runs/.cleared/; returns (new places, experiments left alone).

    A promoted record, and the run it came from, stay where they are.
    """
    labels.check(label)
    base = labels.runs_folder()
    moved: list[Path] = []
    kept: list[str] = []
    for folder in _run_folders():
        if folder.name != label or experiment not in (None, folder.parent.name):
            continue
        if labels.promoted_path(folder.parent.name, label).exists():
            kept.append(folder.parent.name)
            continue
        _refuse_running(folder)
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%fZ")
        target = base / labels.CLEARED / folder.parent.name / f"{label}-{moment}"
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            os.rename(folder, target)
        except OSError as error:
            mend = "check the owner and mode of the runs folder"
            raise LabError("a runs folder that can be written", os.strerror(error.errno or 0), mend, label) from None
        moved.append(target)
    if not moved and not kept:
        raise LabError(f"a run labelled {label}", "none", "python -m experiments results list", label)
    return moved, kept


def _refuse_running(folder: Path) -> None:
    """A run holds a lock on its journal for as long as it lives."""
    try:
        with (folder / JOURNAL).open("rb") as journal:
            fcntl.flock(journal, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise LabError(
            "a run that nobody is at", "it is going on", "wait for it, or end it first", folder.name
        ) from None
    except OSError:
        return  # no journal, or one that cannot be opened: nobody writes it


def _results() -> list[Found]:
    folder = labels.results_folder()
    return [_read(path.parent.name, path.stem, path, "promoted") for path in sorted(folder.glob("*/*.json"))]


def _runs() -> list[Found]:
    found = []
    for folder in _run_folders():
        path = folder / labels.RECORD_NAME
        if path.exists():
            found.append(_read(folder.parent.name, folder.name, path, "finished"))
        elif (folder / JOURNAL).exists():
            found.append(Found(folder.parent.name, folder.name, folder / JOURNAL, "interrupted"))
    return found


def _run_folders() -> list[Path]:
    base = labels.runs_folder()
    return [folder for folder in sorted(base.glob("*/*")) if folder.is_dir() and folder.parent.name != labels.CLEARED]


def _read(experiment: str, label: str, path: Path, state: State) -> Found:
    try:
        record = store.read(path)
    except MissingPackageError:
        raise
    except LabError as error:
        return Found(experiment, label, path, "unreadable", error=error)
    other = misplaced(record, experiment, label, path.name)
    if other is not None:
        return Found(experiment, label, path, "unreadable", error=other)
    return Found(experiment, label, path, state, record)


def misplaced(record: Record, experiment: str, label: str, where: str) -> LabError | None:
    """The finding about a record that lies in the place of another `experiment` or `label`; None in its own."""
    identity = record.identity
    if (identity.experiment, identity.run_label) == (experiment, label):
        return None
    found = f"{identity.experiment}/{identity.run_label}"
    mend = "move the file back where it was; remove it if it is a copy"
    return LabError(f"the record of {experiment}/{label}", found, mend, where)
