"""The folder of a run: claimed once under its label, found again to be resumed. Rules for labels: evidence.labels."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from experiments.evidence import labels
from experiments.harness import journal
from tools.environments.errors import LabError

SCRATCH = "scratch"  # what one task leaves for another while the run lasts


def free_label(experiment: str) -> str:
    """Today's date and the first letters that no run of this experiment has."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    for letters in (*product(ascii_lowercase, repeat=1), *product(ascii_lowercase, repeat=2)):
        label = f"{day}-{''.join(letters)}"
        if _is_free(labels.run_folder(experiment, label)) and not labels.promoted_path(experiment, label).exists():
            return label
    raise LabError("a free label for today", "all are used", "give one with --run-label", where="--run-label")


def refuse_used(experiment: str, label: str) -> None:
    """Raises LabError when the label is taken: by a finished run, or by one that was interrupted and can go on."""
    labels.refuse_used(experiment, label)
    folder = labels.run_folder(experiment, label)
    if _is_free(folder):
        return
    path = folder / journal.NAME
    if not path.exists():
        raise LabError(
            wanted="a label that was not used before",
            found=f"a folder {label} that no run of this version began",
            next="choose a new --run-label",
            where="--run-label",
        )
    done = len(journal.read(path).finished)
    raise LabError(
        wanted="a label that was not used before",
        found=f"{label} was interrupted after {done} finished tasks; they are kept",
        next=f"go on with it: {resume_command(experiment, label)}",
        where="--run-label",
    )


def claim(experiment: str, label: str) -> Path:
    """Make the folder. What decides between two runs at once is the journal, which is created exclusively."""
    folder = labels.run_folder(experiment, label)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LabError(
            wanted="a runs folder that can be written",
            found=os.strerror(error.errno or 0),
            next="check its owner and mode, or set TMLAB_RUNS to another folder",
            where=f"runs/{experiment}",
        ) from error
    return folder


def to_resume(experiment: str, label: str) -> Path:
    """The folder of an interrupted run. Raises LabError when there is none, or when it is finished."""
    folder = labels.run_folder(experiment, label)
    path = folder / journal.NAME
    if not path.is_file():
        others = sorted(found.parent.name for found in folder.parent.glob(f"*/{journal.NAME}"))
        raise LabError(
            wanted=f"an interrupted run of {experiment}",
            found=f"no run labelled {label}" + (f"; there are {', '.join(others[-4:])}" if others else ""),
            next=f"begin it: python -m experiments run {experiment} --run-label {label}",
            where="--resume",
        )
    if (folder / labels.RECORD_NAME).exists():
        shutil.rmtree(folder / SCRATCH, ignore_errors=True)  # left by a kill between the record and its last word
        raise LabError(
            wanted="an interrupted run",
            found=f"{label} is finished: its record is written",
            next=f"read it: python -m experiments show {experiment} --run-label {label}",
            where="--resume",
        )
    return folder


def resume_command(experiment: str, label: str) -> str:
    """What to type to go on."""
    return f"python -m experiments run {experiment} --resume {label}"


def _is_free(folder: Path) -> bool:
    """Whether no run came as far as its first word here: the draft of a journal is not one yet."""
    if not folder.is_dir():
        return not folder.exists()
    return all(path.name.startswith(f".{journal.NAME}") for path in folder.iterdir())
