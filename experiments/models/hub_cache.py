"""The hub client's cache folder, read and checked without the client.

Its layout is public: `models--ORG--NAME/snapshots/COMMIT/FILE` points to `blobs/DIGEST`, and `refs/BRANCH` holds the
commit a branch stood at. The name of a blob is the digest of its content (sha256 for large files, git's own sha1 for
small ones), which the client never checks; here it is checked each time, so an altered file is found before it is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tools.environments.errors import LabError

COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
SHORT_COMMIT = re.compile(r"[0-9a-f]{7,39}")

Content = Literal["whole", "altered", "unknown"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A file of a snapshot, whether its content is what its name in the cache says, and its sha256 ("sha256:...")."""

    path: Path
    content: Content
    digest: str


def folder(cache: Path, model: str) -> Path:
    """Where the cache keeps one model."""
    return cache / ("models--" + model.replace("/", "--"))


def commit_of(storage: Path, revision: str) -> str | None:
    """The commit a revision stands for by the cache alone: a commit, a branch or tag seen before, a short commit.

    None when the cache does not know it. Raises LabError when a short commit fits several.
    """
    snapshots = storage / "snapshots"
    if COMMIT.fullmatch(revision):
        return revision if (snapshots / revision).is_dir() else None
    with contextlib.suppress(OSError):
        noted = (storage / "refs" / revision).read_text(encoding="ascii", errors="replace").strip()
        if COMMIT.fullmatch(noted):
            return noted
    if not SHORT_COMMIT.fullmatch(revision) or not snapshots.is_dir():
        return None
    fitting = sorted(entry.name for entry in snapshots.iterdir() if entry.name.startswith(revision))
    if len(fitting) > 1:
        raise LabError(
            wanted=f"one commit that begins with {revision}",
            found=f"{len(fitting)} in the cache: {', '.join(fitting[:3])}",
            next="give the whole commit",
            where="--revision",
        )
    return fitting[0] if fitting else None


def note_commit(storage: Path, revision: str, commit: str) -> None:
    """Write down what a branch or tag resolved to, so that the next run can do so offline.

    A cache that cannot be written is let be.
    """
    if revision == commit:
        return
    target = storage / "refs" / revision
    with contextlib.suppress(OSError):
        if target.is_file() and target.read_text(encoding="ascii", errors="replace") == commit:
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.tmp")
        draft.write_text(commit, encoding="ascii")
        os.replace(draft, target)


def check(pointer: Path) -> Checked:
    """Hash a file of a snapshot and compare it with the digest the cache names it by. Raises OSError.

    64 hex digits are a sha256, 40 are git's sha1 of a blob; anything else (some mirrors) is nothing to compare with.
    """
    expected = Path(os.readlink(pointer)).name if pointer.is_symlink() else ""
    sha256 = content_digest(pointer)
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", expected):
        return Checked(pointer, "unknown", f"sha256:{sha256}")
    found = sha256 if len(expected) == 64 else content_digest(pointer, git=True)
    return Checked(pointer, "whole" if found == expected else "altered", f"sha256:{sha256}")


def content_digest(path: Path, *, git: bool = False) -> str:
    """Hex digest of a file: sha256, or the sha1 git gives a blob (over "blob SIZE\\0" and content). Raises OSError."""
    running = hashlib.sha1(usedforsecurity=False) if git else hashlib.sha256()
    if git:
        running.update(f"blob {path.stat().st_size}\0".encode())
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: running).hexdigest()


def discard(pointer: Path) -> None:
    """Take a file out of the cache, pointer and blob, so that no later run takes it for whole."""
    blob = pointer.parent / os.readlink(pointer) if pointer.is_symlink() else None
    pointer.unlink(missing_ok=True)
    if blob is not None:
        blob.unlink(missing_ok=True)
