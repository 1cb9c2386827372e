"""Run labels and the folder each run lives in: runs/<experiment>/<label>/. A label is used once."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from string import ascii_lowercase

from experiments.harness import journal
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import RUNS

RECORD = "record.json"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def runs_root() -> Path:
    """Where runs are written: TMLAB_RUNS if set, else runs/ of this checkout."""
    return Path(os.environ["TMLAB_RUNS"]) if os.environ.get("TMLAB_RUNS") else RUNS


def check(label: str) -> str:
    """The label itself if it may be one. Raises LabError (wrong usage) for a path, a dot, or anything else."""
    if not _LABEL.fullmatch(label):
        raise LabError(
            wanted="a label of letters, digits, '.', '_' and '-', at most 64, beginning with a letter or digit",
            found=ascii(label)[:80],
            next="choose another, such as 2026-12-01-first",
            where="--run-label",
            code=EXIT_USAGE,
        )
    return label


def new_folder(experiment: str, label: str | None, root: Path) -> Path:
    """Make the folder of a new run. Without a label: today's date and the first letter that is free.

    Raises LabError when the label was used, saying whether that run is finished, interrupted or going on.
    """
    parent = root / experiment
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if label is not None:
            return _claim(parent, check(label))
        day = datetime.now(UTC).strftime("%Y-%m-%d")
        for letters in (*product(ascii_lowercase, repeat=1), *product(ascii_lowercase, repeat=2)):
            folder = parent / f"{day}-{''.join(letters)}"
            if not folder.exists():
                return _claim(parent, folder.name)
    except OSError as error:
        raise LabError(
            wanted="a runs folder that can be written",
            found=os.strerror(error.errno or 0),
            next="check its owner and mode, or set TMLAB_RUNS to another folder",
            where=f"runs/{experiment}",
        ) from error
    raise LabError("a free label for today", "all are used", "give one with --run-label", where="--run-label")


def existing_folder(experiment: str, label: str, root: Path) -> Path:
    """The folder of a run to be resumed. Raises LabError when there is none, or it is finished."""
    folder = root / experiment / check(label)
    if not (folder / journal.NAME).is_file():
        others = sorted(path.parent.name for path in (root / experiment).glob(f"*/{journal.NAME}"))
        raise LabError(
            wanted=f"an interrupted run of {experiment}",
            found=f"no run labelled {label}" + (f"; there are {', '.join(others[-4:])}" if others else ""),
            next=f"begin it: python -m experiments run {experiment} --run-label {label}",
            where="--resume",
        )
    if (folder / RECORD).exists():
        raise LabError(
            wanted="an interrupted run",
            found=f"{label} is finished: its record is written",
            next=f"read it: python -m experiments show {folder / RECORD}; measure again under a new --run-label",
            where="--resume",
        )
    return folder


def resume_command(experiment: str, label: str) -> str:
    """What to type to go on."""
    return f"python -m experiments run {experiment} --resume {label}"


def _claim(parent: Path, label: str) -> Path:
    folder = parent / label
    try:
        folder.mkdir()
    except FileExistsError:
        if any(not path.name.startswith(f".{journal.NAME}") for path in folder.iterdir()):
            raise _used(parent.name, folder) from None  # else: killed before its first word, nothing to keep
    return folder


def _used(experiment: str, folder: Path) -> LabError:
    label = folder.name
    if (folder / RECORD).exists() or not (folder / journal.NAME).exists():
        return LabError(
            wanted="a label that was not used before",
            found=f"{label} is a finished run" if (folder / RECORD).exists() else f"{label} is there already",
            next="choose a new --run-label; a record is never overwritten",
            where="--run-label",
        )
    done = len(journal.read(folder / journal.NAME).finished)
    return LabError(
        wanted="a label that was not used before",
        found=f"{label} was interrupted after {done} finished tasks, which are kept",
        next=f"go on with it: {resume_command(experiment, label)}",
        where="--run-label",
    )
