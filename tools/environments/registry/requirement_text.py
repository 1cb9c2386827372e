"""The requirement and constraint files of a profile as one flat list, and the digest that says whether they changed.

Reads what pip reads in a file, less what a registered file may not hold: editable installs, environment variables,
local paths, hashes, constraints with extras. All of these are refused with file and line, since pip would fail on some
of them only later, after a download.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from tools.environments.errors import LabError, unreadable
from tools.environments.layout import ROOT
from tools.environments.registry.pep508 import Requirement, RequirementError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.model import Profile

Kind = Literal["requirement", "constraint"]
_COMMENT = re.compile(r"(?:^|\s+)#.*$")
_OPTION = re.compile(r"(-[a-zA-Z]|--[a-z-]+)(?:\s*=\s*|\s+|(?<=^-[a-zA-Z])(?=\S)|$)(.*)")
_INCLUDES: dict[str, Kind] = {
    "-r": "requirement",
    "--requirement": "requirement",
    "-c": "constraint",
    "--constraint": "constraint",
}
_VALUED = {"-i": "--index-url", "-f": "--find-links"} | {
    name: name for name in ("--index-url", "--extra-index-url", "--find-links", "--no-binary", "--only-binary")
}
_FLAGS = ("--pre", "--no-index", "--prefer-binary")


class RequirementLine(NamedTuple):
    """One requirement or constraint, and where it stands: `file` from requirements/, `line` from 1."""

    requirement: Requirement
    file: str
    line: int
    kind: Kind


class OptionLine(NamedTuple):
    """An option for the installer, long name and value ("" for a flag), and where it stands."""

    option: str
    value: str
    file: str
    line: int


# The profiles share most of their lines, and checking the registry reads all of them.
_parse = functools.lru_cache(maxsize=1024)(Requirement.parse)

Line = RequirementLine | OptionLine


def flatten(profile: Profile, root: Path = ROOT) -> tuple[RequirementLine, ...]:
    """Every requirement and constraint of a profile in install order, includes followed, each file once.

    LabError with file and line for what is missing, circular or not understood.
    """
    return tuple(line for line in read(profile, root) if isinstance(line, RequirementLine))


def options(profile: Profile, root: Path = ROOT) -> tuple[OptionLine, ...]:
    """The index and other options in a profile's files, in order."""
    return tuple(line for line in read(profile, root) if isinstance(line, OptionLine))


def read(profile: Profile, root: Path = ROOT) -> tuple[Line, ...]:
    """Requirements, constraints and options of a profile, in order."""
    return lines_of(profile.requirements, profile.constraints, root)


def lines_of(requirements: Sequence[str], constraints: Sequence[str], root: Path = ROOT) -> tuple[Line, ...]:
    """The lines of these files, named from requirements/, and of what they include."""
    seen: set[tuple[str, Kind]] = set()
    lines: list[Line] = []
    for name in requirements:
        lines.extend(_file(name, "requirement", root / "requirements", (), seen))
    for name in constraints:
        lines.extend(_file(name, "constraint", root / "requirements", (), seen))
    return tuple(lines)


def files_of(name: str, root: Path = ROOT) -> tuple[str, ...]:
    """A requirement file and those it includes, named from requirements/, in order of their names."""
    seen: set[tuple[str, Kind]] = set()
    for _ in _file(name, "requirement", root / "requirements", (), seen):
        pass
    return tuple(sorted({file for file, _ in seen}))


def digest(profile: Profile, root: Path = ROOT) -> str:
    """`sha256:...` over what the files ask for. Comments, spacing and which file a line stands in do not change it."""
    import hashlib  # late: listing the profiles reads these files and needs no digest

    text = "\n".join(spelling(line) for line in read(profile, root))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def spelling(line: Line) -> str:
    """A line in its one spelling, as the digest takes it."""
    if isinstance(line, OptionLine):
        return f"option {line.option} {line.value}".rstrip()
    return f"{line.kind} {line.requirement}"


def _refuse(wanted: str, found: str, mend: str, file: str, line: int | None = None) -> NoReturn:
    place = f"requirements/{file}" + (f":{line}" if line else "")
    raise LabError(wanted, found, mend, where=place) from None


def _file(name: str, kind: Kind, folder: Path, above: tuple[str, ...], seen: set[tuple[str, Kind]]) -> Iterator[Line]:
    """The lines of one file and of those it includes, unless it was read before as the same kind."""
    if (name, kind) in seen:
        return
    seen.add((name, kind))
    for number, text in logical_lines(_text(folder / name, name)):
        if "${" in text:
            _refuse("a line that is the same everywhere", "an environment variable", "write the value", name, number)
        if not text.startswith("-"):
            yield RequirementLine(_requirement(text, kind, name, number), name, number, kind)
            continue
        match = _OPTION.fullmatch(text)
        option, value = (match[1], match[2].strip()) if match else (text.split()[0], "")
        if option not in _INCLUDES:
            yield _option(option, value, name, number)
            continue
        if kind == "constraint":
            _refuse("constraints only", f"{option} {value}", "name that file in the registry instead", name, number)
        target = _included(value, name, number, folder)
        if target in (*above, name):
            circle = " -> ".join((*above, name, target))
            _refuse("includes that end", circle, "remove this line or the one that leads here", name, number)
        yield from _file(target, _INCLUDES[option], folder, (*above, name), seen)


def _text(path: Path, name: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise unreadable(error, f"requirements/{name}") from None
    except UnicodeDecodeError as error:
        _refuse("UTF-8 text", f"a byte at offset {error.start} that is not", "save the file as plain UTF-8", name)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines joined at a trailing backslash and without comments; the number is that of the first. As pip does it."""
    held: list[str] = []
    first = 0
    for number, line in enumerate([*text.splitlines(), ""], 1):
        comment = _COMMENT.match(line)
        first = first if held else number
        if line.endswith("\\") and not comment:
            held.append(line.strip("\\"))
            continue
        whole = _COMMENT.sub("", "".join([*held, " " + line if comment else line])).strip()
        held = []
        if whole:
            yield first, whole


def _included(value: str, file: str, line: int, folder: Path) -> str:
    """An included file's name from requirements/, for a value relative to the file it stands in."""
    parts: list[str] = file.split("/")[:-1]
    for part in value.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    name = "/".join(parts)
    if not value or value.startswith("/") or ".." in parts or "://" in value:
        _refuse("a file under requirements/", repr(value), "keep included files there", file, line)
    if not (folder / name).is_file():
        _refuse(
            "an included file that exists", f"no requirements/{name}", "add the file or remove this line", file, line
        )
    return name


def _requirement(text: str, kind: Kind, file: str, line: int) -> Requirement:
    try:
        requirement = _parse(text)
    except RequirementError as error:
        _refuse("a requirement such as `name>=1,<2`", str(error), "mend this line", file, line)
    if kind == "constraint" and (requirement.extras or requirement.url):
        _refuse("a constraint: name and versions", text, "leave out extras and URLs", file, line)
    return requirement


def _option(option: str, value: str, file: str, line: int) -> OptionLine:
    if option in _VALUED and value:
        return OptionLine(_VALUED[option], value, file, line)
    if option in _FLAGS and not value:
        return OptionLine(option, "", file, line)
    known = ", ".join(sorted({*_INCLUDES, *_VALUED, *_FLAGS}))
    _refuse(f"one of {known}", f"{option} {value}".strip(), "remove this line", file, line)
