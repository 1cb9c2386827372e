"""The types of the registry's document, for the type checker; nothing imports this module when it runs."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from tools.environments.model import Layer


class TorchEntry(TypedDict):
    specifier: str
    build: str
    cuda: str | None
    index: str


class GpuEntry(TypedDict):
    count: int
    memory_gib: float
    driver_floor: str
    driver_native: str
    compute_capability: str


class HostEntry(TypedDict):
    systems: list[str]
    memory_gib: float
    download_gib: float
    disk_gib: float
    minutes: str


class RegistryEntry(TypedDict):
    """A profile with everything it extends."""

    id: str
    layer: Layer
    title: str
    title_zh: str
    purpose: str
    purpose_zh: str
    python: list[str]
    torch: TorchEntry | None
    requirements: list[str]
    constraints: list[str]
    capabilities: list[str]
    required_modules: list[str]
    gpu: GpuEntry | None
    host: HostEntry
    environment: str
    dtypes: list[str]
    experiments: list[str]
    judgements: list[str]
    tags: list[str]
    topic: str
    cuda130: NotRequired[bool]  # of a profile as it is written, never of what extends it
    companion_of: NotRequired[str]  # of a derived profile: its parent


class BuildTorchEntry(TypedDict):
    build: str
    cuda: str
    index: str


class SavesEntry(TypedDict):
    download_gib: float
    disk_gib: float


class BuildEntry(TypedDict):
    """In what a companion's build of torch differs from its parent's, whose build is `of`."""

    of: str
    torch: BuildTorchEntry
    driver: str
    saves: SavesEntry  # against the parent's size


class FamilyEntry(TypedDict):
    """Packages that stand for one capability, the layers that may hold it, and the fewest cards it is evidence for."""

    packages: list[str]
    layers: list[Layer]
    gpus: NotRequired[int]


class Isolation(TypedDict):
    """All families by name, and those of which an environment holds at most one."""

    families: dict[str, FamilyEntry]
    alone: list[str]


class TopicEntry(TypedDict):
    title: str
    title_zh: str
    quickstart: str
    assets: str
    generated: bool


class Document(TypedDict):
    schema_version: int
    isolation: Isolation
    cuda130: BuildEntry
    topics: dict[str, TopicEntry]
    templates: dict[str, dict[str, Any]]  # any of an entry's fields
    profiles: list[dict[str, Any]]  # the id and any of an entry's fields
