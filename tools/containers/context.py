"""What a build gets to see: the files that .dockerignore lets in, with modes that every reader of an image may use."""

from __future__ import annotations

import tarfile
import tempfile
from pathlib import Path
from typing import IO

CERTIFICATE = ".ide/certificates/given.crt"


def patterns(root: Path) -> list[str]:
    """The lines of .dockerignore, in order."""
    lines = (line.strip() for line in (root / ".dockerignore").read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def names(root: Path, dockerfile: str) -> list[str]:
    """The files of the context, from the root of the checkout, the Dockerfile among them."""
    from docker.utils import exclude_paths

    found: set[str] = exclude_paths(str(root), patterns(root), dockerfile=dockerfile)
    return sorted(name for name in found if (root / name).is_file())


def pack(root: Path, dockerfile: str, certificate: Path | None = None) -> IO[bytes]:
    """The context as an open archive, with one certificate more where one is given. OSError where a file is unreadable.

    Who owns a file here, and which mode the caller's umask gave it, is of no meaning in the image.
    """
    packed = tempfile.TemporaryFile()  # noqa: SIM115 - it is handed on open
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in names(root, dockerfile):
            _add(archive, root / name, name)
        if certificate is not None:
            _add(archive, certificate, CERTIFICATE)
    packed.seek(0)
    return packed


def _add(archive: tarfile.TarFile, path: Path, name: str) -> None:
    entry = archive.gettarinfo(str(path), arcname=name)
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    if entry.isfile():
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        with open(path, "rb") as file:
            archive.addfile(entry, file)
    else:
        archive.addfile(entry)
