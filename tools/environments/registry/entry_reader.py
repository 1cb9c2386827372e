"""The registry's document as complete, checked entries: shape, `extends`, companions, the rules between its parts.

Entries are plain dictionaries. The rules work on them and the list of profiles is printed from them, so that reading
and checking a registry costs some milliseconds and not the import of dataclasses; registry.py makes profiles of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tools.environments import strict_json
from tools.environments.layout import ROOT
from tools.environments.registry.companions import FLAG, with_companions
from tools.environments.registry.families import check_table
from tools.environments.registry.requirements import check_requirements
from tools.environments.registry.rules import check_references, check_rules
from tools.environments.registry.shape import DOCUMENT_SHAPE, ENTRY, NESTED, REGISTRY_NAME, refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from tools.environments.registry.entry_types import Document, RegistryEntry

    Raw = Mapping[str, tuple[str, Mapping[str, Any]]]  # pointer and fields of each template and profile, by name


def read(root: Path = ROOT) -> tuple[Document, dict[str, RegistryEntry]]:
    """The registry of the checkout at `root`: its document, and its profiles by id. LabError where it is broken."""
    return check(strict_json.read(root / REGISTRY_NAME, REGISTRY_NAME), root)


def check(value: object, root: Path = ROOT) -> tuple[Document, dict[str, RegistryEntry]]:
    """The same for a document already read; the files it names are looked up under `root`."""
    DOCUMENT_SHAPE(value, "")
    document: Document = value  # type: ignore[assignment]  # its shape has just been checked
    check_table(document["isolation"])
    entries = with_companions(document, _complete(document))
    check_references(document, entries)
    check_rules(document, entries, root)
    check_requirements(document, entries, root)
    return document, entries


def _complete(document: Document) -> dict[str, RegistryEntry]:
    """Each profile with everything it extends, by id, in the registry's order."""
    raw: dict[str, tuple[str, Mapping[str, Any]]]
    raw = {name: (f"/templates/{name}", entry) for name, entry in document["templates"].items()}
    for place, entry in enumerate(document["profiles"]):
        if entry["id"] in raw:
            first = raw[entry["id"]][0]
            refuse(f"/profiles/{place}/id", "each id once", f"{entry['id']!r}, also at {first}", "rename one of them")
        raw[entry["id"]] = (f"/profiles/{place}", entry)
    for name in document["templates"]:
        _extended(name, raw)  # nor may a template that nobody uses be circular
    entries: dict[str, RegistryEntry] = {}
    for place, entry in enumerate(document["profiles"]):
        merged = _extended(entry["id"], raw)
        merged[FLAG] = entry.get(FLAG, False)  # a companion is asked for where its parent is written, never inherited
        _check_fields(merged, f"/profiles/{place}")
        entries[entry["id"]] = merged  # type: ignore[assignment]  # no field is missing, each has its shape
    return entries


def _extended(name: str, raw: Raw) -> dict[str, Any]:
    """An entry laid over everything it extends: objects merge field by field, all else is replaced."""
    chain = [name]
    while (above := raw[chain[-1]][1].get("extends")) is not None:
        pointer = f"{raw[chain[-1]][0]}/extends"
        if above not in raw:
            refuse(pointer, "a template or profile that exists", repr(above), f"choose one of {', '.join(raw)}")
        if above in chain:
            refuse(pointer, "extends that ends", " -> ".join([*chain, above]), "break the circle")
        chain.append(above)
    merged: dict[str, Any] = {}
    for layer in reversed(chain):
        for key, value in raw[layer][1].items():
            below = merged.get(key)
            merged[key] = {**below, **value} if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def _check_fields(merged: Mapping[str, Any], pointer: str) -> None:
    for key in ENTRY:
        if key not in merged and key != "extends":
            refuse(f"{pointer}/{key}", f"the field {key!r}, here or in what it extends", "nothing there", "add it")
    for key, wanted in NESTED.items():
        for field in wanted if merged[key] is not None else ():
            if field not in merged[key]:
                refuse(f"{pointer}/{key}/{field}", f"the field {field!r}", "nothing there", "add it")
