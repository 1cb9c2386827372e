"""Dependency specifiers (PEP 508): a name, extras, versions or a URL, and a marker that says where it applies.

On the standard library alone, for requirement files and for the metadata of installed packages. Marker comparisons
follow the packaging specification: the four version-valued variables compare as versions where the text is one,
all else as strings. Tested differentially against the `packaging` library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from tools.environments.registry.pep440 import Specifier, SpecifierError, SpecifierSet

VERSION_VARIABLES = ("python_version", "python_full_version", "implementation_version", "platform_release")
STRING_VARIABLES = (
    "os_name",
    "sys_platform",
    "platform_machine",
    "platform_python_implementation",
    "platform_system",
    "platform_version",
    "implementation_name",
    "extra",
)
_OLD_SPELLINGS = {  # still found in the metadata of old packages
    "os.name": "os_name",
    "sys.platform": "sys_platform",
    "platform.version": "platform_version",
    "platform.machine": "platform_machine",
    "platform.python_implementation": "platform_python_implementation",
    "python_implementation": "platform_python_implementation",
}
DEEPEST = 50  # levels of parentheses in a marker

_IDENTIFIER = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?(?![A-Za-z0-9_])")
_SPACE = re.compile(r"[ \t]*")
_URL = re.compile(r"@[ \t]*(\S+)(?:[ \t]+|$)")
_CLAUSES = re.compile(r"[\t -(*-:<-~]*")  # printable ASCII and tabs, up to `;` or `)`
_OPERATOR = re.compile(r"===|==|~=|!=|<=|>=|<|>|in\b|not[ \t]+in\b")
_OPERAND = re.compile(r"""(?P<quoted>'[^'\\]*'|"[^"\\]*")|(?P<name>[a-z_]+(?:\.[a-z_]+)?\b)""")
_JOIN = re.compile(r"(and|or)\b")

Operand = tuple[str, str]  # ("variable", "python_version") or ("text", "3.11")
Comparison = tuple[Operand, str, Operand]
Marker = Comparison | tuple[str, tuple["Marker", ...]]  # a comparison, or ("and"|"or", parts)


class RequirementError(ValueError):
    """Text that is not a dependency specifier, or a marker that cannot be decided."""


def normalise(name: str) -> str:
    """A distribution's name or extra in its one spelling (PEP 503): lower case, runs of -_. as one dash."""
    return re.sub(r"[-_.]+", "-", name).lower()


class Requirement:
    """One dependency specifier. `name` and `extras` are normalised; `specifier` is empty where a URL stands."""

    __slots__ = ("extras", "marker", "name", "specifier", "url")

    def __init__(
        self, name: str, extras: frozenset[str], specifier: SpecifierSet, url: str | None, marker: Marker | None
    ) -> None:
        self.name = name
        self.extras = extras
        self.specifier = specifier
        self.url = url
        self.marker = marker

    @classmethod
    def parse(cls, text: str) -> Requirement:
        """The requirement in `text`. Raises RequirementError, which says where reading stopped."""
        return _Reader(text.strip(" \t")).requirement()

    def applies(self, environment: Mapping[str, str]) -> bool:
        """Whether the marker holds in an environment such as `environment_of_this_python()`; no marker always holds."""
        return self.marker is None or evaluate(self.marker, environment)

    def __str__(self) -> str:
        """The one spelling of this requirement."""
        extras = f"[{','.join(sorted(self.extras))}]" if self.extras else ""
        url = f" @ {self.url}" if self.url else ""
        marker = f" ; {marker_text(self.marker)}" if self.marker else ""
        return f"{self.name}{extras}{self.specifier}{url}{marker}"

    def __repr__(self) -> str:
        return f"Requirement({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, Requirement) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))


class _Reader:
    """Reads one requirement from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0

    def fail(self, wanted: str) -> NoReturn:
        rest = self.text[self.place : self.place + 40]
        raise RequirementError(f"wanted {wanted} at {rest!a} in {self.text[:80]!a}")

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        match = pattern.match(self.text, self.place)
        if match is not None:
            self.place = match.end()
        return match

    def literal(self, text: str) -> bool:
        self.take(_SPACE)
        if not self.text.startswith(text, self.place):
            return False
        self.place += len(text)
        return True

    def requirement(self) -> Requirement:
        name = self.identifier("a package name")
        extras = self.extras() if self.literal("[") else frozenset()
        self.take(_SPACE)
        url, specifier = None, SpecifierSet()
        if (match := self.take(_URL)) is not None:
            url = match[1]
        else:
            specifier = self.versions()
        marker = None
        if self.literal(";"):
            marker = self.marker(0)
            self.take(_SPACE)
        if self.place != len(self.text):
            self.fail("the end, or `;` and a marker")
        return Requirement(name, extras, specifier, url, marker)

    def identifier(self, wanted: str) -> str:
        self.take(_SPACE)
        match = self.take(_IDENTIFIER)
        return normalise(match[0]) if match else self.fail(wanted)

    def extras(self) -> frozenset[str]:
        if self.literal("]"):
            return frozenset()
        found = {self.identifier("the name of an extra")}
        while self.literal(","):
            found.add(self.identifier("the name of an extra"))
        if not self.literal("]"):
            self.fail("`]` after the extras")
        return frozenset(found)

    def versions(self) -> SpecifierSet:
        bracket = self.literal("(")
        start = self.place
        match = self.take(_CLAUSES)
        assert match is not None  # it matches nothing, too
        try:
            clauses = match[0].split(",")
            if any(not clause.strip() for clause in clauses[:-1]) or (match[0].strip() == ","):
                raise SpecifierError
            specifier = SpecifierSet(match[0])
        except SpecifierError:
            self.place = start
            self.fail("version clauses such as `>=2.11,<2.14`")
        if bracket and not self.literal(")"):
            self.fail("`)` after the versions")
        return specifier

    def marker(self, depth: int) -> Marker:
        """`or` of `and`s, as in Python."""
        if depth > DEEPEST:
            self.fail(f"at most {DEEPEST} levels of parentheses")
        alternatives: list[list[Marker]] = [[self.atom(depth)]]
        while True:
            self.take(_SPACE)
            joined = self.take(_JOIN)
            if joined is None:
                break
            if joined[1] == "or":
                alternatives.append([])
            alternatives[-1].append(self.atom(depth))
        parts = tuple(part[0] if len(part) == 1 else ("and", tuple(part)) for part in alternatives)
        return parts[0] if len(parts) == 1 else ("or", parts)

    def atom(self, depth: int) -> Marker:
        if self.literal("("):
            inner = self.marker(depth + 1)
            if not self.literal(")"):
                self.fail("`)` in the marker")
            return inner
        left = self.operand()
        self.take(_SPACE)
        operator = self.take(_OPERATOR)
        if operator is None:
            self.fail("an operator such as `==` or `in`")
        sign = "not in" if operator[0].startswith("not") else operator[0]
        comparison: Comparison = (left, sign, self.operand())
        kinds = {comparison[0][0], comparison[2][0]}
        if kinds != {"variable", "text"}:
            self.fail("a marker variable on one side and quoted text on the other, before this")
        return comparison

    def operand(self) -> Operand:
        self.take(_SPACE)
        match = self.take(_OPERAND)
        if match is None:
            self.fail("a marker variable or quoted text")
        if match["quoted"]:
            return ("text", match["quoted"][1:-1])
        name = _OLD_SPELLINGS.get(match["name"], match["name"])
        if name not in VERSION_VARIABLES and name not in STRING_VARIABLES:
            self.place = match.start()
            self.fail("a marker variable such as python_version or sys_platform")
        return ("variable", name)


def evaluate(marker: Marker, environment: Mapping[str, str]) -> bool:
    """Whether a marker holds. Raises RequirementError where no rule decides it, or its variable is missing."""
    if len(marker) == 2:
        parts = (evaluate(part, environment) for part in marker[1])
        return all(parts) if marker[0] == "and" else any(parts)
    left, sign, right = marker
    name = left[1] if left[0] == "variable" else right[1]
    found = environment.get(name, "" if name == "extra" else None)
    if found is None:
        raise RequirementError(f"the environment says nothing of {name}")
    first, second = (found, right[1]) if left[0] == "variable" else (left[1], found)
    if name == "extra":
        first, second = normalise(first), normalise(second)
    return _compare(name, first, sign, second)


def _compare(name: str, first: str, sign: str, second: str) -> bool:
    if name in VERSION_VARIABLES and sign not in ("in", "not in"):
        try:
            return Specifier(f"{sign}{second}").contains(first)
        except SpecifierError:
            pass
    match sign:
        case "in":
            return first in second
        case "not in":
            return first not in second
        case "==" | "<=" | ">=":  # strings have no order: only the equality in these can hold
            return first == second
        case "!=":
            return first != second
        case "<" | ">":
            return False
    raise RequirementError(f"{sign} does not compare {first!a} with {second!a}")


def marker_text(marker: Marker, inner: bool = False) -> str:
    """A marker in its one spelling."""
    if len(marker) == 2:
        text = f" {marker[0]} ".join(marker_text(part, True) for part in marker[1])
        return f"({text})" if inner else text
    left, sign, right = marker
    sides = [name if kind == "variable" else _quoted(name) for kind, name in (left, right)]
    return f"{sides[0]} {sign} {sides[1]}"


def _quoted(text: str) -> str:
    return f"'{text}'" if '"' in text else f'"{text}"'


def environment_of_this_python() -> dict[str, str]:
    """The marker variables of the running interpreter."""
    import os  # late: most who import this module only parse
    import platform
    import sys

    kind = sys.implementation.version.releaselevel
    version = ".".join(str(part) for part in sys.implementation.version[:3])
    if kind != "final":
        version += kind[0] + str(sys.implementation.version.serial)
    full = platform.python_version()
    return {
        "implementation_name": sys.implementation.name,
        "implementation_version": version,
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": f"{full}local" if full.endswith("+") else full,  # an untagged build's lone `+`
        "platform_python_implementation": platform.python_implementation(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    }
