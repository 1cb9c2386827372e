"""A file that appears whole or not at all, and never takes the place of another: the one door to the disk here."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from tools.environments.errors import LabError

FULL = (errno.ENOSPC, errno.EDQUOT)
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def write_once(path: Path, data: bytes, where: str) -> None:
    """Write `data` to `path`: temporary file, fsync, then a hard link, which fails where something stands already.

    Raises LabError when the file exists, the disk is full or the folder cannot be written; nothing half is left.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _refused(error, where) from None
    try:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()  # left by a killed process of the same number
        _write(temporary, data)
        _appear(temporary, path)
        _sync_folder(path.parent)
    except FileExistsError:
        raise LabError(
            "a place where no record is yet",
            "one is there: a record is never overwritten",
            "choose a new run label",
            where,
        ) from None
    except OSError as error:
        raise _refused(error, where) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _appear(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        # A file system without hard links: no atomic way to refuse, so look first, then rename.
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None
        os.rename(temporary, path)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot; the file itself is on disk already
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _refused(error: OSError, where: str) -> LabError:
    if error.errno in FULL:
        return LabError(
            "room on the disk for a record", "the disk is full", "free some space, then go on with --resume", where
        )
    found = os.strerror(error.errno) if error.errno else str(error)
    return LabError(
        "a folder that can be written", found, "check its owner and mode, or set TMLAB_RUNS to another", where
    )
