"""Which code took part: a digest over it, and the commit it belongs to where git is present.

The digest is over the path and the git blob hash of each source file in scope, so that it can be computed from a bare
folder and from any commit alike: a checkout without git is not second-class, its records can be matched later. Which
files those are is a rule of the record's (`experiments.evidence.rules`).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from experiments.evidence.rules import CURRENT
from experiments.evidence.rules.rule_set import TakesPart
from experiments.evidence.subject import Source
from tools.environments.layout import ROOT

MOST_COMMITS = 2000
GIT_LIMIT_S = 20.0


def look(scope: Sequence[str], root: Path = ROOT, takes_part: TakesPart = CURRENT.takes_part) -> Source:
    """The sources in `scope` as they are now. Raises OSError when one cannot be read."""
    blobs = _blobs_on_disk(scope, root, takes_part)
    commit = _commit(root)
    dirty = None if commit is None else digest_at(commit, scope, root, takes_part) != digest_of_blobs(blobs)
    return Source(digest=digest_of_blobs(blobs), scope=tuple(scope), files=len(blobs), commit=commit, dirty=dirty)


def find_commit(source: Source, root: Path = ROOT, takes_part: TakesPart = CURRENT.takes_part) -> str | None:
    """A commit of this repository whose sources have exactly that digest: the recorded one first; None without one."""
    if source.commit and digest_at(source.commit, source.scope, root, takes_part) == source.digest:
        return source.commit
    listed = _git(root, "rev-list", "--all", f"--max-count={MOST_COMMITS}", "--", *source.scope)
    for commit in (listed or "").split():
        if digest_at(commit, source.scope, root, takes_part) == source.digest:
            return commit
    return None


def has_git(root: Path = ROOT) -> bool:
    """Whether this folder is the top of a git checkout that git can read."""
    return _commit(root) is not None


def digest_at(
    commit: str, scope: Sequence[str], root: Path = ROOT, takes_part: TakesPart = CURRENT.takes_part
) -> str | None:
    """The digest `scope` has at a commit; None when git does not know it."""
    listed = _git(root, "ls-tree", "-r", "-z", "--full-tree", commit, "--", *scope)
    if listed is None:
        return None
    blobs = {}
    for entry in filter(None, listed.split("\0")):
        about, _, path = entry.partition("\t")
        mode, kind, blob = about.split()
        if kind == "blob" and mode != "120000" and takes_part(path):
            blobs[path] = blob
    return digest_of_blobs(blobs)


def digest_of_blobs(blobs: Mapping[str, str]) -> str:
    """`sha256:` over `path NUL blob-hash LF` lines in order of path."""
    lines = "".join(f"{path}\0{blobs[path]}\n" for path in sorted(blobs))
    return "sha256:" + hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _blobs_on_disk(scope: Iterable[str], root: Path, takes_part: TakesPart) -> dict[str, str]:
    blobs = {}
    for name in scope:
        start = root / name
        files = [start] if start.is_file() else sorted(start.rglob("*"))
        for path in files:
            relative = path.relative_to(root).as_posix()
            if takes_part(relative) and path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                blobs[relative] = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
    return blobs


def _commit(root: Path) -> str | None:
    answer = _git(root, "rev-parse", "--show-toplevel", "HEAD")
    lines = (answer or "").splitlines()
    if len(lines) != 2 or not os.path.samefile(lines[0], root):
        return None
    return lines[1]


def _git(root: Path, *arguments: str) -> str | None:
    """What git says, or None where it is absent, refuses, or does not end."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        done = subprocess.run(
            ("git", "-c", f"safe.directory={root}", "-C", os.fspath(root), *arguments),
            env={**clean, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "surrogateescape") if done.returncode == 0 else None
