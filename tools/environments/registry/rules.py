"""Rules between the parts of the registry: names that must exist, profiles that may not contradict the isolation table.

Each refusal names the place, the rule, what was found and how to mend it. The entries are complete here and every field
has its shape; those are entry_reader's and shape's affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.environments.registry.families import IMPLIED
from tools.environments.registry.shape import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.registry.entry_types import Document, Entry, Isolation

Finding = tuple[str, str, str, str]  # rule, found, field, mend
ONE_CARD = "one card never stands as evidence for several"


def check_references(document: Document, entries: Mapping[str, Entry]) -> None:
    """Refuse (LabError) a name that leads nowhere: a topic, a capability, a hinted profile."""
    families = document["isolation"]["families"]
    for place, entry in enumerate(entries.values()):
        if entry["topic"] not in document["topics"]:
            refuse(f"/profiles/{place}/topic", "a topic of this registry", repr(entry["topic"]), "add the topic")
        for number, name in enumerate(entry["capabilities"]):
            if name not in families or name in IMPLIED:
                mend = "add the family to the isolation table; torch and cuda follow from the torch pin"
                refuse(f"/profiles/{place}/capabilities/{number}", "a capability of the table", repr(name), mend)
    for place, hint in enumerate(document["driver_hints"]):
        if hint["profile"] not in entries:
            refuse(f"/driver_hints/{place}/profile", "a profile of this registry", repr(hint["profile"]), "name one")


def check_rules(document: Document, entries: Mapping[str, Entry], root: Path) -> None:
    """Refuse (LabError) the first profile that contradicts its layer, the isolation table, or another profile."""
    environments: dict[str, str] = {}
    one_card = {n: e["id"] for e in entries.values() if _cards(e) < 2 for n in e["experiments"]}
    for place, entry in enumerate(entries.values()):
        pointer, name = f"/profiles/{place}", entry["environment"]
        owner = environments.setdefault(name, entry["id"])
        if owner != entry["id"]:
            rule, found = "an environment of its own for each profile", f"{name!r}, which belongs to {owner}"
            refuse(f"{pointer}/environment", rule, found, "give it another name")
        for rule, found, field, mend in (
            *_files(entry, root),
            *_layer(entry),
            *_families(entry, document["isolation"]),
        ):
            refuse(f"{pointer}/{field}", rule, found, mend)
        for number, experiment in enumerate(entry["experiments"] if _cards(entry) > 1 else ()):
            if experiment in one_card:
                rule = "experiments of several cards apart from those of one"
                found = f"{experiment}, which {one_card[experiment]} runs too"
                refuse(f"{pointer}/experiments/{number}", rule, found, f"{ONE_CARD}: give it a name of its own")


def _files(entry: Entry, root: Path) -> Iterator[Finding]:
    for field, names in (("requirements", entry["requirements"]), ("constraints", entry["constraints"])):
        for number, name in enumerate(names):
            if not (root / "requirements" / name).is_file():
                yield "a file that exists", f"no requirements/{name}", f"{field}/{number}", "add the file"


def _layer(entry: Entry) -> Iterator[Finding]:
    """What a layer says of torch, of cards and of tags."""
    torch, gpu, layer = entry["torch"], entry["gpu"], entry["layer"]
    if (torch is None) != (layer == "delivery"):
        found = "null" if torch is None else torch["build"]
        yield "torch in every layer but delivery", found, "torch", "change the layer, or torch"
    elif torch is not None and (torch["build"] == "cpu") != (layer == "cpu"):
        rule = f"a {'CPU' if layer == 'cpu' else 'CUDA'} build of torch in layer {layer}"
        yield rule, torch["build"], "torch/build", "CUDA builds belong to cuda and serving profiles"
    elif torch is not None and torch["cuda"] != cuda_of(torch["build"]):
        rule = f"cuda {cuda_of(torch['build']) or 'null'} for build {torch['build']}"
        yield rule, torch["cuda"] or "null", "torch/cuda", "make the two agree"
    if (gpu is None) != (layer in ("cpu", "delivery")):
        rule = f"{'a gpu' if gpu is None else 'no gpu'} in layer {layer}"
        yield rule, f"{_cards(entry)} cards", "gpu", "change the layer, or gpu"
    wanted = {"cpu": ["cpu"], "delivery": ["cpu"], "cuda": ["cuda"], "serving": ["cuda", "serving"]}[layer]
    wanted = [*wanted, "multi-gpu"] if _cards(entry) > 1 else wanted
    if sorted(entry["tags"]) != sorted(wanted):
        rule = f"tags {', '.join(wanted)} in layer {layer} with {_cards(entry)} cards"
        yield rule, ", ".join(entry["tags"]) or "none", "tags", f"let the tags say layer and cards; {ONE_CARD}"


def _families(entry: Entry, table: Isolation) -> Iterator[Finding]:
    """What the isolation table says of the capabilities a profile states."""
    alone = [name for name in entry["capabilities"] if name in table["alone"]]
    if len(alone) > 1:
        found = " and ".join(alone)
        yield "at most one capability that must be alone", found, "capabilities", "make a profile for each"
    if entry["layer"] == "serving" and not alone:
        yield "exactly one backend in a serving profile", "none", "capabilities", "name its backend"
    for name in entry["capabilities"]:
        family = table["families"][name]
        if entry["layer"] not in family["layers"]:
            rule = f"{name} only in layer {' or '.join(family['layers']) or 'none'}"
            yield rule, f"layer {entry['layer']}", "capabilities", "give it a profile of that layer"
        if family.get("gpus", 1) > max(_cards(entry), 1):
            yield f"{family['gpus']} cards for {name}", f"{_cards(entry)}", "gpu/count", ONE_CARD


def _cards(entry: Entry) -> int:
    return 0 if entry["gpu"] is None else int(entry["gpu"]["count"])


def cuda_of(build: str) -> str | None:
    """The CUDA version in a build's name: `cu128` is 12.8, `cpu` is None."""
    return None if build == "cpu" else f"{build[2:-1]}.{build[-1]}"
