"""Rules between the parts of the registry: names that must exist, profiles that may not contradict the isolation table.

Each rule names the place, what it wants, what it found and how to mend it. They run on profiles already built, so every
type is known here; the raw document's shape is registry_shape's affair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.environments.isolation import Isolation
from tools.environments.model import Profile
from tools.environments.registry_shape import refuse


def check_profiles(profiles: Mapping[str, Profile], isolation: Isolation, root: Path) -> None:
    """Refuse (LabError) the first profile that contradicts the rest. Pointers name the place in `profiles`."""
    environments: dict[str, str] = {}
    for place, profile in enumerate(profiles.values()):
        pointer = f"/profiles/{place}"
        owner = environments.setdefault(profile.environment, profile.id)
        if owner != profile.id:
            refuse(
                f"{pointer}/environment",
                "an environment of its own for each profile",
                f"{profile.environment!r}, which belongs to {owner}",
                "give it another name",
            )
        for field, names in (("requirements", profile.requirements), ("constraints", profile.constraints)):
            for number, name in enumerate(names):
                if not (root / "requirements" / name).is_file():
                    refuse(
                        f"{pointer}/{field}/{number}", "a file that exists", f"no requirements/{name}", "add the file"
                    )
        for rule, found, field, mend in contradictions(profile, isolation):
            refuse(f"{pointer}/{field}", rule, found, mend)


def contradictions(profile: Profile, isolation: Isolation) -> Iterator[tuple[str, str, str, str]]:
    """Where a profile's own fields contradict its layer or the isolation table: rule, found, field, mend."""
    torch, gpu, layer = profile.torch, profile.gpu, profile.layer
    if (torch is None) != (layer == "delivery"):
        yield (
            "torch in every layer but delivery",
            "none" if torch is None else torch.build,
            "torch",
            "change layer or torch",
        )
    elif torch is not None and (torch.build == "cpu") != (layer == "cpu"):
        yield (
            f"a {'CPU' if layer == 'cpu' else 'CUDA'} build of torch in layer {layer}",
            torch.build,
            "torch/build",
            ("CUDA builds belong to cuda and serving profiles"),
        )
    elif torch is not None and torch.cuda != cuda_of(torch.build):
        yield (
            f"cuda {cuda_of(torch.build)} for build {torch.build}",
            str(torch.cuda),
            "torch/cuda",
            "make the two agree",
        )
    if (gpu is None) != (layer in ("cpu", "delivery")):
        yield (
            f"{'no gpu' if layer in ('cpu', 'delivery') else 'a gpu'} in layer {layer}",
            ("null" if gpu is None else f"{gpu.count} card(s)"),
            "gpu",
            "change layer or gpu",
        )
    count = gpu.count if gpu else 0
    if ("multi-gpu" in profile.tags) != (count >= 2):
        yield (
            "the tag multi-gpu exactly where two or more cards are asked for",
            f"{count} card(s)",
            "tags",
            ("one card never stands as evidence for several"),
        )
    for tag in ("cpu", "cuda", "serving"):
        wanted = tag == {"delivery": "cpu"}.get(layer, layer) or (tag == "cuda" and layer == "serving")
        if (tag in profile.tags) != wanted:
            yield (
                f"the tag {tag} {'in' if wanted else 'outside'} layer {layer}",
                ", ".join(profile.tags),
                "tags",
                ("let the tags say the layer"),
            )
    yield from _capabilities(profile, isolation, count)


def _capabilities(profile: Profile, isolation: Isolation, cards: int) -> Iterator[tuple[str, str, str, str]]:
    alone = [name for name in profile.capabilities if name in isolation.alone]
    if len(alone) > 1:
        yield (
            "at most one capability that must be alone",
            " and ".join(alone),
            "capabilities",
            "make a profile for each",
        )
    for name in profile.capabilities:
        family = isolation.families[name]
        if profile.layer not in family.layers:
            yield (
                f"{name} only in {' or '.join(family.layers) or 'no layer'}",
                f"layer {profile.layer}",
                "capabilities",
                ("give it a profile of that layer"),
            )
        if family.gpus > cards and family.gpus > 1:
            yield f"{family.gpus} cards for {name}", f"{cards}", "gpu/count", "one card never stands for several"
    if profile.layer == "serving" and len(alone) != 1:
        yield "exactly one backend in a serving profile", "none", "capabilities", "name its backend"


def cuda_of(build: str) -> str | None:
    """The CUDA version in a build's name: `cu128` is 12.8, `cpu` is None."""
    return None if build == "cpu" else f"{build[2:-1]}.{build[-1]}"
