"""Run labels and where the files of a run lie. A label is used once: in runs/ and in the committed results together."""

from __future__ import annotations

import os
import re
from pathlib import Path

from experiments.evidence.vocabulary import LABEL_PATTERN
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT, RUNS

RECORD_NAME = "record.json"
CLEARED = ".cleared"
RESULTS = ROOT / "experiments" / "results"
EXAMPLE = "choose another, such as 2026-12-01-first"
RUNS_VARIABLE = "TMLAB_RUNS"
RESULTS_VARIABLE = "TMLAB_RESULTS"


def runs_folder() -> Path:
    """Where runs are written: runs/ of the checkout, or the folder TMLAB_RUNS names."""
    return Path(os.environ.get(RUNS_VARIABLE) or RUNS)


def results_folder() -> Path:
    """Where promoted records lie: experiments/results/, or the folder TMLAB_RESULTS names (for tests)."""
    return Path(os.environ.get(RESULTS_VARIABLE) or RESULTS)


def check(label: str) -> str:
    """The label itself. LabError (usage) for one that is empty, too long, could be a path, or holds a private name."""
    if not re.search(LABEL_PATTERN, label) or ".." in label or label.endswith("."):
        wanted = "a run label of 1 to 64 letters, digits, dots, dashes and underscores, no path and no '..'"
        raise LabError(wanted, ascii(label)[:80], EXAMPLE, "run label", EXIT_USAGE)
    from experiments.evidence import privacy  # here: it knows records, and this module is imported for paths alone

    if privacy.clean_text(label, privacy.known_here()) != label:
        wanted = "a run label that can be published: it becomes part of the record and of a file name"
        raise LabError(wanted, "a user name, a host name or a token in it", EXAMPLE, "run label", EXIT_USAGE)
    return label


def run_folder(experiment: str, label: str) -> Path:
    """Folder of one run: journal, record, pictures."""
    return runs_folder() / experiment / check(label)


def record_path(experiment: str, label: str) -> Path:
    """Where the run writes its record."""
    return run_folder(experiment, label) / RECORD_NAME


def promoted_path(experiment: str, label: str) -> Path:
    """Where the record lies once it is promoted."""
    return results_folder() / experiment / f"{check(label)}.json"


def refuse_used(experiment: str, label: str) -> None:
    """LabError when a finished record of that experiment already carries the label, in runs/ or among the results."""
    for path in (promoted_path(experiment, label), record_path(experiment, label)):
        if path.exists():
            raise LabError(
                f"a run label that {experiment} has not used",
                f"{label} names a finished record",
                f"choose another label, or look at it: python -m experiments show {experiment} --run-label {label}",
                "--run-label",
                EXIT_USAGE,
            )
