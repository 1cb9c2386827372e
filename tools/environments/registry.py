"""The registry: requirements/environment-profiles.json, read, checked and turned into profiles.

Everything else follows from it, so a broken one is refused whole: with the place as a JSON pointer, the rule, and
how to mend it. `load` is the authority; the JSON Schema beside the file is for editors.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.environments import strict_json
from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.isolation import Family, Isolation
from tools.environments.layout import ROOT
from tools.environments.model import Docs, GpuGate, HostGate, Profile, TorchPin
from tools.environments.registry_rules import check_profiles
from tools.environments.registry_shape import DOCUMENT_SHAPE, ENTRY, NESTED, REGISTRY_NAME, refuse

Entry = dict[str, Any]  # one template or profile whose shape has been checked


@dataclass(frozen=True, slots=True)
class Topic:
    """A part of the tutorial with documents of its own. `generated`: its documents are written from the registry."""

    name: str
    title: str
    title_zh: str
    quickstart: str
    assets: str
    generated: bool


@dataclass(frozen=True, slots=True)
class DriverHint:
    """From this driver's major version on, this profile fits a machine best."""

    driver: str
    profile: str


@dataclass(frozen=True, slots=True)
class Registry:
    """All profiles in the registry's order, and the digest that goes into each record."""

    profiles: Mapping[str, Profile]
    digest: str  # "sha256:..." of the document without its formatting
    topics: Mapping[str, Topic]
    driver_hints: tuple[DriverHint, ...]  # newest driver first
    isolation: Isolation

    def get(self, profile_id: str) -> Profile:
        """The profile of this id. LabError (usage) with the nearest ids where there is none."""
        if profile_id in self.profiles:
            return self.profiles[profile_id]
        near = nearest(profile_id.upper(), self.profiles)
        offer = f"did you mean {', '.join(near)}? " if near else ""
        raise LabError(
            "a profile of the registry",
            ascii(profile_id)[:80],
            f"{offer}all of them: python tools/environment_preflight.py --list-profiles",
            where="--profile",
            code=EXIT_USAGE,
        )

    def hint(self, driver: str) -> str | None:
        """The training profile that fits an NVIDIA driver ("580.65.06"), or None below the oldest that has one."""
        found = _numbers(driver)
        return next((hint.profile for hint in self.driver_hints if found >= _numbers(hint.driver)), None)


def load(root: Path = ROOT) -> Registry:
    """Read and check the registry of the checkout at `root`. LabError for anything wrong with it."""
    return build(strict_json.read(root / REGISTRY_NAME, REGISTRY_NAME), root)


def build(document: object, root: Path = ROOT) -> Registry:
    """The registry that a JSON document describes; the files it names are looked up under `root`."""
    DOCUMENT_SHAPE(document, "")
    assert isinstance(document, dict)
    isolation = _isolation(document["isolation"])
    topics = {name: Topic(name, **fields) for name, fields in document["topics"].items()}
    profiles = _profiles(document, isolation, topics)
    check_profiles(profiles, isolation, root)
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    digest = "sha256:" + hashlib.sha256(canonical).hexdigest()
    return Registry(profiles, digest, topics, _hints(document["driver_hints"], profiles), isolation)


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """The three names most like a mistyped one, best first."""
    from difflib import get_close_matches  # late: it costs more than reading the registry does

    return get_close_matches(word, list(names), n=3, cutoff=0.4)


def _isolation(table: Entry) -> Isolation:
    families: dict[str, Family] = {}
    owner: dict[str, str] = {}
    for name, family in table["families"].items():
        for place, package in enumerate(family["packages"]):
            if package in owner:
                pointer = f"/isolation/families/{name}/packages/{place}"
                refuse(
                    pointer, "each package in one family", f"{package!r}, also in {owner[package]}", "keep it in one"
                )
            owner[package] = name
        families[name] = Family(name, tuple(family["packages"]), tuple(family["layers"]), int(family.get("gpus", 1)))
    for place, name in enumerate(table["alone"]):
        if name not in families:
            refuse(
                f"/isolation/alone/{place}", "a family of the table", repr(name), "add the family or remove the name"
            )
    for name in ("torch", "cuda"):
        if name not in families:
            refuse("/isolation/families", f"the family {name!r}", "none", "add it: CPU and delivery profiles forbid it")
    return Isolation(families, tuple(table["alone"]))


def _profiles(document: Entry, isolation: Isolation, topics: Mapping[str, Topic]) -> dict[str, Profile]:
    entries: dict[str, tuple[str, Entry]] = {n: (f"/templates/{n}", e) for n, e in document["templates"].items()}
    for place, entry in enumerate(document["profiles"]):
        if entry["id"] in entries:
            first = entries[entry["id"]][0]
            refuse(f"/profiles/{place}/id", "each id once", f"{entry['id']!r}, also at {first}", "rename one of them")
        entries[entry["id"]] = (f"/profiles/{place}", entry)
    profiles: dict[str, Profile] = {}
    for place, entry in enumerate(document["profiles"]):
        merged = _extended(entry["id"], entries)
        profiles[entry["id"]] = _profile(merged, f"/profiles/{place}", isolation, topics)
    for name in document["templates"]:
        _extended(name, entries)
    return profiles


def _extended(name: str, entries: Mapping[str, tuple[str, Entry]]) -> Entry:
    """The entry with everything it extends laid under it: objects merge field by field, all else is replaced."""
    chain = [name]
    while (above := entries[chain[-1]][1].get("extends")) is not None:
        pointer = f"{entries[chain[-1]][0]}/extends"
        if above not in entries:
            refuse(pointer, "a template or profile that exists", repr(above), f"choose one of {', '.join(entries)}")
        if above in chain:
            refuse(pointer, "extends that ends", " -> ".join([*chain, above]), "break the circle")
        chain.append(above)
    merged: Entry = {}
    for layer in reversed(chain):
        for key, value in entries[layer][1].items():
            below = merged.get(key)
            merged[key] = {**below, **value} if isinstance(value, dict) and isinstance(below, dict) else value
    return merged


def _profile(merged: Entry, pointer: str, isolation: Isolation, topics: Mapping[str, Topic]) -> Profile:
    for key in ENTRY:
        if key not in merged and key != "extends":
            refuse(f"{pointer}/{key}", f"the field {key!r}, here or in what it extends", "nothing there", "add it")
    for key, wanted in NESTED.items():
        for field in wanted if merged[key] is not None else ():
            if field not in merged[key]:
                refuse(f"{pointer}/{key}/{field}", f"the field {field!r}", "nothing there", "add it")
    if merged["topic"] not in topics:
        refuse(f"{pointer}/topic", f"one of the topics {', '.join(topics)}", repr(merged["topic"]), "add the topic")
    for place, name in enumerate(merged["capabilities"]):
        if name not in isolation.families or name in ("torch", "cuda"):
            mend = "add the family to the isolation table; torch and cuda follow from the torch pin"
            refuse(f"{pointer}/capabilities/{place}", "a capability of the isolation table", repr(name), mend)
    topic, torch = topics[merged["topic"]], TorchPin(**merged["torch"]) if merged["torch"] else None
    held = isolation.held(merged["capabilities"], torch)
    anchor = merged["id"].lower()
    return Profile(
        id=merged["id"],
        layer=merged["layer"],
        title=merged["title"],
        title_zh=merged["title_zh"],
        purpose=merged["purpose"],
        purpose_zh=merged["purpose_zh"],
        environment=merged["environment"],
        python=tuple(merged["python"]),
        requirements=tuple(merged["requirements"]),
        constraints=tuple(merged["constraints"]),
        required_modules=tuple(merged["required_modules"]),
        dtypes=tuple(merged["dtypes"]),
        experiments=tuple(merged["experiments"]),
        tags=tuple(merged["tags"]),
        torch=torch,
        gpu=GpuGate(**{**merged["gpu"], "count": int(merged["gpu"]["count"])}) if merged["gpu"] else None,
        host=HostGate(**{**merged["host"], "systems": tuple(merged["host"]["systems"])}),
        forbidden=isolation.forbidden(held),
        docs=Docs(f"{topic.quickstart}#{anchor}", f"{topic.assets}#{anchor}"),
        topic=topic.name,
        capabilities=held,
    )


def _hints(entries: list[Entry], profiles: Mapping[str, Profile]) -> tuple[DriverHint, ...]:
    for place, entry in enumerate(entries):
        if entry["profile"] not in profiles:
            refuse(f"/driver_hints/{place}/profile", "a profile of this registry", repr(entry["profile"]), "name one")
    return tuple(sorted((DriverHint(**e) for e in entries), key=lambda hint: _numbers(hint.driver), reverse=True))


def _numbers(driver: str) -> tuple[int, ...]:
    """A driver's version as numbers; what is not a number ends it, so an odd string compares as old."""
    numbers: list[int] = []
    for part in driver.strip().split("."):
        if not (part.isascii() and part.isdigit()):
            break
        numbers.append(int(part[:9]))
    return tuple(numbers)
