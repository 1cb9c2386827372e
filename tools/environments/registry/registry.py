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

from tools.environments.errors import EXIT_USAGE, LabError
from tools.environments.layout import ROOT
from tools.environments.model import Docs, GpuGate, HostGate, Profile, TorchPin
from tools.environments.registry import entry_reader, families

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.registry.entry_types import Document, GpuEntry, HostEntry, RegistryEntry


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
class Registry:
    """All profiles in the registry's order, and the digest that goes into each record."""

    profiles: Mapping[str, Profile]
    digest: str  # "sha256:..." of the document without its formatting
    topics: Mapping[str, Topic]
    document: Document  # as it was read, for what is not a profile: the isolation table, the templates

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

    def having(self, experiment: str) -> tuple[Profile, ...]:
        """The profiles that name an experiment among theirs, in the registry's order."""
        return tuple(profile for profile in self.profiles.values() if experiment in profile.experiments)

    def hint(self, profile: Profile, driver: str | None) -> str | None:
        """Of a profile and its companion the one that fits an NVIDIA driver ("580.65.06") best; None for neither."""
        found = _numbers(driver or "")
        fitting = [
            (needed, name)
            for name in self.pair(profile)
            if (gpu := self.profiles[name].gpu) is not None and found >= (needed := _numbers(gpu.driver_native))
        ]
        return max(fitting)[1] if fitting else None

    def pair(self, profile: Profile) -> tuple[str, ...]:
        """The ids of a profile with a companion and of that companion, from either of them; none for all others."""
        parent = profile.companion_of or profile.id
        beside = [other.id for other in self.profiles.values() if other.companion_of == parent]
        return (parent, *beside) if beside else ()


def load(root: Path = ROOT) -> Registry:
    """Read and check the registry of the checkout at `root`. LabError for anything wrong with it."""
    return _registry(*entry_reader.read(root))


def build(value: object, root: Path = ROOT) -> Registry:
    """The registry that a JSON document describes; the files it names are looked up under `root`."""
    return _registry(*entry_reader.check(value, root))


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """The three names most like a mistyped one, best first."""
    from difflib import get_close_matches  # late: it costs more than reading the registry does

    return get_close_matches(word, list(names), n=3, cutoff=0.4)


def _registry(document: Document, entries: Mapping[str, RegistryEntry]) -> Registry:
    topics = {name: Topic(name, **fields) for name, fields in document["topics"].items()}
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return Registry(
        profiles={name: _profile(entry, topics[entry["topic"]], document) for name, entry in entries.items()},
        digest="sha256:" + hashlib.sha256(canonical).hexdigest(),
        topics=topics,
        document=document,
    )


def _profile(entry: RegistryEntry, topic: Topic, document: Document) -> Profile:
    held = families.held(entry)
    anchor = entry["id"].lower()
    return Profile(
        id=entry["id"],
        layer=entry["layer"],
        title=entry["title"],
        title_zh=entry["title_zh"],
        purpose=entry["purpose"],
        purpose_zh=entry["purpose_zh"],
        python=tuple(entry["python"]),
        torch=TorchPin(**entry["torch"]) if entry["torch"] else None,
        requirements=tuple(entry["requirements"]),
        constraints=tuple(entry["constraints"]),
        required_modules=tuple(entry["required_modules"]),
        forbidden=families.forbidden(document["isolation"], held),
        gpu=_gpu(entry["gpu"]) if entry["gpu"] else None,
        host=_host(entry["host"]),
        environment=entry["environment"],
        dtypes=tuple(entry["dtypes"]),
        experiments=tuple(entry["experiments"]),
        tags=tuple(entry["tags"]),
        docs=Docs(f"{topic.quickstart}#{anchor}", f"{topic.assets}#{anchor}"),
        topic=topic.name,
        capabilities=held,
        judgements=tuple(entry["judgements"]),
        companion_of=entry.get("companion_of", ""),
    )


def _gpu(entry: GpuEntry) -> GpuGate:
    return GpuGate(
        count=int(entry["count"]),
        memory_gib=entry["memory_gib"],
        driver_floor=entry["driver_floor"],
        driver_native=entry["driver_native"],
        compute_capability=entry["compute_capability"],
    )


def _host(entry: HostEntry) -> HostGate:
    return HostGate(
        systems=tuple(entry["systems"]),
        memory_gib=entry["memory_gib"],
        download_gib=entry["download_gib"],
        disk_gib=entry["disk_gib"],
        minutes=entry["minutes"],
    )


def _numbers(driver: str) -> tuple[int, ...]:
    """A driver's version as numbers; what is not a number ends it, so an odd string compares as old."""
    numbers: list[int] = []
    for part in driver.strip().split("."):
        if not (part.isascii() and part.isdigit()):
            break
        numbers.append(int(part[:9]))
    return tuple(numbers)
