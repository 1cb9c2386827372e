"""Versions and specifiers as PEP 440 (now the packaging specification "version specifiers") defines them.

Small, and on the standard library alone, because preflight must judge an environment in which nothing can be imported.
Where the text leaves room (exclusive comparisons next to pre-, post- and local releases) this follows the `packaging`
library, against which it is tested differentially.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_SUFFIX = r"""
    (?:[-_.]?(?P<pre_l>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?P<pre_n>[0-9]+)?)?
    (?P<post>-(?P<post_bare>[0-9]+)|[-_.]?(?:post|rev|r)[-_.]?(?P<post_n>[0-9]+)?)?
    (?P<dev>[-_.]?dev[-_.]?(?P<dev_n>[0-9]+)?)?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?"""
_VERSION = re.compile(
    rf"v?(?:(?P<epoch>[0-9]+)!)?(?P<release>[0-9]+(?:\.[0-9]+)*){_SUFFIX}", re.VERBOSE | re.IGNORECASE | re.ASCII
)
_PRE = {"alpha": "a", "a": "a", "beta": "b", "b": "b", "c": "rc", "pre": "rc", "preview": "rc", "rc": "rc"}
_PRE_ORDER = {"a": 0, "b": 1, "rc": 2}
_ORDERED = ("~=", "<=", ">=", "<", ">")  # operators that take neither a local part nor a wildcard

Key = tuple[int, tuple[int, ...], tuple[int, int], int, tuple[int, int], tuple[tuple[int, str], ...]]


class VersionError(ValueError):
    """Text that is not a PEP 440 version."""


class SpecifierError(ValueError):
    """Text that is not a PEP 440 version specifier."""


class Version:
    """One version, ordered as PEP 440 orders it: 1.dev1 < 1a1 < 1rc1 < 1 < 1+cpu < 1+cu128 < 1.post1.

    `str` gives the normalised spelling. Raises VersionError.
    """

    __slots__ = ("_key", "dev", "epoch", "local", "post", "pre", "release")

    def __init__(self, text: str) -> None:
        match = _VERSION.fullmatch(text.strip())
        if match is None:
            raise VersionError(f"not a version: {text!a}")
        part = match.group
        try:
            self.epoch = int(part("epoch") or 0)
            self.release = tuple(int(number) for number in part("release").split("."))
            self.pre = (_PRE[part("pre_l").lower()], int(part("pre_n") or 0)) if part("pre_l") else None
            self.post = int(part("post_bare") or part("post_n") or 0) if part("post") else None
            self.dev = int(part("dev_n") or 0) if part("dev") else None
            self.local = _local(part("local")) if part("local") else ()
        except ValueError:  # more digits than an int may have
            raise VersionError(f"not a version: {text[:40]!a}...") from None
        self._key = self._sort_key()

    @property
    def is_prerelease(self) -> bool:
        """Whether it is a pre-release or a development release."""
        return self.pre is not None or self.dev is not None

    @property
    def public(self) -> str:
        """The version without its local part: 2.11.0 for 2.11.0+cu128."""
        pre = f"{self.pre[0]}{self.pre[1]}" if self.pre else ""
        post = f".post{self.post}" if self.post is not None else ""
        dev = f".dev{self.dev}" if self.dev is not None else ""
        epoch = f"{self.epoch}!" if self.epoch else ""
        return f"{epoch}{'.'.join(map(str, self.release))}{pre}{post}{dev}"

    @property
    def local_text(self) -> str:
        """The local part as text, `cu128`, or empty."""
        return ".".join(str(part) for part in self.local)

    @property
    def trimmed(self) -> tuple[int, ...]:
        """The release without trailing zeros, so that 1.0 and 1.0.0 are one."""
        end = len(self.release)
        while end > 1 and self.release[end - 1] == 0:
            end -= 1
        return self.release[:end]

    def key(self, *, local: bool = True, dev_zero: bool = False) -> Key:
        """The sort key; without the local part, or as if `.dev0` were appended, where a comparison asks for that."""
        epoch, release, pre, post, dev, _ = self._key
        if dev_zero:  # lower than anything with this release, or this post-release, and no pre-release mark
            return (epoch, release, pre if post >= 0 else (-1, 0), post, (0, 0), ())
        return self._key if local else (epoch, release, pre, post, dev, ())

    def _sort_key(self) -> Key:
        if self.pre is not None:
            pre = (_PRE_ORDER[self.pre[0]], self.pre[1])
        else:
            pre = (-1, 0) if self.post is None and self.dev is not None else (3, 0)
        post = -1 if self.post is None else self.post
        dev = (1, 0) if self.dev is None else (0, self.dev)
        local = tuple((part, "") if isinstance(part, int) else (-1, part) for part in self.local)
        return (self.epoch, self.trimmed, pre, post, dev, local)

    def __str__(self) -> str:
        return f"{self.public}+{self.local_text}" if self.local else self.public

    def __repr__(self) -> str:
        return f"Version({str(self)!r})"

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self._key < other._key

    def __le__(self, other: Version) -> bool:
        return self._key <= other._key

    def __gt__(self, other: Version) -> bool:
        return self._key > other._key

    def __ge__(self, other: Version) -> bool:
        return self._key >= other._key


def _local(text: str) -> tuple[int | str, ...]:
    parts = text.lower().replace("-", ".").replace("_", ".").split(".")
    return tuple(int(part) if part.isdigit() else part for part in parts)


class Specifier:
    """One clause, such as `>=2.11` or `==2.11.*`. Raises SpecifierError."""

    __slots__ = ("operator", "text", "version", "wildcard")

    def __init__(self, clause: str) -> None:
        clause = clause.strip()
        self.operator = next((o for o in ("===", "==", "!=", *_ORDERED) if clause.startswith(o)), "")
        self.text = clause[len(self.operator) :].strip()
        self.wildcard = self.operator in ("==", "!=") and self.text.endswith(".*")
        self.version: Version | None = None
        bare = self.text.removesuffix(".*") if self.wildcard else self.text
        if self.operator == "===":
            good = bool(self.text) and not re.search(r"[\s;)]", self.text)
        else:
            good = bool(self.operator) and not bare[-1:].isspace()
            try:
                self.version = Version(bare)
            except VersionError:
                good = False
        if good and self.version is not None:
            good = self._fits(self.version)
        if not good:
            raise SpecifierError(f"not a version specifier: {clause[:80]!a}")

    def _fits(self, version: Version) -> bool:
        if self.wildcard and (version.is_prerelease or version.post is not None or version.local):
            return False
        if version.local and self.operator in _ORDERED:
            return False
        return self.operator != "~=" or len(version.release) >= 2

    def contains(self, item: Version | str) -> bool:
        """Whether this clause holds, pre-releases included; text that is no version fits only `===`."""
        if self.version is None:
            return str(item).lower() == self.text.lower()
        found = as_version(item)
        return found is not None and self._compare(found, self.version)

    def _compare(self, found: Version, wanted: Version) -> bool:
        """The comparison of this operator. Only `==` and `!=` with a local part look at the local part of `found`."""
        if self.wildcard:
            return _has_prefix(found, wanted.epoch, wanted.release) == (self.operator == "==")
        if self.operator in ("==", "!="):
            return (found.key(local=bool(wanted.local)) == wanted.key()) == (self.operator == "==")
        public = found.key(local=False)
        match self.operator:
            case ">=":
                return public >= wanted.key()
            case "<=":
                return public <= wanted.key()
            case "~=":
                return public >= wanted.key() and _has_prefix(found, wanted.epoch, wanted.release[:-1])
            case "<":  # not a pre-release of the version itself, unless that is one
                return found < wanted if wanted.is_prerelease else found.key() < wanted.key(dev_zero=True)
            case (
                _
            ):  # ">": neither a local version nor, for a final or pre-release, a post-release of the version itself
                if wanted.dev is None and wanted.post is None:
                    family = (found.epoch, found.trimmed, found.pre) == (wanted.epoch, wanted.trimmed, wanted.pre)
                    return not family and found > wanted
                return public > wanted.key()

    def __str__(self) -> str:
        return f"{self.operator}{self.text}"


def _has_prefix(found: Version, epoch: int, prefix: tuple[int, ...]) -> bool:
    padded = found.release + (0,) * (len(prefix) - len(found.release))
    return found.epoch == epoch and padded[: len(prefix)] == prefix


class SpecifierSet:
    """Clauses that must all hold, such as `>=2.11,<2.14`; no clause holds for all. Raises SpecifierError."""

    __slots__ = ("clauses",)

    def __init__(self, text: str = "") -> None:
        self.clauses = tuple(Specifier(clause) for clause in text.split(",") if clause.strip())

    def contains(self, version: Version | str, prereleases: bool | None = None) -> bool:
        """Whether all clauses hold. `prereleases=False` refuses every pre-release.

        None accepts them: the version asked about is installed, so there is no other to prefer.
        """
        if prereleases is False and (found := as_version(version)) is not None and found.is_prerelease:
            return False
        return all(clause.contains(version) for clause in self.clauses)

    def __iter__(self) -> Iterator[Specifier]:
        return iter(self.clauses)

    def __bool__(self) -> bool:
        return bool(self.clauses)

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, SpecifierSet) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __str__(self) -> str:
        """The clauses sorted, so that one set has one spelling."""
        return ",".join(sorted(str(clause) for clause in self.clauses))


def as_version(text: Version | str) -> Version | None:
    """The version, or None where the text is not one."""
    try:
        return text if isinstance(text, Version) else Version(text)
    except VersionError:
        return None
