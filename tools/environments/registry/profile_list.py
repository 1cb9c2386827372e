"""The list of profiles as a reader sees it: grouped by layer, each with its id, where it runs, and its title.

A companion is set in under its parent.

`listing` reads and checks the registry but makes no profiles of it: listing is what people do first and most, and
making the classes would double its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tools.environments.layout import ROOT
from tools.environments.registry import entry_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.registry.registry import Registry

HEADINGS: Mapping[str, str] = {
    "cpu": "CPU",
    "delivery": "Delivery, on CPU and without torch",
    "cuda": "CUDA mechanisms and training",
    "serving": "Serving backends, each alone",
}

Row = tuple[
    str, str, bool, int, float, str, Sequence[str]
]  # layer, id, companion?, cards, GiB to download, title, judges


def listing(root: Path = ROOT) -> str:
    """The list for the checkout at `root`. LabError where its registry is broken."""
    _, entries = entry_reader.read(root)
    cards = {name: int(entry["gpu"]["count"]) if entry["gpu"] else 0 for name, entry in entries.items()}
    return _text(
        (
            entry["layer"],
            name,
            "companion_of" in entry,
            cards[name],
            entry["host"]["download_gib"],
            entry["title"],
            entry["judgements"],
        )
        for name, entry in entries.items()
    )


def render(registry: Registry) -> str:
    """The same list from a loaded registry."""
    profiles = registry.profiles.values()
    return _text(
        (p.layer, p.id, bool(p.companion_of), p.gpu.count if p.gpu else 0, p.host.download_gib, p.title, p.judgements)
        for p in profiles
    )


def where(cards: int) -> str:
    """Where a profile runs, in a word or two: `CPU`, `1 GPU`, `2+ GPUs`."""
    return "CPU" if cards == 0 else "1 GPU" if cards == 1 else f"{cards}+ GPUs"


def _text(rows: Iterable[Row]) -> str:
    table = [
        (layer, f"  {name}" if companion else name, where(cards), size, f"{title}{_judging(judges)}")
        for layer, name, companion, cards, size, title, judges in rows
    ]
    width = max(len(name) for _, name, *_ in table)
    blocks = []
    for layer, heading in HEADINGS.items():
        lines = [
            f"  {name:{width}}  {place:7}  {size:4.1f} GiB  {title}"
            for of, name, place, size, title in table
            if of == layer
        ]
        if lines:
            blocks.append("\n".join([heading, *lines]))
    return "\n\n".join(blocks)


def _judging(names: Sequence[str]) -> str:
    return f"; judges {', '.join(names)}" if names else ""
