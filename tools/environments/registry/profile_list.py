"""The list of profiles as a reader sees it: grouped by layer, each with its id, where it runs, and its title.

`listing` reads and checks the registry but makes no profiles of it: listing is what people do first and most, and
making the classes would double its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

Row = tuple[str, str, int, float, str]  # layer, id, cards, GiB to download, title


def listing(root: Path = ROOT) -> str:
    """The list for the checkout at `root`. LabError where its registry is broken."""
    _, entries = entry_reader.read(root)
    cards = {name: int(entry["gpu"]["count"]) if entry["gpu"] else 0 for name, entry in entries.items()}
    rows = ((e["layer"], name, cards[name], e["host"]["download_gib"], e["title"]) for name, e in entries.items())
    return _text(rows)


def render(registry: Registry) -> str:
    """The same list from a loaded registry."""
    profiles = registry.profiles.values()
    return _text((p.layer, p.id, p.gpu.count if p.gpu else 0, p.host.download_gib, p.title) for p in profiles)


def where(cards: int) -> str:
    """Where a profile runs, in a word or two: `CPU`, `1 GPU`, `2+ GPUs`."""
    return "CPU" if cards == 0 else "1 GPU" if cards == 1 else f"{cards}+ GPUs"


def _text(rows: Iterable[Row]) -> str:
    table = list(rows)
    width = max(len(name) for _, name, *_ in table)
    blocks = []
    for layer, heading in HEADINGS.items():
        lines = [
            f"  {name:{width}}  {where(cards):7}  {size:4.1f} GiB  {title}"
            for of, name, cards, size, title in table
            if of == layer
        ]
        if lines:
            blocks.append("\n".join([heading, *lines]))
    return "\n\n".join(blocks)
