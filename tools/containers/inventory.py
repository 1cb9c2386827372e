"""The images of this project on an engine: which there are, whether they are current, removing what was replaced."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tools.containers import engine, naming
from tools.containers.engine import Client
from tools.environments.registry import requirement_text
from tools.environments.registry.registry import Registry

GIB = 2**30


@dataclass(frozen=True, slots=True)
class InventoryEntry:
    """One finished image."""

    profile: str
    tag: str
    image: str  # "sha256:..."
    size_gib: float
    created: str  # "2026-11-30"
    commit: str  # what it was built from; empty where nobody said
    state: str  # "current", or why it is not


def images(client: Client, registry: Registry) -> list[InventoryEntry]:
    """Every finished image with a name, in the registry's order."""
    with engine.told("the list of images"):
        found = client.images.list(filters={"label": naming.PROFILE})
    order = {name: place for place, name in enumerate(registry.profiles)}
    entries = [_entry(image, tag, registry) for image in found for tag in image.tags]
    return sorted(entries, key=lambda entry: (order.get(entry.profile, len(order)), entry.tag))


def prune(client: Client) -> tuple[int, float]:
    """Remove our images without a name; how many layers, and the GiB that came free. Named images keep their cache."""
    with engine.told("images to be removed"):
        answer = client.images.prune(filters={"dangling": True, "label": naming.OURS})
    removed = [entry for entry in answer.get("ImagesDeleted") or () if "Deleted" in entry]
    return len(removed), round(answer.get("SpaceReclaimed", 0) / GIB, 2)


def table(entries: list[InventoryEntry]) -> list[str]:
    """The images as lines of text."""
    head = ("profile", "image", "id", "GiB", "built", "commit", "state")
    rows = [
        (
            e.profile,
            e.tag,
            e.image.removeprefix("sha256:")[:12],
            f"{e.size_gib:.2f}",
            e.created,
            e.commit[:10] or "-",
            e.state,
        )
        for e in entries
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]


def _entry(image: Any, tag: str, registry: Registry) -> InventoryEntry:
    labels = image.labels
    profile = labels[naming.PROFILE]
    return InventoryEntry(
        profile=profile,
        tag=tag,
        image=str(image.id),
        size_gib=round(image.attrs["Size"] / GIB, 2),
        created=str(image.attrs["Created"])[:10],
        commit=labels.get(naming.COMMIT, ""),
        state=_state(profile, labels.get(naming.REQUIREMENTS, ""), registry),
    )


def _state(profile: str, digest: str, registry: Registry) -> str:
    if profile not in registry.profiles:
        return "its profile is gone from the registry"
    if not digest:
        return "what it was built from is not told"
    if digest != requirement_text.digest(registry.profiles[profile]):
        return f"older requirements: invoke image.build --profile {profile}"
    return "current"
