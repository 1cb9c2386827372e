"""Rules between the parts of the registry: names that must exist, profiles that may not contradict the isolation table.

Each refusal names the place, the rule, what was found and how to mend it. The entries are complete here and every field
has its shape; those are entry_reader's and shape's affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.environments.registry import companions
from tools.environments.registry.companions import refuse_at
from tools.environments.registry.families import IMPLIED
from tools.environments.registry.shape import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tools.environments.registry.entry_types import Document, Isolation, RegistryEntry

Finding = tuple[str, str, str, str]  # rule, found, field, mend
ONE_CARD = "one card never stands as evidence for several"


def check_references(document: Document, entries: Mapping[str, RegistryEntry]) -> None:
    """Refuse (LabError) a name that leads nowhere, a topic or a capability, and a document that two topics claim."""
    owners: dict[str, str] = {}
    for topic, fields in document["topics"].items():
        for field, page in (("quickstart", fields["quickstart"]), ("assets", fields["assets"])):
            owner = owners.setdefault(page, topic)
            if owner != topic:
                found = f"{page!r}, which belongs to {owner}"
                refuse(f"/topics/{topic}/{field}", "documents of its own for each topic", found, "name another one")
        if fields["generated"] and fields["quickstart"] == fields["assets"]:
            rule = "two documents of a generated topic, each written whole"
            refuse(f"/topics/{topic}/assets", rule, f"{fields['assets']!r} for both", "name another one")
    families = document["isolation"]["families"]
    for entry in entries.values():
        if entry["topic"] not in document["topics"]:
            refuse_at(document, entry, "topic", "a topic of this registry", repr(entry["topic"]), "add the topic")
        for number, name in enumerate(entry["capabilities"]):
            if name not in families or name in IMPLIED:
                mend = "add the family to the isolation table; torch and cuda follow from the torch pin"
                refuse_at(document, entry, f"capabilities/{number}", "a capability of the table", repr(name), mend)


def check_rules(document: Document, entries: Mapping[str, RegistryEntry], root: Path) -> None:
    """Refuse (LabError) the first profile that contradicts its layer, the isolation table, or another profile."""
    environments: dict[str, str] = {}
    measuring: dict[str, str] = {}  # experiment -> the first profile that has it
    one_card: dict[str, str] = {}  # the same with one card; without any it runs over gloo, and says cpu_mechanism
    for entry in entries.values():
        for experiment in entry["experiments"]:
            measuring.setdefault(experiment, entry["id"])
            if _cards(entry) == 1:
                one_card.setdefault(experiment, entry["id"])
    for entry in entries.values():
        name = entry["environment"]
        owner = environments.setdefault(name, entry["id"])
        if owner != entry["id"]:
            rule, found = "an environment of its own for each profile", f"{name!r}, which belongs to {owner}"
            refuse_at(document, entry, "environment", rule, found, "give it another name")
        for rule, found, field, mend in (
            *_files(entry, root),
            *_layer(entry),
            *_families(entry, document["isolation"]),
            *_judgements(entry, measuring),
            *companions.check(entry, document["cuda130"]),
        ):
            refuse_at(document, entry, field, rule, found, mend)
        for number, experiment in enumerate(entry["experiments"] if _cards(entry) > 1 else ()):
            if experiment in one_card:
                rule = "experiments of several cards apart from those of one"
                found = f"{experiment}, which {one_card[experiment]} runs too"
                fix = f"{ONE_CARD}: give it a name of its own"
                refuse_at(document, entry, f"experiments/{number}", rule, found, fix)


def _files(entry: RegistryEntry, root: Path) -> Iterator[Finding]:
    for field, names in (("requirements", entry["requirements"]), ("constraints", entry["constraints"])):
        for number, name in enumerate(names):
            if not (root / "requirements" / name).is_file():
                yield "a file that exists", f"no requirements/{name}", f"{field}/{number}", "add the file"


def _layer(entry: RegistryEntry) -> Iterator[Finding]:
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


def _families(entry: RegistryEntry, table: Isolation) -> Iterator[Finding]:
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


def _judgements(entry: RegistryEntry, measuring: Mapping[str, str]) -> Iterator[Finding]:
    """A delivery profile judges records and measures nothing; every other one measures and judges nothing."""
    judges = entry["layer"] == "delivery"
    wrong, right = ("experiments", "judgements") if judges else ("judgements", "experiments")
    if names := entry["experiments"] if judges else entry["judgements"]:
        yield f"{right}, not {wrong}, in layer {entry['layer']}", names[0], f"{wrong}/0", f"name it in {right}"
    for number, name in enumerate(entry["judgements"]):
        if name in measuring:
            found, fix = f"{name}, an experiment of {measuring[name]}", "give it a name of its own"
            yield "judgements named apart from experiments", found, f"judgements/{number}", fix


def _cards(entry: RegistryEntry) -> int:
    return 0 if entry["gpu"] is None else int(entry["gpu"]["count"])


def cuda_of(build: str) -> str | None:
    """The CUDA version in a build's name: `cu128` is 12.8, `cpu` is None."""
    return None if build == "cpu" else f"{build[2:-1]}.{build[-1]}"
