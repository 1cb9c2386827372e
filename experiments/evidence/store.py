"""Records on disk: written once after everything has been checked, read only if everything still holds.

Writing cleans, grades, validates, and lets the file appear whole. Reading takes any bytes and answers with a record or
a `LabError`: version first, then schema, then what the parts have to agree on, then the grade computed anew by the
rules that the record names.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from experiments.evidence import consistency, layout_text, privacy, rules, validation
from experiments.evidence.record import Record
from experiments.evidence.rules.rule_set import Known
from experiments.evidence.write_once import write_once
from tools.environments import strict_json
from tools.environments.errors import LabError

LARGEST_FILE = 8 * 2**20  # a record is small; whatever is larger is not one
MEND = "restore the file, or measure again under a new run label: a record is never edited"


def write(record: Record, path: Path, known: privacy.Known | None = None) -> Record:
    """Write a graded record to `path` and return it as written: private texts cleaned, limits worded anew.

    Raises LabError when the level is not the one `grade` finds, when the record contradicts itself or its schema,
    when its own bytes cannot be read back, when `path` exists, or when the disk is full; the file is then not there.
    """
    where = _shown(path)
    cleaned = privacy.clean(record, known or privacy.known_here())
    written = rules.graded(cleaned)
    if record.evidence_level is not None and record.evidence_level != written.evidence_level:
        raise LabError(
            f"evidence_level {written.evidence_level}, as its limits allow",
            f"evidence_level {record.evidence_level}",
            "leave the level to rules.graded",
            where,
        )
    document = written.to_json()
    validation.validate(document, where)
    _refuse_faults(consistency.faults(written), where)
    data = layout_text.dumps(document).encode("utf-8")
    _refuse_unreadable(data, where)
    write_once(path, data, where)
    return written


def read(path: Path) -> Record:
    """The record in a file. Raises LabError for anything that is not a whole, consistent, correctly graded record."""
    return parse(_bytes(path), _shown(path))


def parse(data: bytes, where: str, known: Known = rules.KNOWN) -> Record:
    """The record in `data`; `where` is how messages call it. Raises LabError, and nothing else, on bad input.

    A record whose rules are not `known` is read without its grade being computed: whoever uses the level has to ask.
    """
    try:
        document = strict_json.loads(data, where)
    except LabError as error:
        raise LabError(error.wanted, error.found, MEND, where) from None
    validation.check_version(document, where)
    validation.validate(document, where)
    try:
        record = Record.from_json(document)
    except RecursionError:
        raise LabError("JSON nested a few levels deep", "deeper nesting", MEND, where) from None
    except LabError as error:
        raise LabError(f"{error.where}: {error.wanted}", error.found, MEND, where) from None
    _refuse_faults(consistency.faults(record), where)
    if rules.find(record, known) is not None:
        _refuse_other_grade(rules.graded(record, known), record, where)
    return record


def _refuse_unreadable(data: bytes, where: str) -> None:
    """Read the bytes of a new record back before they reach the disk: a file nobody can read is no result."""
    again = "nothing was written; measure again with fewer or smaller numbers under a new run label"
    if len(data) > LARGEST_FILE:
        found = f"{len(data) / 2**20:.1f} MiB"
        raise LabError(f"a record of at most {LARGEST_FILE // 2**20} MiB", found, again, where)
    try:
        parse(data, where)
    except LabError as error:
        raise LabError(f"a record that can be read back: {error.wanted}", error.found, again, where) from None


def _refuse_other_grade(anew: Record, record: Record, where: str) -> None:
    if record.evidence_level != anew.evidence_level:
        raise LabError(f"evidence_level {anew.evidence_level}, as recomputed", f"{record.evidence_level}", MEND, where)
    if [limit.code for limit in record.limits] != [limit.code for limit in anew.limits]:
        wanted = ", ".join(limit.code for limit in anew.limits) or "none"
        found = ", ".join(limit.code for limit in record.limits) or "none"
        raise LabError(f"limits {wanted}, as recomputed", found, MEND, where)
    for written, expected in zip(record.claims, anew.claims, strict=True):
        codes = [limit.code for limit in written.limits] == [limit.code for limit in expected.limits]
        if written.level != expected.level or not codes:
            level = f"claim {written.kind} at {expected.level}, as recomputed"
            raise LabError(
                level, f"{written.level} with other limits" if not codes else f"{written.level}", MEND, where
            )


def _refuse_faults(found: list[str], where: str) -> None:
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        raise LabError("a record that agrees with itself", found[0] + more, MEND, where)


def _bytes(path: Path) -> bytes:
    where = _shown(path)
    look = "python -m experiments results list"
    try:
        if not path.is_file():
            found = "a folder" if path.is_dir() else "no such file" if not os.path.lexists(path) else "no regular file"
            raise LabError("a record file", found, look, where)
        with path.open("rb") as stream:
            data = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        found = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise LabError("a readable record file", found, look, where) from None
    if len(data) > LARGEST_FILE:
        raise LabError(f"a record of at most {LARGEST_FILE // 2**20} MiB", "a larger file", look, where)
    return data


def _shown(path: Path) -> str:
    """The path as messages show it: printable, relative to the working folder where it lies below it."""
    text = os.fspath(path)
    with contextlib.suppress(ValueError, OSError):
        text = os.path.relpath(text) if not os.path.relpath(text).startswith("..") else text
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
