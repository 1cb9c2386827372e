"""Rules between a profile and its requirement files: no forbidden package, torch in exactly the build of its pin.

A range alone takes a CUDA build as soon as PyPI has a newer release, so wherever a torch line applies on Linux it must
name one version with the build as its local part. macOS wheels carry none, and have no CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.environments.registry.companions import refuse_at
from tools.environments.registry.families import forbidden, held
from tools.environments.registry.pep440 import SpecifierSet
from tools.environments.registry.requirement_text import RequirementLine, lines_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.registry.entry_types import Document, Isolation, RegistryEntry, TorchEntry

Finding = tuple[str, str, str]  # rule, found, mend
SYSTEMS: Mapping[str, Mapping[str, str]] = {  # what a marker can ask about each system a profile may name
    "linux-x86_64": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"},
    "linux-aarch64": {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "aarch64"},
    "darwin-arm64": {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64"},
}


def check_requirements(document: Document, entries: Mapping[str, RegistryEntry], root: Path) -> None:
    """Refuse (LabError) the first profile whose requirement files contradict it or the isolation table."""
    for entry in entries.values():
        lines = lines_of(entry["requirements"], entry["constraints"], root)
        wanted = [line for line in lines if isinstance(line, RequirementLine) and line.kind == "requirement"]
        for rule, found, mend in (*_packages(entry, wanted, document["isolation"]), *_torch(entry, wanted)):
            refuse_at(document, entry, "requirements", rule, found, mend)


def _at(line: RequirementLine) -> str:
    return f"{line.requirement} in requirements/{line.file}:{line.line}"


def _packages(entry: RegistryEntry, lines: Sequence[RequirementLine], table: Isolation) -> Iterator[Finding]:
    families = held(entry)
    banned = set(forbidden(table, families))
    for line in lines:
        if line.requirement.name in banned:
            rule = f"only what a {entry['layer']} profile with {', '.join(families) or 'no family'} may hold"
            yield rule, _at(line), "remove the line, or give this package a profile of its own"
    names = {line.requirement.name for line in lines}
    for family in entry["capabilities"] if entry["layer"] == "serving" else ():
        if family in table["alone"] and names.isdisjoint(table["families"][family]["packages"]):
            yield f"the backend {family}, which the profile says it holds", "no line asks for it", "add its requirement"


def _torch(entry: RegistryEntry, lines: Sequence[RequirementLine]) -> Iterator[Finding]:
    """The torch lines of a profile that has a pin, on each system and Python it supports."""
    if entry["torch"] is None:
        return  # then torch is forbidden, and the rule above says so
    torch = [line for line in lines if line.requirement.name == "torch"]
    for system in entry["host"]["systems"]:
        for python in entry["python"]:
            where = {
                **SYSTEMS[system],
                "python_version": python,
                "python_full_version": f"{python}.0",
                "os_name": "posix",
            }
            here = [line for line in torch if line.requirement.applies(where)]
            if not here:
                yield (
                    f"a torch line for {system}, Python {python}",
                    "none",
                    "add it to the torch file, which comes first",
                )
            for line in here:
                if (rule := _pinned(line, entry["torch"], local="linux" in system)) is not None:
                    yield rule, _at(line), "pin one version with its build; the registry's torch pin is the authority"


def _pinned(line: RequirementLine, pin: TorchEntry, local: bool) -> str | None:
    """The rule a torch line breaks, or None. `local`: the system's wheels carry the build as their local part."""
    clauses = list(line.requirement.specifier)
    version = clauses[0].version if len(clauses) == 1 and clauses[0].operator == "==" else None
    wanted = f"torch {pin['specifier']} in build {pin['build']}"
    if not local:
        return None if clauses and (version is None or not version.local) else wanted
    inside = (
        version is not None and SpecifierSet(pin["specifier"]).contains(version) and version.local_text == pin["build"]
    )
    return None if inside else f"{wanted}, pinned exactly"
